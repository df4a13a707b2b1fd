"""Every Python block of README and docs runs as written.

The blocks of a page run in order and share their names, as a reader would type them in. Pages run
twice: first inside one `compile_together`, where PyTorch computes and all graphs are collected, so
that they compile as one Module, unless all of them are stored; then for real.

A block that cannot run has a comment `<!-- not run: reason -->` above it. One that needs what
`make test` does not install has `<!-- needs module, program -->` and runs in `test_walk.py`. If the
first line of a block is a path, as `# my_kernels/__init__.mojo`, the block is saved there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch

from tests.docs.pages import PAGES, Block, blocks, name_of
from tests.testing.joined import compile_unless_stored
from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.frontend.package import save as package

pytestmark = [
    pytest.mark.xdist_group("docs"),
    pytest.mark.filterwarnings("ignore::torch_max_backend.errors.FallbackWarning"),
]


def examples(page: Path) -> list[Block]:
    """What runs, and the files for it."""
    return [
        block
        for block in blocks(page)
        if (block.language == "python" or block.file) and not block.not_run and not block.needs
    ]


WITH_EXAMPLES = [page for page in PAGES if examples(page)]


@contextlib.contextmanager
def restored_mapping() -> Iterator[None]:
    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    try:
        yield
    finally:
        MAPPING_TORCH_ATEN_TO_MAX._entries = before


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """What would be compiled at once, for a package or by a wait for the background, waits too."""
    with (
        mock.patch.object(ENGINE, "flush", lambda timeout=None: None),
        mock.patch.object(package, "_write"),
    ):
        yield


def save(block: Block, folder: Path) -> None:
    """Write a block that is a file."""
    assert block.file is not None
    path = folder / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.code)


def run(page: Path, folder: Path, *, collecting: bool = False) -> None:
    """Run the blocks of a page in `folder`."""
    names: dict[str, object] = {"__name__": "example"}
    # While graphs are collected PyTorch computes, so an example that replaces a lowering does not
    # show its effect yet, and no package is written that could be loaded.
    expected = contextlib.suppress(Exception) if collecting else contextlib.nullcontext()
    nothing_compiled = waiting() if collecting else contextlib.nullcontext()
    with contextlib.chdir(folder), restored_mapping(), nothing_compiled:
        for block in examples(page):
            if block.file:
                save(block, folder)
                continue
            torch._dynamo.reset()
            torch.manual_seed(0)
            with expected:
                # Dynamo quotes the source in its messages, so the code is named by its page.
                exec(compile(block.code, block.where, "exec"), names)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> None:
    def collecting(page: Path) -> Callable[[], None]:
        return lambda: run(page, tmp_path_factory.mktemp("pages"), collecting=True)

    compile_unless_stored("docs", [collecting(page) for page in WITH_EXAMPLES])


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_page_runs(page: Path, tmp_path: Path, collected: None) -> None:
    run(page, tmp_path)


def test_blocks_that_do_not_run_are_few_and_say_why() -> None:
    skipped = [block for page in PAGES for block in blocks(page) if block.not_run is not None]
    assert all(block.not_run for block in skipped)
    assert len([b.where for b in skipped if b.language == "python"]) <= 4
    assert len([b.where for b in skipped if b.language == "bash"]) <= 13


def test_no_command_that_runs_installs_packages() -> None:
    """The slow tests run the commands in the environment of the tests, which it would change."""
    commands = [b for page in PAGES for b in blocks(page) if b.language == "bash" and not b.not_run]
    installs = re.compile(r"pip install|^make ", re.MULTILINE)
    assert [b.where for b in commands if installs.search(b.code)] == []


def test_there_are_examples() -> None:
    assert {"README.md", "docs/training.md", "docs/torch_ir.md"} <= {*map(name_of, WITH_EXAMPLES)}
