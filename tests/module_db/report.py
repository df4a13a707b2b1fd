"""The page of the verdicts of all modules, docs/module_coverage.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.testing.samples import (
    LOWERED,
    OK,
    UNSUPPORTED,
    WRONG,
    Verdict,
    counts,
    first_reason,
)

WITH_FALLBACK = "with fallback"

_HEAD = """# PyTorch's modules on MAX

Written by `python -m tests.module_db --output docs`. Each entry of PyTorch's `module_db` runs
forward and backward on MAX, in float32 on the CPU. Results, gradients of parameters and inputs, and
buffers are compared with eager PyTorch. The samples are PyTorch's own{limited}.

A module is `ok` if all its samples are. For an `unsupported` one, the first reason is given. A
`lowered` one was not compiled.
"""


def page(modules: Mapping[str, Verdict], limit: int) -> str:
    """docs/module_coverage.md."""
    limited = f", at most {limit} per mode, spread over all of them" if limit else ""
    found = Counter(module["status"] for module in modules.values())
    ran = sum(found[status] for status in (OK, LOWERED, UNSUPPORTED, WRONG))
    lines = [
        _HEAD.format(limited=limited),
        f"{ran} modules: {found[OK]} ok ({100 * found[OK] / max(ran, 1):.1f} %), "
        f"{found[UNSUPPORTED]} unsupported, {found[LOWERED]} lowered, {found[WRONG]} wrong.",
        *_fallback(modules),
        "",
        "| module | status | samples | reason |",
        "|---|---|---|---|",
    ]
    for name, module in sorted(modules.items()):
        row = (name, module["status"], counts(module), first_reason(module))
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _fallback(modules: Mapping[str, Verdict]) -> list[str]:
    tried = [module[WITH_FALLBACK] for module in modules.values() if WITH_FALLBACK in module]
    right = sum(verdict["status"] == OK for verdict in tried)
    if not tried:
        return []
    return [
        "",
        "The unsupported ones were run again through `torch.compile` with the default options:",
        f"PyTorch runs what MAX cannot (`--fallback`). {right} of {len(tried)} match eager.",
    ]
