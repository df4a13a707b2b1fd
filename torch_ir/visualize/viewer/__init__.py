"""The viewer of the HTML page: a page, a style, and a script in parts, joined in this order.

data.js      the embedded JSON as items: vertices and boxes in one tree
nets.js      the values that are visible between items, given the open boxes
layout.js    the layout of each open box, innermost first: layers, order, positions, lanes
drawing.js   the canvas; draws only what is on the screen
panels.js    details, statistics, search
changes.js   a page that compares two graphs: the list of changes, their marks
input.js     pointer, keys, the fragment of the address

The script uses no library and no network. The names in a graph may come from untrusted files, so
they reach the page only through `textContent` and `fillText`.
"""

from __future__ import annotations

from importlib import resources

__all__ = ["page", "script", "style"]

PARTS = ("data.js", "nets.js", "layout.js", "drawing.js", "panels.js", "changes.js", "input.js")


def page() -> str:
    """The HTML page, with markers such as `@DATA@` for its contents."""
    return _read("page.html")


def style() -> str:
    """The style sheet."""
    return _read("style.css")


def script() -> str:
    """The script: all parts in one function, so that nothing becomes a global name."""
    parts = "\n".join(map(_read, PARTS))
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _read(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
