"""`python -m tests`: run the test models without pytest.

--list-models; --category attention; --model causal; --output reports/
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.models import CATEGORIES, SPECS
from tests.testing.report import write_reports
from tests.testing.runner import run_spec


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 if all passed, 1 if one did not, 2 for a wrong name."""
    parser = argparse.ArgumentParser(prog="python -m tests", description="Run the test models.")
    parser.add_argument("--list-models", action="store_true", help="list them and do nothing else")
    parser.add_argument("--category", choices=CATEGORIES)
    parser.add_argument("--model", choices=sorted(SPECS))
    parser.add_argument("--output", type=Path, help="folder for Markdown reports")
    args = parser.parse_args(argv)
    specs = [
        spec
        for spec in SPECS.values()
        if args.category in (None, spec.category) and args.model in (None, spec.name)
    ]
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
    return 0 if results and all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
