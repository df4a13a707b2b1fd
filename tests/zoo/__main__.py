"""`python -m tests.zoo [NAME ...] [--training] [--output docs]`: compare architectures with eager.

Architectures compile in batches, one Module each. Results are kept in `--state` and measured again
only if the backend's sources change.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from rich.console import Console

from tests.zoo import harness, report
from tests.zoo.architectures import ARCHITECTURES
from torch_max_backend.engine import fingerprint


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these classes of transformers")
    parser.add_argument("--training", action="store_true", help="one training step instead")
    parser.add_argument("--trace", action="store_true", help="only count what would run where")
    parser.add_argument("--batch", type=int, default=8, help="architectures of one Module")
    parser.add_argument("--batches", type=int, default=0, help="stop after so many; 0 for all")
    parser.add_argument("--state", type=Path, default=Path("docs/zoo.json"))
    parser.add_argument("--any-sources", action="store_true", help="keep results of older sources")
    parser.add_argument("--output", type=Path, help="folder for zoo.md")
    args = parser.parse_args()
    console = Console(width=140)
    done: dict[str, dict[str, object]] = {}
    if args.state.is_file():
        done = json.loads(args.state.read_text())
    if not args.any_sources:
        done = {k: line for k, line in done.items() if line["sources"] == fingerprint.sources()}
    step = "training" if args.training else "inference"
    waiting = [
        a
        for a in ARCHITECTURES
        if (not args.names or a.model in args.names)
        and (a.trains or not args.training)
        and (args.trace or done.get(f"{a.model} {step}", {}).get("error") is None)
    ]
    batches = [waiting[i : i + args.batch] for i in range(0, len(waiting), args.batch)]
    for batch in batches[: args.batches or None]:
        run = harness.trace if args.trace else harness.run
        for result in run(batch, training=args.training):
            line = {**dataclasses.asdict(result), "sources": fingerprint.sources()}
            kept = done.get(f"{result.name} {step}", line)
            if not args.trace or kept["error"] is None:
                done[f"{result.name} {step}"] = line
            console.print(report.line(line))
        args.state.parent.mkdir(exist_ok=True)
        args.state.write_text(json.dumps(done, indent=1))
    if args.output:
        (args.output / "zoo.md").write_text(report.page(list(done.values()), fingerprint.sources()))
    compared = {name: line for name, line in done.items() if line["error"] is not None}
    wrong = [name for name, line in compared.items() if not report.is_right(line)]
    if wrong:
        console.print(f"not as eager PyTorch: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
