"""A process whose caches are empty, but for the compiled Mojo kernels, which take a minute."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

from torch_max_backend.lowering import mojo_kernels


def environment(folder: Path) -> dict[str, str]:
    """The variables of a process that keeps its artifacts and traced graphs below `folder`."""
    cache = folder / "cache"
    cache.mkdir()
    mojo_kernels.precompile(mojo_kernels.package())
    (cache / "kernels").symlink_to(mojo_kernels.package().parent)
    return {
        **os.environ,
        "TORCH_MAX_BACKEND_CACHE_DIR": str(cache),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
    }


def script(folder: Path, source: str) -> Path:
    """`source`, which may be indented, as a file to run."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(source))
    return path
