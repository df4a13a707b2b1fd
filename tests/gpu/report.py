"""Writes docs/gpu_ops.md: what became of each op's rows on GPUs, by the files of a sweep.

python -m tests.gpu.report FOLDER docs/gpu_ops.md
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.gpu.kept_graphs import Kept

HEAD = """\
# Ops on GPUs

Written by `python -m tests.gpu.report` from a sweep
([GPUs](gpu.md#prove-it-on-your-machine)). A row is a row of the op tests: an op, arguments, a
dtype. **Nothing here has run on a GPU.**

- *lowered*: the op's graph on `cuda:0` is a MAX graph. Of the others the reason is below.
- A column of a GPU has the rows that MAX compiled for it, of those that were tried. `-`: none
  was tried. Those tried come first in a random order of all rows.
- Rows whose graphs are equal share one, which is compiled once. *Processor time* is that of the
  Modules that compiled.
"""


NAME = 60
"""Characters of an op's name; a row of many ops has all of their names."""


def op_of(item: str) -> str:
    """The op of a row's id: `table-number-op-dtype`."""
    name = item.split("-", 2)[2].rsplit("-", 1)[0]
    for words in ("built-in function ", "built-in method ", "function ", " of type object"):
        name = name.replace(words, "")
    name = name.rstrip(">")
    return name if len(name) <= NAME else name[: NAME - 4] + " ..."


def architectures(kept: Kept) -> list[str]:
    """The GPUs of which something is known."""
    files = {file.stem for file in kept.folder.glob("*.jsonl") if "." not in file.stem}
    files -= {"lowered"}
    return sorted(files, key=lambda arch: (not arch.startswith("sm_90"), arch))


def outcomes(kept: Kept, arch: str) -> dict[str, str]:
    """By item: "compiled", "failed", or nothing if its graph was not tried."""
    known = kept.compiled(arch)
    return {
        item: known[entry["key"]]["outcome"]
        for item, entry in kept.items().items()
        if entry.get("key") in known
    }


def page(kept: Kept) -> str:
    """The page: totals, why rows are not lowered, what MAX rejected, and a line per op."""
    items, archs = kept.items(), architectures(kept)
    by_arch = {arch: outcomes(kept, arch) for arch in archs}
    parts = [HEAD, _totals(kept, by_arch), _reasons(items)]
    parts += [_rejected(kept, arch, items) for arch in archs]
    return "\n".join([*parts, _ops(items, by_arch)])


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] * len(head)
    return "".join("| " + " | ".join(line) + " |\n" for line in [head, rule, *lines])


def _totals(kept: Kept, by_arch: Mapping[str, Mapping[str, str]]) -> str:
    items = kept.items()
    lowered = [entry["key"] for entry in items.values() if "key" in entry]
    lines = [["all", str(len(items)), *[""] * 4]]
    lines += [["lowered", str(len(lowered)), str(len(set(lowered))), *[""] * 3]]
    for arch, found in by_arch.items():
        done = sum(outcome == "compiled" for outcome in found.values())
        known = {key: entry for key, entry in kept.compiled(arch).items() if key in lowered}
        seconds = sum(entry.get("seconds", 0) for entry in known.values())
        share = f"{100 * done / len(found):.1f} %" if found else ""
        counts = [str(len(found)), str(len(known)), str(done), share, f"{seconds:.0f} s"]
        lines.append([f"tried for `{arch}`", *counts])
    head = ["", "rows", "graphs", "rows compiled", "of those tried", "processor time"]
    return "## Totals\n\n" + _table(head, lines)


def _reasons(items: Mapping[str, Any]) -> str:
    counts: Counter[str] = Counter()
    ops = defaultdict(set)
    for item, entry in items.items():
        if "why" in entry:
            why = entry["why"].split(": ")[-1]
            counts[f"{entry['outcome']}: {why}"] += 1
            ops[f"{entry['outcome']}: {why}"].add(op_of(item))
    lines = [
        [str(count), reason.replace("|", "\\|"), ", ".join(f"`{op}`" for op in sorted(ops[reason]))]
        for reason, count in counts.most_common()
    ]
    return "## Rows that are not lowered\n\n" + _table(["rows", "reason", "ops"], lines)


def _rejected(kept: Kept, arch: str, items: Mapping[str, Any]) -> str:
    failed = {k: e for k, e in kept.compiled(arch).items() if e["outcome"] == "failed"}
    if not failed:
        return f"## Rejected for `{arch}`\n\nNone of those tried.\n"
    lines = [
        [f"`{item}`", failed[entry["key"]]["why"].replace("|", "\\|")]
        for item, entry in items.items()
        if entry.get("key") in failed
    ]
    return f"## Rejected for `{arch}`\n\n" + _table(["row", "MAX's message"], lines)


def _ops(items: Mapping[str, Any], by_arch: Mapping[str, Mapping[str, str]]) -> str:
    rows = defaultdict(list)
    for item in items:
        rows[op_of(item)].append(item)
    lines = []
    for op in sorted(rows):
        lowered = sum("key" in items[item] for item in rows[op])
        cells = []
        for found in by_arch.values():
            tried = [found[item] for item in rows[op] if item in found]
            cells.append(f"{tried.count('compiled')} of {len(tried)}" if tried else "-")
        lines.append([f"`{op}`", str(len(rows[op])), str(lowered), *cells])
    head = ["op", "rows", "lowered", *(f"`{arch}`" for arch in by_arch)]
    return "## By op\n\n" + _table(head, lines)


def main(folder: str, target: str) -> int:
    Path(target).write_text(page(Kept(Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
