"""A stranger's walk: the commands of the pages, as written, in a fresh clone.

Each page with shell blocks runs in a process of its own: its Python blocks first, as one script,
then its commands, in order. So do the blocks that need what `make test` does not install.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks, name_of
from tests.docs.test_examples import examples, save

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("docs")]


def commands(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "bash" and not block.not_run]


WITH_COMMANDS = [page for page in PAGES if commands(page)]
APART = [(page, block) for page in PAGES for block in blocks(page) if block.needs]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a stranger gets: what is committed, and nothing else."""
    folder = tmp_path_factory.mktemp("walk") / "clone"
    result = subprocess.run(
        ["git", "clone", "--quiet", str(ROOT), str(folder)], capture_output=True, text=True
    )
    if result.returncode:
        pytest.skip(f"this is no git repository: {result.stderr}")
    return folder


def run(clone: Path, *command: str | Path) -> None:
    """Run a command in the clone, with its packages and this environment's programs."""
    programs = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([programs, os.environ["PATH"]]),
        "PYTHONPATH": str(clone),
    }
    result = subprocess.run(
        command, cwd=clone, env=environment, capture_output=True, text=True, timeout=1200
    )
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"


def run_python(clone: Path, parts: list[Block]) -> None:
    script = clone / "walk.py"
    for block in parts:
        if block.file:
            save(block, clone)
    script.write_text("\n".join(block.code for block in parts if not block.file))
    run(clone, sys.executable, script)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_the_commands_of_a_page_run_as_written(page: Path, clone: Path) -> None:
    run_python(clone, examples(page))
    for block in commands(page):
        run(clone, "bash", "-euo", "pipefail", "-c", block.code)


@pytest.mark.parametrize(("page", "block"), APART, ids=[",".join(b.needs) for _, b in APART])
def test_a_block_that_needs_more_runs(page: Path, block: Block, clone: Path) -> None:
    for name in block.needs:
        if shutil.which(name) is None and importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    run_python(clone, [examples(page)[0], block])


def test_there_are_some() -> None:
    assert WITH_COMMANDS and APART
