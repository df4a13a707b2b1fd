"""The pages that people read, their code blocks and their headings."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "pretrained_models" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_BLOCK = re.compile(
    r"^(?: *<!-- (?:not run: (?P<reason>.*?)|needs (?P<needs>.*?)) -->\n)?"
    r" *```(?P<language>\w*)\n(?P<code>.*?)^ *```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of code; `where` is its page and first line."""

    where: str
    language: str
    code: str
    not_run: str | None
    """The reason that the page gives for not running it, in a comment above the block."""
    needs: tuple[str, ...] = ()
    """Programs and modules that `make test` does not install, in a comment above the block."""

    @property
    def file(self) -> str | None:
        """The path in its first line: the block is a file that the reader saves."""
        match = re.match(r"# ([\w/]+\.(?:py|mojo))\n", self.code)
        return match[1] if match else None


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, those in lists included."""
    text = page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        line = text[: match.start("code")].count("\n") + 1
        found.append(
            Block(
                f"{name_of(page)}:{line}",
                match["language"],
                textwrap.dedent(match["code"]),
                match["reason"],
                tuple(match["needs"].split(", ")) if match["needs"] else (),
            )
        )
    return found


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """What a link to a heading of the page may end in."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\s-]", "", h).strip().lower().replace(" ", "-") for h in headings}
