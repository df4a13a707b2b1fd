"""The gallery: its pictures are there, are made by the script, and are small."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT
from tests.docs.pictures import FOLDER, PICTURES


def test_the_page_shows_every_picture_that_the_script_makes() -> None:
    shown = re.findall(
        r"!\[[^\]]+\]\(pictures/(\w+)\.png\)", (ROOT / "docs/gallery.md").read_text()
    )
    assert sorted(shown) == sorted(PICTURES) == sorted(path.stem for path in FOLDER.iterdir())


def test_pictures_are_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.glob("*.png")]
    assert max(sizes) < 200_000 and sum(sizes) < 1_000_000
