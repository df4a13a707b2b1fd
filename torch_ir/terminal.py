"""Makes text from files safe to print: names in an IR can contain any character."""

from __future__ import annotations

import re

__all__ = ["one_line", "printable"]

# Control characters (a terminal obeys them), lone surrogates (they cannot be encoded), and the
# characters that reorder or break lines of Unicode text.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def printable(text: str) -> str:
    r"""The text with control characters as `\u001b`; line breaks and tabs are kept.

    >>> print(printable("\x1b[2Jx"))
    \u001b[2Jx
    """
    return _UNPRINTABLE.sub(_escape, text)


def one_line(text: str) -> str:
    r"""`printable` for text that must stay on its line: line breaks and tabs are escaped too.

    >>> print(one_line("a\nb"))
    a\nb
    """
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))
