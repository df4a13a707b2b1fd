"""`docs`: the pages that messages name, also where only a wheel is installed."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="a page; without it, list all")


def run(args: argparse.Namespace) -> int:
    """Print the page, or the list of pages; `FileNotFoundError` if there is no such page."""
    pages = find_pages()
    if args.topic is None:
        width = max(map(len, pages))
        for topic, path in pages.items():
            print(f"{topic:<{width}}  {_title(path)}")
        return 0
    if args.topic not in pages:
        close = difflib.get_close_matches(args.topic, pages, n=3)
        hint = f" (did you mean {' or '.join(close)}?)" if close else ""
        raise FileNotFoundError(
            f"there is no page {args.topic!r}{hint}; list all: python -m torch_max_backend docs"
        )
    text = pages[args.topic].read_text(encoding="utf-8")
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")
    return 0


def find_pages() -> dict[str, Path]:
    """Every page of the documentation by its topic, sorted."""
    # setup.py puts a copy of docs/ beside this file into the wheel; a checkout has docs/ itself.
    shipped = Path(__file__).parent / "pages"
    folder = shipped if shipped.is_dir() else Path(__file__).parents[3] / "docs"
    pages = {path.stem: path for path in sorted(folder.glob("*.md"))}
    if not pages:
        raise FileNotFoundError(f"this installation has no pages: {folder} has no .md files")
    return pages


def _title(path: Path) -> str:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ")
    return ""
