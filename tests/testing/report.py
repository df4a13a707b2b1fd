"""Writes Markdown reports: one page per model, and an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.testing.mermaid import mermaid_block
from tests.testing.runner import RunResult
from tests.testing.statistics import collect


def model_page(result: RunResult) -> str:
    """The page of one model."""
    spec = result.spec
    lines = [f"# {spec.name}", "", f"{spec.category}: {spec.description}", ""]
    lines += [f"**{'passed' if result.passed else 'FAILED'}**", ""]
    if result.error:
        lines += ["```", result.error, "```", ""]
    if result.report is not None:
        lines += ["```", str(result.report), "```", ""]
    if result.ir is None:
        return "\n".join(lines)
    ir = result.ir
    lines += [
        "| | |",
        "|---|---|",
        f"| nodes | {len(ir.nodes)} |",
        f"| weights | {len(ir.weights)} |",
    ]
    lines += [f"| file | {result.file_bytes} bytes |"]
    lines += [f"| {name} | {seconds:.3f} s |" for name, seconds in result.seconds.items()]
    lines += [f"| input {meta.name} | `{meta.describe()}` |" for meta in ir.graph_inputs]
    lines += [f"| output {meta.name} | `{meta.describe()}` |" for meta in ir.graph_outputs]
    lines += ["", *_op_table(collect([result]).ops)]
    return "\n".join([*lines, "", mermaid_block(ir)])


def index_page(results: Sequence[RunResult]) -> str:
    """The index: totals, all models, and all ops that they use."""
    counts = collect(results)
    lines = [
        "# Test models",
        "",
        f"{counts.passed} passed, {counts.failed} failed; "
        f"largest absolute error {counts.max_abs_error:.3g}",
        "",
        "| category | passed |",
        "|---|---|",
    ]
    lines += [f"| {name} | {ok} of {total} |" for name, (ok, total) in counts.by_category.items()]
    lines += ["", "| model | category | result | nodes | max abs error |", "|---|---|---|---|---|"]
    for result in results:
        nodes = len(result.ir.nodes) if result.ir is not None else ""
        error = f"{result.report.max_abs_error:.3g}" if result.report is not None else ""
        lines.append(
            f"| [{result.spec.name}]({result.spec.name}.md) | {result.spec.category} | "
            f"{'passed' if result.passed else 'FAILED'} | {nodes} | {error} |"
        )
    lines += ["", *_op_table(counts.ops)]
    return "\n".join([*lines, ""])


def _op_table(ops: Counter[str]) -> list[str]:
    return ["| op | count |", "|---|---|", *(f"| {op} | {n} |" for op, n in ops.most_common())]


def write_reports(results: Sequence[RunResult], folder: Path) -> Path:
    """Write all pages, and return the path of the index."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        (folder / f"{result.spec.name}.md").write_text(model_page(result), encoding="utf-8")
    index = folder / "index.md"
    index.write_text(index_page(results), encoding="utf-8")
    return index
