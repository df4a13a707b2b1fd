"""Writes docs/gpu_ops.md: what became of each op's rows on GPUs, by the files of a sweep.

python -m tests.gpu.report FOLDER docs/gpu_ops.md
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.gpu.compile_kernels import Kernels
from tests.gpu.kept_graphs import Kept
from torch_max_backend.lowering import mojo_kernels

HEAD = """\
# Ops on GPUs

Written by `python -m tests.gpu.report` from a sweep
([GPUs](gpu.md#prove-it-on-your-machine)). A row is a row of the op tests: an op, arguments, a
dtype. **Nothing here has run on a GPU.**

- *lowered*: the op's graph on `cuda:0` is a MAX graph. Of the others the reason is below.
- *emitted*: MAX's graph compiler wrote the graph's kernels as Mojo.
- *compiled*: Mojo's compiler translated each kernel of the row, or one that is alike, to the
  GPU's assembly. Kernels are alike if they call the same functions with the same dtypes and
  parameters: they differ in sizes, number of dimensions, constants and order of operands alone.
- *all its calls compiled*: each function that its kernels call, with each parameter and dtype, is
  in a kernel that compiled, but some of its kernels were not compiled as they are.
- *by MAX*: MAX's compiler made an artifact of the whole graph, with the code for the host.
"""

NAME = 60
"""Characters of an op's name; a row of many ops has all of their names."""

COMPILED, CALLS, FAILED, LEFT = "compiled", "all its calls compiled", "failed", "not tried"
"""What a row can be for a GPU, if its graph was emitted."""


def op_of(item: str) -> str:
    """The op of a row's id: `table-number-op-dtype`."""
    name = item.split("-", 2)[2].rsplit("-", 1)[0]
    for words in ("built-in function ", "built-in method ", "function ", " of type object"):
        name = name.replace(words, "")
    name = name.rstrip(">")
    return name if len(name) <= NAME else name[: NAME - 4] + " ..."


def architectures(kept: Kept) -> list[str]:
    """The GPUs of which something is known."""
    files = {file.name.split(".")[0] for file in kept.folder.glob("*.jsonl")}
    files -= {"lowered", "rejected"}
    return sorted(files, key=lambda arch: (not arch.startswith("sm_90"), arch))


def outcomes(kept: Kept, kernels: Kernels, arch: str) -> dict[str, str]:
    """By item whose graph was emitted: what became of its kernels for a GPU."""
    known = kept.kernels_compiled(arch)
    failed = {alike for alike, entry in known.items() if entry["outcome"] == "failed"}
    compiled = set(known) - failed
    calls = {call for alike in compiled & set(kernels.alike) for call in kernels.alike[alike].calls}
    found = {}
    for item, key in kept.keys(arch).items():
        if (alikes := kernels.of_graph.get(key)) is None:
            continue
        if alikes & failed:
            found[item] = FAILED
        elif alikes <= compiled:
            found[item] = COMPILED
        elif all(kernels.alike[alike].calls <= calls for alike in alikes):
            found[item] = CALLS
        else:
            found[item] = LEFT
    return found


def page(kept: Kept, kernels: Kernels) -> str:
    """The page: totals, why rows are not lowered, what failed, and a line per op."""
    items, archs = kept.items(), architectures(kept)
    by_arch = {arch: outcomes(kept, kernels, arch) for arch in archs}
    parts = [HEAD, _totals(kept, kernels, by_arch), _reasons(items)]
    parts += [_own(kept, kernels, archs)]
    parts += [_failed(kept, kernels, arch) for arch in archs]
    return "\n".join([*parts, _ops(items, by_arch)])


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] * len(head)
    return "".join("| " + " | ".join(line) + " |\n" for line in [head, rule, *lines])


def _totals(kept: Kept, kernels: Kernels, by_arch: Mapping[str, Mapping[str, str]]) -> str:
    items = kept.items()
    lowered = [entry["key"] for entry in items.values() if "key" in entry]
    emitted = sum(key in kernels.of_graph for key in lowered)
    kinds = f"{len(kernels.alike)} kernels that are not alike"
    lines = [["all", str(len(items)), ""]]
    lines += [["lowered", str(len(lowered)), f"{len(set(lowered))} graphs"]]
    lines += [["emitted", str(emitted), kinds]]
    for arch, found in by_arch.items():
        counts = Counter(found.values())
        known = kept.kernels_compiled(arch).values()
        seconds = sum(entry.get("seconds", 0) for entry in known)
        tried = f"{len(known)} kernels, {seconds:.0f} s of processor time"
        for kind in (COMPILED, CALLS, FAILED, LEFT):
            if counts[kind]:
                lines.append([f"`{arch}`: {kind}", str(counts[kind]), tried * (kind == COMPILED)])
        whole = kept.compiled(arch)
        done = {key for key, entry in whole.items() if entry["outcome"] == "compiled"}
        if whole:
            rows = sum(key in done for key in kept.keys(arch).values())
            lines.append([f"`{arch}`: by MAX", str(rows), f"{len(done)} of {len(whole)} graphs"])
    return "## Totals\n\n" + _table(["", "rows", ""], lines)


def own_kernels(kept: Kept, kernels: Kernels, arch: str) -> set[str]:
    """The names of our registered kernels of which some form was compiled for a GPU."""
    known = kept.kernels_compiled(arch)
    called = {
        found[1]
        for alike, kernel in kernels.alike.items()
        if alike in known and known[alike]["outcome"] == "compiled"
        for call in kernel.calls
        if (found := re.match(r"tmb_\w+\.\w+\.(\w+)", call))
    }
    return {name for name, struct in _structs().items() if struct in called}


def _structs() -> dict[str, str]:
    """The struct of each registered kernel."""
    pattern = r'@extensibility\.register\("(\w+)"\)\s*(?:@\w+\s*)*struct (\w+)'
    files = mojo_kernels.SOURCES.rglob("*.mojo")
    return {
        name: struct for file in files for name, struct in re.findall(pattern, file.read_text())
    }


def _own(kept: Kept, kernels: Kernels, archs: list[str]) -> str:
    names = set(_structs()) - mojo_kernels.HOST_ONLY
    lines = []
    for arch in archs:
        done = own_kernels(kept, kernels, arch)
        others = ", ".join(f"`{name}`" for name in sorted(names - done))
        lines.append([f"`{arch}`", f"{len(names & done)} of {len(names)}", others])
    head = "## Our kernels\n\nThose that do not refuse a GPU, compiled with at least one dtype:\n\n"
    return head + _table(["", "compiled", "others"], lines)


def _reasons(items: Mapping[str, Any]) -> str:
    counts: Counter[str] = Counter()
    ops = defaultdict(set)
    for item, entry in items.items():
        if "why" in entry:
            why = entry["why"].split(": ")[-1]
            counts[f"{entry['outcome']}: {why}"] += 1
            ops[f"{entry['outcome']}: {why}"].add(op_of(item))
    lines = [
        [str(count), _cell(reason), ", ".join(f"`{op}`" for op in sorted(ops[reason]))]
        for reason, count in counts.most_common()
    ]
    return "## Rows that are not lowered\n\n" + _table(["rows", "reason", "ops"], lines)


def _failed(kept: Kept, kernels: Kernels, arch: str) -> str:
    why = {key: f"not emitted: {text}" for key, text in kept.rejected().items()}
    for key, entry in kept.compiled(arch).items():
        if entry["outcome"] == "failed":
            why[key] = f"by MAX: {entry['why']}"
    known = kept.kernels_compiled(arch)
    for key, alikes in kernels.of_graph.items():
        for alike in sorted(alikes & set(known)):
            if known[alike]["outcome"] == "failed":
                why[key] = known[alike]["why"]
    keys = kept.keys(arch)
    lines = [[f"`{item}`", _cell(why[key])] for item, key in keys.items() if key in why]
    head = f"## Failed for `{arch}`\n\n"
    return head + (_table(["row", "message"], lines) if lines else "None of those tried.\n")


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _ops(items: Mapping[str, Any], by_arch: Mapping[str, Mapping[str, str]]) -> str:
    rows = defaultdict(list)
    for item in items:
        rows[op_of(item)].append(item)
    lines = []
    for op in sorted(rows):
        lowered = sum("key" in items[item] for item in rows[op])
        cells = []
        for found in by_arch.values():
            counts = Counter(found.get(item) for item in rows[op])
            parts = [f"{counts[COMPILED]}"]
            parts += [f"{counts[kind]} {kind}" for kind in (CALLS, FAILED, LEFT) if counts[kind]]
            cells.append(", ".join(parts))
        lines.append([f"`{op}`", str(len(rows[op])), str(lowered), *cells])
    head = ["op", "rows", "lowered", *(f"`{arch}`: compiled" for arch in by_arch)]
    return "## By op\n\n" + _table(head, lines)


def main(folder: str, target: str) -> int:
    kept = Kept(Path(folder))
    Path(target).write_text(page(kept, Kernels(kept)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
