"""`ops`: which core ATen ops are supported, and how."""

from __future__ import annotations

import argparse
import collections
import json

import torch

from torch_max_backend.compat.torch import OpOverload, OpOverloadPacket
from torch_max_backend.frontend.complex_numbers.arithmetic import rewrite_of
from torch_max_backend.lowering import aten_functions as _registered  # noqa: F401
from torch_max_backend.lowering import on_torch
from torch_max_backend.lowering.registry import (
    MAPPING_TORCH_ATEN_TO_MAX,
    decomposition_table,
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--missing", action="store_true", help="only those that are unsupported")
    parser.add_argument("--json", action="store_true", help="print a JSON object: op to support")


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 if `--missing` finds any."""
    everything = op_support()
    shown = everything
    if args.missing:
        shown = {op: how for op, how in everything.items() if how == "missing"}
    if args.json:
        print(json.dumps(shown, indent=1))
    else:
        reasons = {str(op): on_torch.reason(op) for op in core_ops()}
        for op, how in shown.items():
            why = f"  ({reasons[op]})" if how == "on PyTorch" else ""
            print(f"{how:<11} {op}{why}")
        counts = collections.Counter(everything.values())
        total = ", ".join(f"{counts[how]} {how}" for how in sorted(counts))
        print(f"core ATen: {len(everything)} overloads: {total}")
        print(f"lowerings in the table: {len(MAPPING_TORCH_ATEN_TO_MAX)}")
    return 1 if args.missing and shown else 0


def core_ops() -> list[OpOverload]:
    """Every overload that PyTorch tags as core ATen."""
    found = []
    for name in sorted(dir(torch.ops.aten)):
        packet = getattr(torch.ops.aten, name)
        if not isinstance(packet, OpOverloadPacket):
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
        elif op in decomposed or rewrite_of(op) is not None:
            support[str(op)] = "decomposed"
        else:
            support[str(op)] = "on PyTorch" if on_torch.reason(op) is not None else "missing"
    return support
