"""`python -m torch_ir`: the same as the command `torch-ir`."""

import sys

from torch_ir.cli import main

if __name__ == "__main__":
    sys.exit(main())
