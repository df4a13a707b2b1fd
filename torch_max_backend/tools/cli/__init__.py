"""`python -m torch_max_backend`: packages, what is supported, what is stored, the documentation.

Exit codes: 0 done; 1 the answer is no (`ops --missing` found some, `verify` found a difference); 2
it could not be done.
Results go to stdout, errors to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from torch_max_backend.errors import MaxCompilerError

COMMANDS = {
    "cache": "list, measure or remove the compiled graphs on disk",
    "compile": "compile exported programs (.pt2) or IR files (.json) to a package",
    "docs": "print a page of the documentation, or list the pages",
    "doctor": "tell whether this machine is fit to run models on MAX",
    "explain": "tell what a compile would do: what runs where, why, and what it costs",
    "inspect": "check a package's members against their checksums, and list them",
    "ops": "list the core ATen ops and how each is supported",
    "run": "run an entry of a package",
    "verify": "compare the entries of a package with PyTorch's own run of their graphs",
}
"""Each command is a module of its name, with `arguments(parser)` and `run(args)` -> exit code.
Only the one that is asked for is imported: PyTorch takes seconds, and not all need it."""


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_max_backend",
        description="compile and run packages, see what is supported and what is stored",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=purpose)
        if name in argv:
            module = importlib.import_module(f"{__name__}.{name}")
            module.arguments(command)
            command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    args = _parser(argv).parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has gone (`... ops | head`). Python flushes stdout again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except (MaxCompilerError, OSError) as error:
        print(f"torch_max_backend {args.command}: {error}", file=sys.stderr)
        return 2
