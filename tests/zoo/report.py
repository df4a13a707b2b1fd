"""docs/zoo.md: one line per architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TOLERANCE = 1e-3
"""Largest absolute error, relative to the scale of a result."""

_HEAD = """# The zoo

Architectures of transformers, made from small configs with random weights (`tests/zoo`), compiled
with `max_backend` and compared with eager PyTorch on the CPU. `make zoo` writes this page; it goes
on where it stopped.

- *on MAX*, *on PyTorch*: ATen calls of the model's graphs. *breaks*: graph breaks, which are
  Dynamo's, the same for every backend.
- *error*: the largest absolute difference of any output (training: of the loss and any gradient),
  relative to the largest absolute value of that output (of a gradient: at least to a thousandth
  of the largest gradient).
- *compile*: seconds of MAX's compiler for the whole batch, over the number of architectures
  that were compiled in it as one Module (2 cores, shared with other work). A dash: traced and
  lowered (`python -m tests.zoo --trace`), not compiled.
"""


def is_right(line: Mapping[str, Any]) -> bool:
    """Whether the compiled model gives eager's results."""
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
    """The page; `sources` is the fingerprint of the package as it is."""
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
    told = f"{count} of the {len(results)} lines were taken before the package last changed.\n"
    return told if count else ""


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    right = sum(map(is_right, rows))
    compared = sum(r["error"] is not None for r in rows)
    whole = sum(r["on_torch"] == 0 for r in rows)
    unbroken = sum(not r["graph_breaks"] for r in rows)
    return (
        f"{len(rows)} architectures traced and lowered: {whole} ({whole / len(rows):.0%}) with "
        f"every node on MAX, {unbroken} without a graph break. {compared} of them compiled and "
        f"compared: {right} as eager PyTorch to {TOLERANCE:g}.\n"
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
        "\n".join(["What is not on MAX, and where Dynamo broke the graph:", "", *lines, ""])
        if lines
        else ""
    )
