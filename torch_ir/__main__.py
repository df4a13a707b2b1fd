"""Runs the command line: `python -m torch_ir` is the same as `torch-ir`."""

import sys

from torch_ir.cli import main

if __name__ == "__main__":
    sys.exit(main())
