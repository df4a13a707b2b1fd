"""What the engines of one benchmark share: arguments, eager's result, exported files.

Each is made in a process of its own (`python -m benchmarks.prepare PART NAME BATCH FOLDER`): no
process that is measured also holds the model that it is compared with. Exports stay in
`build/benchmarks` for the next run, by the versions and sources that decide them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from benchmarks.catalogue import BENCHMARKS
from benchmarks.exported import export
from benchmarks.failure import reason

DECISIVE = ("catalogue.py", "convolution_networks.py", "exported.py", "models.py", "stepped.py")
PACKAGES = ("torch", "transformers", "onnx", "onnxscript", "openvino")


@dataclass(frozen=True)
class Given:
    """What a worker reads: see `reference`."""

    args: list[np.ndarray]
    state: int
    """As in `benchmarks.models.Benchmark`."""
    bytes_read: int
    calls: int
    """How many calls eager PyTorch's results were kept of."""


def reference(name: str, batch: int, folder: Path) -> None:
    """Write the arguments and eager's results: of one call, or of two if a call changes a state."""
    import torch

    from benchmarks import stepped
    from benchmarks.models import make
    from benchmarks.torch_engines import repeated

    args: tuple[torch.Tensor, ...] = ()
    state = bytes_read = 0
    if BENCHMARKS[name].kind in ("generate", "training"):
        run = stepped.start(name, batch, None)
    else:
        benchmark = make(name, batch)
        args, state, bytes_read = benchmark.args, benchmark.state, benchmark.bytes_read
        run = torch.no_grad()(repeated(benchmark.model, benchmark))
    calls = 1 if BENCHMARKS[name].kind == "inference" else 2  # others change a state
    np.savez(folder / "args.npz", *[arg.numpy() for arg in args])
    (folder / "expected").mkdir()
    for index in range(calls):
        np.save(folder / "expected" / f"{index}.npy", run().numpy())
    about = {"state": state, "bytes_read": bytes_read, "calls": calls}
    (folder / "given.json").write_text(json.dumps(about))


def read(folder: Path) -> Given:
    """What `reference` wrote, but for the results."""
    with np.load(folder / "args.npz") as kept:
        args = [kept[f"arr_{index}"] for index in range(len(kept.files))]
    return Given(args, **json.loads((folder / "given.json").read_text()))


def error(reference: Path, results: Path) -> float:
    """The largest difference of an engine's results from eager's; of tokens, how many differ."""
    worst = 0.0
    for path in sorted((reference / "expected").iterdir()):
        expected, actual = np.load(path), np.load(results / path.name)
        if actual.shape != expected.shape:
            raise ValueError(f"a result of shape {actual.shape}, expected {expected.shape}")
        if expected.dtype.kind == "i":
            worst = max(worst, float((actual != expected).sum()))
        elif not np.isfinite(actual).all():
            worst = float("inf")
        else:
            worst = max(worst, float(np.abs(actual - expected).max()))
    return worst


def key() -> str:
    """Versions and sources that decide what is prepared."""
    digest = hashlib.sha256()
    for name in PACKAGES:
        try:
            digest.update(f"{name} {version(name)}\n".encode())
        except PackageNotFoundError:
            digest.update(f"{name} absent\n".encode())
    for file in DECISIVE:
        digest.update(Path(__file__).with_name(file).read_bytes())
    return digest.hexdigest()[:12]


def prepared(part: str, name: str, batch: int, root: Path) -> Path:
    """The folder of one part (`reference`, `onnx`, `openvino`); raises RuntimeError if it fails."""
    folder = root / key() / f"{name}-{batch}-{part}"
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    arguments = [part, name, str(batch), str(unfinished)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.prepare", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        shutil.rmtree(unfinished)
        raise RuntimeError(f"{part}: {reason(done.stderr, done.returncode)}")
    try:
        unfinished.rename(folder)
    except OSError:  # another run was faster
        if not folder.is_dir():
            raise
        shutil.rmtree(unfinished)
    return folder


def main(part: str, name: str, batch: str, folder: str) -> None:
    if part == "reference":
        reference(name, int(batch), Path(folder))
    else:
        export(part, name, int(batch), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
