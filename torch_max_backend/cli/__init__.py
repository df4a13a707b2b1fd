"""`python -m torch_max_backend`: what is supported, what is kept on disk."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table

from torch_max_backend.engine import artifacts
from torch_max_backend.frontend.complex_numbers.arithmetic import in_real_numbers
from torch_max_backend.lowering import on_torch
from torch_max_backend.lowering.registry import (
    MAPPING_TORCH_ATEN_TO_MAX,
    decomposition_table,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m torch_max_backend", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    ops = commands.add_parser("ops", help="the core ATen ops and how each is served")
    ops.add_argument("--missing", action="store_true", help="only those that nothing serves")
    ops.add_argument("--json", action="store_true", help="machine-readable")
    ops.set_defaults(run=_ops)

    cache = commands.add_parser("cache", help="compiled graphs on disk")
    cache.add_argument("action", choices=["ls", "size", "clear"])
    cache.set_defaults(run=_cache)

    args = parser.parse_args(argv)
    return args.run(args)


def core_ops() -> list[torch._ops.OpOverload]:
    """Every overload that PyTorch tags as core ATen."""
    found = []
    for name in sorted(dir(torch.ops.aten)):
        packet = getattr(torch.ops.aten, name)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if torch.Tag.core in op.tags:
                found.append(op)
    return found


def op_support() -> dict[str, str]:
    """For each core overload: "lowered", "decomposed", "symbolic", "on PyTorch" or "missing"."""
    decomposed = decomposition_table()
    support = {}
    for op in core_ops():
        if MAPPING_TORCH_ATEN_TO_MAX.lookup(op) is not None:
            support[str(op)] = "lowered"
        elif op in on_torch.SYMBOLIC:
            support[str(op)] = "symbolic"
        elif op in decomposed or in_real_numbers(op) is not None:
            support[str(op)] = "decomposed"
        else:
            support[str(op)] = "on PyTorch" if on_torch.reason(op) is not None else "missing"
    return support


def _ops(args: argparse.Namespace) -> int:
    """Print the table; exit 1 if `--missing` finds any."""
    support = op_support()
    if args.missing:
        support = {op: how for op, how in support.items() if how == "missing"}
    if args.json:
        print(json.dumps(support, indent=1))
    else:
        reasons = {str(op): on_torch.reason(op) for op in core_ops()}
        for op, how in support.items():
            why = f"  ({reasons[op]})" if how == "on PyTorch" else ""
            print(f"{how:<11} {op}{why}")
        everything = op_support()
        counts = {
            how: list(everything.values()).count(how) for how in sorted({*everything.values()})
        }
        total = ", ".join(f"{count} {how}" for how, count in counts.items())
        print(f"core ATen: {len(everything)} overloads: {total}")
        print(f"lowerings in the table: {len(MAPPING_TORCH_ATEN_TO_MAX)}")
    return 1 if args.missing and support else 0


def _cache(args: argparse.Namespace) -> int:
    store = artifacts.default_store()
    if args.action == "size":
        print(f"{store.size() / 2**20:.1f} MiB of {store.limit / 2**20:.0f} in {store.modules}")
    elif args.action == "clear":
        print(f"removed {store.clear()} artifacts")
    else:
        table = Table("artifact", "MiB", "graphs", "last used")
        for artifact in store.artifacts():
            used = time.strftime("%Y-%m-%d %H:%M", time.localtime(artifact.used))
            size = f"{artifact.bytes / 2**20:.1f}"
            table.add_row(artifact.path.name, size, str(store.graphs_of(artifact)), used)
        Console().print(table)
    return 0
