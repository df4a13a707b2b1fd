"""`python -m torch_max_backend`."""

import sys

from torch_max_backend.cli import main

sys.exit(main())
