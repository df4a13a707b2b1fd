"""`doctor`: is this machine fit to run models on MAX?"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import torch

from torch_max_backend import flags
from torch_max_backend.engine import artifacts, machine
from torch_max_backend.engine.module_compiler import processes
from torch_max_backend.frontend.compiler import max_backend
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.devices import get_accelerators
from torch_max_backend.lowering.private_folder import distrust, unwritable
from torch_max_backend.observe.stats import compile_stats

_FEATURES = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve", "bf16")
"""Instruction sets that decide the speed of products, where the machine has them."""
_CHILD_MIB = 3000


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    what: str
    text: str
    fault: str | None = None
    """What to do, if it must be mended; None if it is as it should be."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--device", default="cpu", help="the device of the smoke test: cpu (default), cuda:0, ..."
    )
    parser.add_argument(
        "--no-smoke", action="store_true", help="look around only; compile and run nothing"
    )


def run(args: argparse.Namespace) -> int:
    """Print what was found; 1 if something must be mended."""
    faults = 0
    for finding in findings(args.device, smoke=not args.no_smoke):
        faults += finding.fault is not None
        print(f"{'FAULT' if finding.fault else 'ok':<5}  {finding.what:<14} {finding.text}")
        if finding.fault:
            print(f"{'':<22}{finding.fault}")
    print(f"{faults} faults" if faults else "this machine is fit to run models on MAX")
    return int(faults > 0)


def findings(device: str, *, smoke: bool) -> Iterator[Finding]:
    """What there is to tell, in order; the slow part comes last."""
    yield from _versions()
    yield _processor()
    yield from _devices()
    yield from _caches()
    if smoke:
        yield smoke_test(device)


def _versions() -> Iterator[Finding]:
    yield Finding("Python", f"{platform.python_version()}, {platform.platform()}")
    wanted = {}
    for requirement in requires("torch-max-backend") or []:
        name = requirement.partition(";")[0]
        for separator in "<>=!~ ":
            name = name.partition(separator)[0]
        wanted[name] = requirement.partition(";")[0]
    for name in ("torch", "max"):
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Finding(name, "not installed", f"install it: pip install '{wanted.get(name)}'")
            continue
        needed = wanted.get(name, "")
        fits = all(_fits(found, bound) for bound in needed.removeprefix(name).split(","))
        fault = None if fits else f"this package needs {needed}"
        yield Finding(name, found, fault)


def _fits(found: str, bound: str) -> bool:
    """Whether a version meets `>=2.13` or `<2.14`, by its first two numbers."""
    numbers = tuple(int(n) for n in found.split("+")[0].split(".")[:2] if n.isdigit())
    limit = tuple(int(n) for n in bound.strip("<>= ").split(".")[:2] if n.isdigit())
    if bound.strip().startswith(">="):
        return numbers >= limit
    if bound.strip().startswith("<"):
        return numbers < limit
    return True


def _processor() -> Finding:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in lines.items()}
    flags_ = facts.get("flags", facts.get("Features", "")).split()
    has = [name for name in _FEATURES if name in flags_]
    name = facts.get("model name", platform.processor() or platform.machine())
    memory = machine.memory_mib()
    text = (
        f"{name}; {machine.processors()} processors, {memory / 1024:.1f} GiB, "
        f"{', '.join(has) or 'no known vector instructions'}; compiles in {processes()} processes"
    )
    little = memory < _CHILD_MIB
    fault = f"a compile of a large model takes about {_CHILD_MIB} MiB" if little else None
    return Finding("processor", text, fault)


def _devices() -> Iterator[Finding]:
    ours = [f"{device.label}:{device.id}" for device in get_accelerators()]
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    theirs = ["cpu", *(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(gpus))]
    yield Finding("MAX sees", ", ".join(ours))
    yield Finding("PyTorch sees", ", ".join(theirs))
    usable = min(gpus, len(ours) - 1)
    if not usable:
        text = "tensors on the CPU run on MAX"
        if gpus or len(ours) > 1:
            text += "; a GPU that only one of the two sees cannot be used"
        yield Finding("together", text)
        return
    command = "python -m torch_max_backend doctor --device cuda:0"
    yield Finding(
        "together",
        f"tensors on the CPU, and on cuda:0 to cuda:{usable - 1} of the same index. GPUs are "
        "untested: graphs were compiled for them, and never run. Prove that yours works with "
        f"`{command}`, then with `pytest -m gpu tests/gpu` in the repository: see `python -m "
        "torch_max_backend docs gpu`",
    )


def _caches() -> Iterator[Finding]:
    folder = flags.cache_dir()
    store = artifacts.default_store()
    reason = distrust(folder) or unwritable(folder)
    fault = f"{reason}; TORCH_MAX_BACKEND_CACHE_DIR names another folder" if reason else None
    limit = flags.cache_mb()
    size = store.size() / 2**20
    yield Finding("compiled", f"{size:.1f} of {limit} MiB in {folder}", fault)
    kernels = mojo_kernels.package()
    state = "compiled" if kernels.exists() else "not compiled yet: the first compile does it"
    yield Finding("kernels", f"{state}, {kernels}")


def smoke_test(device: str) -> Finding:
    """Compile a product with an activation for MAX, run it, and compare it with PyTorch.

    Seconds if it is in the cache, some 15 s the first time.
    """

    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ w), -1)

    start = time.perf_counter()
    before = compile_stats()
    try:
        generator = torch.Generator().manual_seed(0)
        x, w = (torch.randn(size, generator=generator) for size in ((8, 16), (16, 4)))
        x, w = x.to(device), w.to(device)
        compiled = torch.compile(product, backend=max_backend, options={"fallback": "error"})
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, w), product(x, w))
    except Exception as error:  # whatever is wrong with the machine, it is the answer
        lines = str(error).strip().splitlines() or [""]
        return Finding("smoke test", f"failed on {device}", f"{type(error).__name__}: {lines[0]}")
    seconds = time.perf_counter() - start
    cached = compile_stats()["modules"] == before["modules"]
    how = "found in the cache" if cached else "compiled"
    return Finding("smoke test", f"softmax(relu(x @ w)) on {device}: {how}, right, {seconds:.1f} s")
