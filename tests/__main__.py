"""Runs the test models of torch_ir without pytest: `python -m tests --category attention`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.models import CATEGORIES, SPECS
from tests.testing.report import write_reports
from tests.testing.runner import run_spec


def main(argv: Sequence[str] | None = None) -> int:
    """Run the selected models; exit code 0 if all passed, 1 if one failed, 2 if none matches."""
    parser = argparse.ArgumentParser(
        prog="python -m tests",
        description="Extract, save, load, run and verify the test models of torch_ir.",
    )
    parser.add_argument("--list-models", action="store_true", help="list the models and exit")
    parser.add_argument("--category", choices=CATEGORIES, help="run the models of one category")
    parser.add_argument("--model", choices=sorted(SPECS), help="run one model")
    parser.add_argument("--output", type=Path, help="write Markdown reports to this folder")
    args = parser.parse_args(argv)
    specs = [
        spec
        for spec in SPECS.values()
        if args.category in (None, spec.category) and args.model in (None, spec.name)
    ]
    if not specs:
        print(f"the category {args.category} has no model {args.model}", file=sys.stderr)
        return 2
    if args.list_models:
        for spec in specs:
            print(f"{spec.category:18} {spec.name:18} {spec.description}")
        return 0
    results = []
    for spec in specs:
        result = run_spec(spec)
        results.append(result)
        error = result.report.max_abs_error if result.report is not None else float("nan")
        print(f"{'passed' if result.passed else 'FAILED'} {spec.name} (max abs error {error:.3g})")
        if not result.passed:
            print(result.error or result.report)
    if args.output is not None:
        print(write_reports(results, args.output))
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
