"""Why a process failed, in one line."""

from __future__ import annotations

import re

_RAISED = re.compile(r"^[\w.]*(Error|Exception|Unsupported|Failed|Fail|Exit)\w*\b")


def reason(errors: str, code: int | None) -> str:
    """The last error that a process wrote to stderr, or how it ended."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    if raised:
        return raised[-1]
    if code is not None and code < 0:
        return f"ended by signal {-code}"
    return lines[-1] if lines else f"exit code {code}"
