"""For the site: our docstrings, which are written for a terminal, as Markdown.

1. An example (`>>>`) becomes a code block.
2. A line that describes parameters (`name: what it is`) becomes a list item.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


def fence_examples(text: str) -> str:
    """Rule 1. An example ends at an empty line, as for doctest."""
    return re.sub(r"^>>> .*(?:\n.+)*", lambda found: f"```pycon\n{found[0]}\n```", text, flags=re.M)


def list_parameters(text: str, parameters: set[str]) -> str:
    """Rule 2. The item goes on until the next one or an empty line."""
    lines: list[str] = []
    in_item = False
    for line in text.split("\n"):
        names, colon, description = line.partition(":")
        if colon and {name.strip(" *`") for name in names.split(",")} <= parameters:
            if not in_item:
                lines.append("")
            lines.append(f"- `{names}`:{description}")
            in_item = True
        else:
            in_item = in_item and bool(line.strip())
            lines.append(f"    {line.strip()}" if in_item else line)
    return "\n".join(lines)


class DocstringsAsMarkdown(griffe.Extension):
    """Rewrites the docstrings of a package when griffe has read all of its sources."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called by griffe once per package."""
        self._rewrite(pkg)

    def _rewrite(self, owner: griffe.Object) -> None:
        if owner.docstring is not None:
            text = owner.docstring.value
            if isinstance(owner, griffe.Function):
                text = list_parameters(text, {parameter.name for parameter in owner.parameters})
            owner.docstring.value = fence_examples(text)
        for member in owner.members.values():
            if isinstance(member, griffe.Object):  # not a name that is imported from elsewhere
                self._rewrite(member)
