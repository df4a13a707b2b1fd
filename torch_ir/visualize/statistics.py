"""Counts of an IR: ops, weights and their bytes, by module and by dtype."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from torch_ir.ir import IR, OpNode, TensorMeta
from torch_ir.visualize.categories import category_of

__all__ = ["Share", "Statistics", "collect_statistics", "format_bytes", "format_count"]


@dataclass(frozen=True, slots=True)
class Share:
    """Number of tensors, elements and bytes of a part of the weights."""

    tensors: int
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of one IR. Subgraphs are included, tied weights are counted once."""

    nodes: int
    inputs: int
    outputs: int
    ops: dict[str, int]
    """op type -> number of nodes, most frequent first."""
    categories: dict[str, int]
    weights: Share
    """Parameters and buffers together; an IR does not distinguish them."""
    constants: Share
    modules: dict[str, Share]
    """Module path -> the weights under it, parents before children; "" is the whole model."""
    dtypes: dict[str, Share]
    """dtype -> weights of that dtype, largest first."""


def collect_statistics(ir: IR) -> Statistics:
    """Count `ir`. Raises ValueError for a weight whose size is not a number."""
    nodes: list[OpNode] = [*ir.nodes]
    for subgraph in ir.subgraphs.values():
        nodes += subgraph.nodes
    ops = Counter(node.op_type for node in nodes)
    categories: Counter[str] = Counter()
    for op, count in ops.items():
        categories[category_of(op)] += count

    by_module: dict[str, list[tuple[int, int]]] = defaultdict(list)
    by_dtype: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for meta in ir.weights:
        size = weight_size(meta)
        by_dtype[meta.dtype].append(size)
        parts = ir.weight_name_mapping.get(meta.name, meta.name).split(".")
        for length in range(len(parts)):
            by_module[".".join(parts[:length])].append(size)

    dtypes = {dtype: _share(sizes) for dtype, sizes in by_dtype.items()}
    constants = ((t.numel(), t.numel() * t.element_size()) for t in ir.constants.values())
    return Statistics(
        nodes=len(nodes),
        inputs=len(ir.graph_inputs),
        outputs=len(ir.graph_outputs),
        ops=dict(sorted(ops.items(), key=lambda item: (-item[1], item[0]))),
        categories=dict(sorted(categories.items(), key=lambda item: (-item[1], item[0]))),
        weights=_share(by_module.get("", [])),
        constants=_share(constants),
        modules={path: _share(sizes) for path, sizes in by_module.items()},
        dtypes=dict(sorted(dtypes.items(), key=lambda item: (-item[1].bytes, item[0]))),
    )


def weight_size(meta: TensorMeta) -> tuple[int, int]:
    """Elements and bytes of a tensor of fixed shape."""
    dtype = getattr(torch, meta.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(
            f"weight {meta.name!r} has the dtype {meta.dtype!r}, which PyTorch does not have"
        )
    sizes = [size for size in meta.shape if isinstance(size, int)]
    if len(sizes) != len(meta.shape):
        raise ValueError(f"weight {meta.name!r} has no fixed size: {meta.describe()}")
    elements = math.prod(sizes)
    return elements, elements * dtype.itemsize


def _share(sizes: Iterable[tuple[int, int]]) -> Share:
    sizes = list(sizes)
    return Share(len(sizes), sum(size[0] for size in sizes), sum(size[1] for size in sizes))


def format_count(number: int) -> str:
    """Three significant digits with a unit.

    >>> format_count(999), format_count(1_000), format_count(405_853_388_800)
    ('999', '1.00K', '406B')
    """
    return _scaled(number, 1000, ("", "K", "M", "B", "T", "Q"), "")


def format_bytes(number: int) -> str:
    """Bytes in binary units.

    >>> format_bytes(512), format_bytes(1536), format_bytes(497_759_232)
    ('512 B', '1.50 KiB', '475 MiB')
    """
    return _scaled(number, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), " ")


def _scaled(number: int, base: int, units: tuple[str, ...], gap: str) -> str:
    value = float(number)
    unit = 0
    while value >= base - 0.5 and unit < len(units) - 1:
        value /= base
        unit += 1
    if unit == 0:
        return f"{number}{gap}{units[0]}"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}{gap}{units[unit]}"
