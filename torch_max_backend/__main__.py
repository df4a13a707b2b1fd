"""`python -m torch_max_backend`."""

import sys

from torch_max_backend.tools.cli import main

sys.exit(main())
