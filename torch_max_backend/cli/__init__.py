"""`python -m torch_max_backend`: what is supported, what is stored, and the documentation.

Exit codes: 0 done; 1 the answer is no (`ops --missing` found some); 2 it could not be done.
Results go to stdout, errors to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from torch_max_backend.cli import cache, docs, ops
from torch_max_backend.errors import MaxCompilerError

COMMANDS = (ops, cache, docs)
"""One module per command: `HELP`, `arguments(parser)`, and `run(args)`, which returns the code."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_max_backend",
        description="what torch_max_backend supports, what it has stored, and its documentation",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2]
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = _parser().parse_args(argv)
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
