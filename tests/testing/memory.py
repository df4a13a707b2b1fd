"""How much memory this process has."""

from __future__ import annotations

import os
from pathlib import Path


def resident_mib() -> float:
    """Memory of this process that is in RAM, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
