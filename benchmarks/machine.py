"""The machine that a run measures: processor, instruction sets, threads, versions."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "max", "onnxruntime", "openvino", "transformers")
FEATURES = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX-512 BF16",
    "amx_tile": "AMX",
}


def _cpuinfo(field: str) -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.is_file() else ():
        if line.startswith(field):
            return line.split(":", 1)[1].strip()
    return ""


def threads() -> int:
    """What every engine gets: the processors that this process may use, as MAX counts them."""
    return len(os.sched_getaffinity(0))


def features() -> str:
    """The instruction sets that the engines choose their kernels by."""
    flags = _cpuinfo("flags").split()
    present = [title for flag, title in FEATURES.items() if flag in flags]
    absent = [title for flag, title in FEATURES.items() if flag not in flags]
    return ", ".join(present or ["none of the known"]) + (
        f" (not {', '.join(absent)})" if absent else ""
    )


def _processor() -> str:
    """Its name, and its generation: a virtual machine may call all of them "AMD EPYC"."""
    name = _cpuinfo("model name")
    if not name:
        return platform.machine()
    family, model = _cpuinfo("cpu family"), _cpuinfo("model\t")
    return f"{name}, family {family}, model {model}" if family else name


def machine() -> str:
    """The CPU and the versions that were measured."""
    packages = []
    for name in PACKAGES:
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"{_processor()}, {features()}; {threads()} threads; {', '.join(packages)}"


def sources() -> str:
    """A hash of the package that is measured: its Python files and kernels."""
    package = Path(__file__).parent.parent / "torch_max_backend"
    digest = hashlib.sha256()
    for path in sorted(p for p in package.rglob("*") if p.suffix in (".py", ".mojo")):
        digest.update(f"{path.relative_to(package)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def grouped(results: Mapping[str, Mapping[str, Any]], what: str) -> dict[Any, list[str]]:
    """The names of results by how they were measured, most of them first."""
    found: dict[Any, list[str]] = {}
    for name, measured in results.items():
        found.setdefault(measured[what], []).append(name)
    return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))


def machines(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The machine of most results, and those of the others with their names."""
    (most, _), *others = grouped(results, "machine").items()
    lines = [f"Machine: {most}."]
    lines += [f"Measured on another one, {other}: {', '.join(names)}." for other, names in others]
    return "\n\n".join(lines)
