"""What is kept of a compile that crashed, hung or ate the memory: enough to do it again.

<cache dir>/crashes/<time>-<process>/report.txt      what happened, where, versions, output
                                     0.mlirbc ...    the graphs, in MLIR's binary form
                                     kernels.txt     the Mojo packages that they use
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from torch_max_backend import flags
from torch_max_backend.engine import compile_worker, fingerprint
from torch_max_backend.engine.compile_worker import Job
from torch_max_backend.engine.compiler_process import CompilerCrash
from torch_max_backend.lowering.private_folder import make_private_folder

KEPT = 10
"""Reports; the oldest goes."""


def write(job: Job, crash: CompilerCrash, graphs: list[str]) -> Path:
    """Keep a report; `graphs` describes the graphs of the job. Returns its folder."""
    folder = _new_folder()
    for index, graph in enumerate(job.graphs):
        (folder / f"{index:03}.mlirbc").write_bytes(graph)
    (folder / "kernels.txt").write_text("\n".join(job.kernels) + "\n")
    (folder / "report.txt").write_text(
        f"{crash}\n\n"
        f"MAX {version('max')}, PyTorch {version('torch')}, Python {sys.version.split()[0]}, "
        f"{fingerprint.machine()}\n"
        f"To compile it again: {sys.executable} -P {compile_worker.__file__} {folder}\n\n"
        + "\n".join(graphs)
        + f"\n\nOutput of the compiler:\n{crash.output}\n"
    )
    return folder


def _new_folder() -> Path:
    try:
        crashes = flags.cache_dir() / "crashes"
        make_private_folder(crashes)
        folder = crashes / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns()}"
        folder.mkdir(mode=0o700)
    except OSError:  # no writable home, a full disk: the temporary folder may do
        return Path(tempfile.mkdtemp(prefix="torch_max_backend_crash_"))
    for old in sorted(crashes.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder
