"""`python -m tests.module_db [--modules NAME] [--limit N] [--lower-only] [--output docs]`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.module_db import report, sweep
from tests.testing import training
from tests.testing.samples import totals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", default="", help="only entries whose name holds this")
    parser.add_argument("--limit", type=int, default=0, help="samples of an entry; 0 for all")
    parser.add_argument("--chunk", type=int, default=60, help="samples of one Module")
    parser.add_argument("--lower-only", action="store_true", help="do not compile")
    parser.add_argument("--most", type=int, default=0, help="chunks of this run; 0 for all")
    parser.add_argument("--state", type=Path, default=Path("module_db.json"), help="so far")
    parser.add_argument("--output", type=Path, help="folder for module_coverage.md")
    args = parser.parse_args()
    console = Console()
    done: dict[str, dict[str, Any]] = (
        json.loads(args.state.read_text()) if args.state.is_file() else {}
    )
    waiting: list[sweep.Sample] = []
    chunks = 0
    entries = [info for info in sweep.entries(args.modules) if info.name not in done]
    for number, info in enumerate(entries, 1):
        waiting += sweep.samples(info, args.limit)
        if len(waiting) >= args.chunk or number == len(entries):
            training.run(waiting, lower_only=args.lower_only)
            done.update(report.by_module(waiting))
            args.state.write_text(json.dumps(done, indent=1, sort_keys=True))
            console.print(f"{number} of {len(entries)} modules: {totals(done)}")
            waiting = []
            chunks += 1
            if chunks == args.most:
                break
    if args.output:
        page = report.page(done, args.limit)
        (args.output / "module_coverage.md").write_text(page)


if __name__ == "__main__":
    main()
