"""The page of the zoo (docs/zoo.md): one row per architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TOLERANCE = 1e-3
"""Largest absolute error, relative to the scale of a result."""

_HEAD = """# Zoo

Architectures of transformers, built from small configs with random weights (`tests/zoo`), compiled
with `max_backend` and compared with eager PyTorch on the CPU. `make zoo` writes this page and
continues where an earlier run stopped.

- *on MAX*, *on PyTorch*: the number of ATen calls in the model's graphs.
- *breaks*: graph breaks. They are Dynamo's and are the same for every backend.
- *error*: the largest absolute difference of any output (in training: of the loss and any
  gradient), relative to the largest absolute value of that output. The scale of a gradient is at
  least a thousandth of the largest gradient.
- *compile*: seconds of MAX's compiler for a batch of architectures that compile as one Module, and
  the size of the batch (2 cores, shared with other work). A dash means traced and lowered
  (`python -m tests.zoo --trace`), but not compiled.
"""


def is_right(line: Mapping[str, Any]) -> bool:
    """Whether the compiled model gives the results of eager PyTorch."""
    return line["error"] is not None and line["error"] <= TOLERANCE


def line(result: Mapping[str, Any]) -> str:
    """A result as one line of text."""
    return (
        f"{result['name']} {result['step']}: {result['on_max']} on MAX, "
        f"{result['on_torch']} on PyTorch, {len(result['graph_breaks'])} breaks, "
        f"error {_error(result)}, {result['seconds']:.0f} s for {result['together']}"
        + (f", compiled {result['compiled_again']} again" if result["compiled_again"] else "")
    )


def _error(result: Mapping[str, Any]) -> str:
    return "—" if result["error"] is None else f"{result['error']:.1e}"


def page(results: Sequence[Mapping[str, Any]], sources: str) -> str:
    """The page; `sources` is the fingerprint of the package as it is now."""
    parts = [_HEAD, _older(results, sources)]
    for step, title in (("inference", "Inference"), ("training", "One training step")):
        rows = [r for r in results if r["step"] == step]
        families = list(dict.fromkeys(r["family"] for r in rows))
        rows.sort(key=lambda r: families.index(r["family"]))
        if rows:
            parts += [f"## {title}\n", _summary(rows), *_table(rows), _on_torch(rows)]
        else:
            parts.append(f"## {title}\n\nNot run yet.\n")
    return "\n".join(part for part in parts if part) + "\n"


def _older(results: Sequence[Mapping[str, Any]], sources: str) -> str:
    count = sum(r["sources"] != sources for r in results)
    told = f"{count} of the {len(results)} rows were measured before the package last changed.\n"
    return told if count else ""


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    right = sum(map(is_right, rows))
    compared = sum(r["error"] is not None for r in rows)
    whole = sum(r["on_torch"] == 0 for r in rows)
    unbroken = sum(not r["graph_breaks"] for r in rows)
    return (
        f"{len(rows)} architectures traced and lowered: {whole} ({whole / len(rows):.0%}) with "
        f"every node on MAX, {unbroken} without a graph break. {compared} were compiled and "
        f"compared: {right} match eager PyTorch to {TOLERANCE:g}.\n"
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| family | architecture | on MAX | on PyTorch | breaks | error | compile |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        compiled = f"{r['seconds']:.0f} s / {r['together']}" if r["together"] else "—"
        cells = [r["family"], r["name"], r["on_max"], r["on_torch"], len(r["graph_breaks"])]
        lines.append(f"| {' | '.join(map(str, cells))} | {_error(r)} | {compiled} |")
    return [*lines[:-1], f"{lines[-1]}\n"]


def _on_torch(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for r in rows:
        told = dict.fromkeys(reason.splitlines()[0] for reason in r["reasons"])
        lines += [f"- {r['name']}: {reason}" for reason in told]
        lines += [f"- {r['name']}: graph break, {reason}" for reason in r["graph_breaks"]]
    return (
        "\n".join(["Nodes that are not on MAX, and graph breaks:", "", *lines, ""]) if lines else ""
    )
