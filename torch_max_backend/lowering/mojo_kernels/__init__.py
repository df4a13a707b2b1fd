"""Mojo kernels for what MAX's graph ops lack, lose NaN in, compute in 16 bits or compile slowly.

The folder's `.mojo` files form one Mojo package. It is precompiled once per machine into the cache
directory, under a name that is the hash of its sources and of MAX's version.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from max.dtype import DType
from max.graph import DeviceRef, TensorType, TensorValue, Value, ops

from torch_max_backend import flags
from torch_max_backend.errors import MaxCompilerError, PackageError
from torch_max_backend.lowering import devices, shapes
from torch_max_backend.lowering.devices import max_dtype
from torch_max_backend.lowering.private_folder import distrust, unwritable
from torch_max_backend.observe.held_warnings import warn

SOURCES = Path(__file__).parent

HOST_ONLY = frozenset(
    {
        "tmb_attention",
        "tmb_attention_gradient",
        "tmb_attention_gradient_masked",
        "tmb_attention_masked",
        "tmb_convolution",
        "tmb_filter_gradient",
        "tmb_image_program",
        "tmb_layer_norm",
        "tmb_layer_norm_gradient",
        "tmb_matmul",
        "tmb_matvec",
        "tmb_matvec_gated",
        "tmb_matvec_group",
        "tmb_packed_matmul",
        "tmb_packed_matmul_gated",
        "tmb_packed_matmul_group",
        "tmb_product",
        "tmb_put_lines",
        "tmb_update",
        "tmb_write_lines",
    }
)
"""Kernels that read tensors on the host: each calls `host_only` and does not compile for a GPU."""

Parameters = Mapping[str, bool | int | float | str | DType]
Outputs = Sequence[tuple[torch.dtype, Sequence[shapes.Size]]]
GpuForm = Callable[[Sequence[TensorValue], Outputs, Parameters], Sequence[TensorValue]]

GPU_FORMS: dict[str, GpuForm] = {}
"""What computes the results of a kernel on a GPU, if not the kernel itself (`gpu_forms.py`)."""


def _digest(folder: Path) -> str:
    digest = hashlib.sha256(version("max").encode())
    for path in sorted(folder.rglob("*.mojo")):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def package(folder: Path = SOURCES) -> Path:
    """Where the precompiled package of `folder` is, or will be after `precompile`."""
    folder = folder.resolve()
    if not (folder / "__init__.mojo").is_file():
        raise PackageError(f"{folder} is not a Mojo package: it has no __init__.mojo")
    # The compiler stores the file's stem as the module's name, so the stem must be final.
    name = f"tmb_{_digest(folder)}.mojoc"
    target = _kernel_folder(flags.cache_dir(), name) / name
    _SOURCES_OF[target] = folder
    return target


@functools.cache
def _kernel_folder(cache_dir: Path, name: str) -> Path:
    """Where a package is kept: for the machine, or where that is not possible for this process."""
    folder = cache_dir / "kernels"
    reason = distrust(cache_dir)
    if reason is None and _is_intact(folder / name):
        return folder  # a store that may be read, not written
    reason = reason or unwritable(folder)
    if reason is None:
        return folder
    warn(f"Mojo kernels are compiled for this process only: {reason}")
    temporary = Path(tempfile.mkdtemp(prefix="torch_max_backend_"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


def _is_intact(package: Path) -> bool:
    """Whether a precompiled package is there, as it was written."""
    try:
        return _checksum_file(package).read_text() == _checksum(package)
    except OSError:
        return False


def _checksum_file(package: Path) -> Path:
    return package.with_suffix(".blake2b")


def _checksum(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def packages(folders: Sequence[str] = ()) -> list[Path]:
    """Our own package and those of the user's folders, not precompiled yet."""
    return [package(), *(package(Path(folder)) for folder in folders)]


_SOURCES_OF: dict[Path, Path] = {}
"""The folder of each package that this process uses."""


@functools.cache
def precompile(target: Path) -> None:
    """Compile a package to the path from `package`, unless it exists: 30 s, once per machine."""
    from mojo.run import subprocess_run_mojo

    folder = _SOURCES_OF[target]

    def compile(package: Path) -> None:
        try:
            subprocess_run_mojo(
                ["precompile", str(folder), "-o", str(package)], capture_output=True, check=True
            )
        except subprocess.CalledProcessError as error:
            raise PackageError(
                f"Mojo could not compile {folder}:\n{error.stderr.decode(errors='replace')}"
            ) from error

    _build(target, compile)


def library(name: str, compile: Callable[[Path], None]) -> Path:
    """A shared library that is kept beside the packages; `compile` writes it where it is told."""
    target = _kernel_folder(flags.cache_dir(), name) / name
    _build(target, compile)
    return target


def _build(target: Path, compile: Callable[[Path], None]) -> None:
    """Let `compile` make a file, unless it is there."""
    if _is_intact(target):
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as staging:
        built = Path(staging) / target.name
        compile(built)
        checksum = _checksum_file(built)
        checksum.write_text(_checksum(built))
        # Each is replaced as a whole; between the two, a reader compiles the package again.
        os.replace(built, target)
        os.replace(checksum, _checksum_file(target))


def elementwise(name: str, *operands: TensorValue, dtype: DType | None = None) -> TensorValue:
    """A pointwise kernel over broadcast operands; the graph compiler fuses it with neighbours."""
    tensors = shapes.broadcast_tensors(*operands)
    first = tensors[0]
    out_type = TensorType(dtype or first.dtype, first.shape, first.device)
    return ops.custom(name, first.device, list(tensors), [out_type])[0].tensor


def pointwise(name: str) -> Callable[..., TensorValue]:
    """The pointwise kernel `name` as a function of its operands."""
    return functools.partial(elementwise, name)


def divide(self: TensorValue, other: TensorValue) -> TensorValue:
    """The quotient of floats, for all lowerings: MAX's division compiles slowly and loses NaN.

    MAX rewrites x / c as x * (1 / c), and compiles and runs a program to fold 1 / c, which adds 15
    to 40 s to a compile. It also folds 0 / x to 0, even where x is 0 or NaN.
    """
    return elementwise("tmb_divide", self, other)


def call(
    name: str,
    inputs: Sequence[TensorValue],
    outputs: Outputs,
    parameters: Parameters | None = None,
) -> list[TensorValue]:
    """A kernel with an `execute` method; `outputs` are the (dtype, shape) that it fills."""
    device = inputs[0].device
    if devices.is_gpu(device):
        if name in GPU_FORMS:
            return list(GPU_FORMS[name](inputs, outputs, parameters or {}))
        check_launched(name)
    types = [TensorType(max_dtype(dtype), list(shape), device) for dtype, shape in outputs]
    results = ops.custom(name, device, list(inputs), types, parameters=parameters)
    return [result.tensor for result in results]


def call_in_place(name: str, device: DeviceRef, inputs: Sequence[Value[Any]]) -> None:
    """A kernel that writes into its arguments and returns nothing."""
    if devices.is_gpu(device):
        check_launched(name)
    ops.inplace_custom(name, device, list(inputs))


def check_launched(name: str) -> None:
    """Raise unless the kernel can be launched on a GPU."""
    if name in HOST_ONLY:
        raise MaxCompilerError(f"the kernel {name} runs on the CPU only and has no GPU form")
