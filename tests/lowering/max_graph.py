"""A MAX graph to build lowerings in: nothing is compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from max.graph import DeviceRef, Graph, TensorType

from torch_max_backend.lowering.devices import max_dtype
from torch_max_backend.lowering.types import MaxTensor, Size

CPU = DeviceRef.CPU()


@contextlib.contextmanager
def inputs(
    *shapes: Sequence[Size | str],
    dtypes: Sequence[torch.dtype] = (),
    kernels: Sequence[Path] = (),
) -> Iterator[list[MaxTensor]]:
    """Inside, a graph is open; yields its inputs. A size may be the name of a symbolic one."""
    kinds = [*dtypes, *[torch.float32] * (len(shapes) - len(dtypes))]
    types = [
        TensorType(max_dtype(dtype), list(shape), CPU)
        for shape, dtype in zip(shapes, kinds, strict=True)
    ]
    with Graph("test", input_types=types, custom_extensions=list(kernels)) as graph:
        yield [value.tensor for value in graph.inputs]
