"""`python -m tests.module_db [--modules NAME] [--limit N] [--lower-only | --fallback]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.module_db import report, sweep
from tests.testing.samples import (
    UNSUPPORTED,
    Sample,
    run,
    run_with_fallback,
    totals,
    verdicts,
)


def _with_fallback(
    args: argparse.Namespace, done: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The verdicts of the modules that were unsupported."""
    again = [
        sample
        for info in sweep.entries(args.modules)
        if done.get(info.name, {}).get("status") == UNSUPPORTED
        for sample in sweep.samples(info, args.limit)
    ]
    run_with_fallback(again)
    return verdicts(again)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", default="", help="only entries whose name holds this")
    parser.add_argument("--limit", type=int, default=0, help="samples of an entry; 0 for all")
    parser.add_argument("--chunk", type=int, default=60, help="samples of one Module")
    parser.add_argument("--lower-only", action="store_true", help="do not compile")
    parser.add_argument(
        "--fallback", action="store_true", help="the unsupported, PyTorch running what MAX cannot"
    )
    parser.add_argument("--most", type=int, default=0, help="chunks of this run; 0 for all")
    parser.add_argument(
        "--state", type=Path, default=Path("docs/module_coverage.json"), help="results so far"
    )
    parser.add_argument("--output", type=Path, help="folder for module_coverage.md")
    args = parser.parse_args()
    console = Console()
    done: dict[str, dict[str, Any]] = (
        json.loads(args.state.read_text()) if args.state.is_file() else {}
    )
    waiting: list[Sample] = []
    chunks = 0
    entries = [info for info in sweep.entries(args.modules) if info.name not in done]
    if args.fallback:
        entries = []
        for name, verdict in _with_fallback(args, done).items():
            done[name][report.WITH_FALLBACK] = verdict
            console.print(f"{name} with fallback: {verdict}")
        args.state.write_text(json.dumps(done, indent=1, sort_keys=True))
    for number, info in enumerate(entries, 1):
        waiting += sweep.samples(info, args.limit)
        if len(waiting) >= args.chunk or number == len(entries):
            run(waiting, lower_only=args.lower_only)
            done.update(verdicts(waiting))
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
