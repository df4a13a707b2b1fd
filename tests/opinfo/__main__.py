"""`python -m tests.opinfo [--dtypes float32] [--ops NAME] [--limit N] [--output docs]`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console

from tests.opinfo import report, sweep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", nargs="*", default=["float32"])
    parser.add_argument("--ops", default="", help="only entries whose name holds this")
    parser.add_argument("--limit", type=int, default=0, help="samples of an entry; 0 for all")
    parser.add_argument("--chunk", type=int, default=150, help="samples of one Module")
    parser.add_argument("--state", type=Path, default=Path("opinfo.json"), help="results so far")
    parser.add_argument("--output", type=Path, help="folder for op_coverage.md")
    args = parser.parse_args()
    console = Console()
    results: dict[str, dict[str, dict[str, object]]] = (
        json.loads(args.state.read_text()) if args.state.is_file() else {}
    )
    for name in args.dtypes:
        dtype = getattr(torch, name)
        done = results.setdefault(name, {})
        waiting: list[sweep.Sample] = []
        entries = [e for e in sweep.entries(args.ops) if e.formatted_name not in done]
        for number, entry in enumerate(entries, 1):
            waiting += sweep.samples(entry, dtype, args.limit)
            if len(waiting) >= args.chunk or number == len(entries):
                sweep.run(waiting)
                done.update(report.by_entry(waiting))
                args.state.write_text(json.dumps(results, indent=1, sort_keys=True))
                console.print(f"{name}: {number} of {len(entries)} entries, {report.totals(done)}")
                waiting = []
    if args.output:
        (args.output / "op_coverage.md").write_text(report.page(results, args.limit))


if __name__ == "__main__":
    main()
