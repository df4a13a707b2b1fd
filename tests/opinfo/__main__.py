"""`python -m tests.opinfo`: run PyTorch's OpInfo samples on MAX, in as many runs as you like.

python -m tests.opinfo --lower-only                  find what is unsupported, without compiling
python -m tests.opinfo --limit 3 --minutes 10        continue for ten minutes
python -m tests.opinfo --limit 60                    continue with entries that ran fewer samples
python -m tests.opinfo --gradients --dtypes float64  forward and backward instead of inference
python -m tests.opinfo --limit 3 --fallback          run the unsupported entries with the fallback
python -m tests.opinfo --limit 3 --output docs       finish, and write docs/op_coverage.md
python -m tests.opinfo --dtypes --output docs        only write the page

Results are kept in docs/op_coverage.json (`--state`), and a run continues where the last one
stopped. Entries with few samples come first, because all of these can be run. Two processes at once
(`--part`) need two files; `--beside` adds the other file to the page.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from tests.opinfo import gradients, report, sweep
from tests.testing.samples import (
    LOWERED,
    OK,
    UNSUPPORTED,
    WRONG,
    Sample,
    Verdict,
    run,
    run_with_fallback,
    spread,
    totals,
    verdicts,
)


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    return int(part), int(parts)


def _settled(verdict: Verdict | None, again: set[str], limit: int) -> bool:
    """Whether an entry has run as much as is asked for; one unsupported sample is enough."""
    if verdict is None or verdict["status"] in again:
        return False
    wanted = len(spread(range(verdict["total"]), limit))
    return verdict["status"] != OK or report.was_run(verdict) >= wanted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtypes", nargs="*", default=["float32"])
    parser.add_argument("--ops", default="", help="only entries whose name holds this")
    parser.add_argument(
        "--part", type=_part, default=(0, 1), help="0/2, 1/2: halves, for two processes at once"
    )
    parser.add_argument("--limit", type=int, default=0, help="samples of an entry; 0 for all")
    parser.add_argument("--chunk", type=int, default=150, help="samples of one Module")
    parser.add_argument("--gradients", action="store_true", help="of a sum of all results")
    parser.add_argument("--lower-only", action="store_true", help="neither compile nor run")
    parser.add_argument("--retry", action="store_true", help="again what was unsupported or wrong")
    parser.add_argument("--fallback", action="store_true", help="the unsupported, through PyTorch")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no Module after these")
    parser.add_argument(
        "--state", type=Path, default=Path("docs/op_coverage.json"), help="results so far"
    )
    parser.add_argument("--beside", type=Path, nargs="*", default=[], help="for the page as well")
    parser.add_argument("--output", type=Path, help="folder for op_coverage.md")
    args = parser.parse_args()
    console = Console(width=160)
    end = time.monotonic() + 60 * args.minutes
    results: dict[str, dict[str, dict[str, Any]]] = (
        json.loads(args.state.read_text()) if args.state.is_file() else {}
    )
    for name in args.dtypes:
        dtype = getattr(torch, name)
        title = f"{report.GRADIENTS} {name}" if args.gradients else name
        entries = sweep.entries(args.ops)
        if args.fallback:
            strict = results.get(title, {})
            refused = {k for k in strict if strict[k]["status"] == UNSUPPORTED}
            entries = [entry for entry in entries if entry.formatted_name in refused]
            title += report.WITH_FALLBACK
        done = results.setdefault(title, {})
        again = set() if args.lower_only else {LOWERED}
        if args.retry:
            again |= {UNSUPPORTED, WRONG}
        waiting: list[Sample] = []
        entries = [
            entry
            for entry in entries
            if not _settled(done.get(entry.formatted_name), again, args.limit)
        ]
        entries.sort(key=lambda e: done.get(e.formatted_name, {"total": 0})["total"])
        part, parts = args.part
        entries = entries[part::parts]
        for number, entry in enumerate(entries, 1):
            kind = gradients if args.gradients else sweep
            waiting += kind.samples(entry, dtype, args.limit)
            if len(waiting) >= args.chunk or number == len(entries):
                if time.monotonic() > end:
                    break
                start = time.monotonic()
                if args.fallback:
                    run_with_fallback(waiting)
                else:
                    run(waiting, lower_only=args.lower_only)
                done.update(verdicts(waiting))
                args.state.write_text(json.dumps(results, indent=1) + "\n")
                seconds = time.monotonic() - start
                console.print(
                    f"{title}: {number} of {len(entries)} entries, {totals(done)}; "
                    f"{len(waiting)} samples in {seconds:.0f} s"
                )
                waiting = []
    for path in args.beside:
        results |= json.loads(path.read_text())
    if args.output:
        (args.output / "op_coverage.md").write_text(report.page(results, args.limit))


if __name__ == "__main__":
    main()
