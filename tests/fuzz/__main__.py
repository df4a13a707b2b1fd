"""`python -m tests.fuzz`: run random programs on MAX and compare them with eager PyTorch.

python -m tests.fuzz --programs 5000 --seed 300   seeds 300 to 5299
python -m tests.fuzz --programs 1 --seed 17       one program again
python -m tests.fuzz --show --seed 17             print it, and run nothing
python -m tests.fuzz --file tests/fuzz/corpus/x.py

A program that fails is shrunk and printed as Python, and written to the folder `--keep`.
The exit code is 1 if a program failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz import execute, generate, session
from tests.fuzz.source import load, source


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--module", type=int, default=generate.MODULE, help="programs of a Module")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no Module after these")
    parser.add_argument("--keep", type=Path, help="folder for the programs that fail")
    parser.add_argument("--no-shrink", action="store_true", help="print programs as they failed")
    parser.add_argument("--show", action="store_true", help="print the program of the seed")
    parser.add_argument("--file", type=Path, nargs="*", help="run these programs instead")
    args = parser.parse_args()
    if args.show:
        print(source(generate.program(args.seed), f"Seed {args.seed}."))
        return 0
    if args.file:
        outcomes = execute.run([load(path.read_text(), path.stem) for path in args.file])
        for path, outcome in zip(args.file, outcomes, strict=True):
            print(f"{path.name}: {outcome.status} {outcome.reason}")
        return int(any(outcome.failed for outcome in outcomes))
    end = time.monotonic() + 60 * args.minutes
    total: Counter[str] = Counter()
    failed = 0
    for first in range(args.seed, args.seed + args.programs, args.module):
        if time.monotonic() > end:
            break
        start = time.monotonic()
        last = min(first + args.module, args.seed + args.programs)
        report = session.run_seeds(range(first, last))
        total += report.counts()
        total["programs"] += len(report.programs)
        print(
            f"seeds {first} to {last - 1}: {dict(report.counts())} "
            f"in {time.monotonic() - start:.0f} s; so far {dict(total)}",
            flush=True,
        )
        for seed, outcome in report.outcomes.items():
            if outcome.status != execute.OK:
                print(f"  seed {seed}: {outcome.status}: {outcome.reason}", flush=True)
        failing = report.failing()
        failed += len(failing)
        if args.no_shrink:
            texts = {seed: source(p, f"Seed {seed}.") for seed, p in failing.items()}
        else:
            texts = session.shrunk(report) if failing else {}
        for seed, text in texts.items():
            print(f"\n# seed {seed}\n{text}", flush=True)
            if args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / f"seed_{seed}.py").write_text(text)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
