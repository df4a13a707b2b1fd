"""`verify`: every entry of a package on MAX, compared with PyTorch's own run of its IR."""

from __future__ import annotations

import argparse

import torch

from torch_ir.executor import IRExecutor
from torch_ir.verifier import DEFAULT_TOLERANCE, compare_values
from torch_max_backend.compat.torch import pytree
from torch_max_backend.frontend.package.load import load_package, package_key
from torch_max_backend.tools.cli.run import (
    add_inputs,
    as_option_errors,
    call_of,
    entry_of,
    inputs_of,
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_inputs(parser)
    for name, kind in (("--rtol", "relative"), ("--atol", "absolute")):
        text = f"{kind} tolerance (default: %(default)s)"
        parser.add_argument(name, type=float, default=DEFAULT_TOLERANCE, help=text)


@as_option_errors()
def run(args: argparse.Namespace) -> int:
    """Print a line per entry; 1 if one of them differs."""
    key = package_key(args.key)
    package = load_package(args.package, public_key=key)
    names = list(package) if args.entry is None else [entry_of(package, args.entry)]
    same = True
    for name in names:
        # Entries share what they change: each is compared from the state that the package has.
        package = load_package(args.package, public_key=key, check_weights=False)
        ir, program = package.irs[name], package[name]
        positional, keyword = call_of(ir, inputs_of(args, ir))
        state = {key: tensor.clone() for key, tensor in program.state_dict().items()}
        executor = IRExecutor(ir, state, allow_surplus=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(args.seed)
            expected = executor.run(positional, keyword)
            torch.manual_seed(args.seed)
            actual = program(*positional, **keyword)
        pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(actual), strict=True)
        found = [compare_values(name, left, right, args.rtol, args.atol) for left, right in pairs]
        worst = max((item.max_abs_error for item in found), default=0.0)
        reasons = [item.reason for item in found if not item.matches]
        same = same and not reasons
        verdict = f"differs: {reasons[0]}" if reasons else "the same"
        print(f"{name}: {verdict} ({len(found)} results, max abs error {worst:.3g})")
    return 0 if same else 1
