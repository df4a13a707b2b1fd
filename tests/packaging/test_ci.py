"""`.ci/install-programs`: installs what is missing where it may, and says so where it may not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "install-programs"
NOT_INSTALLED = "not installed: chromium graphviz"

# An apt-get whose package brings the two programs, and one that cannot reach its servers.
WORKING_APT = """
echo "apt-get $*" >&2
if [ "$1" = install ]; then
    for program in chromium dot; do
        printf '#!/bin/sh\\n' > "{bin}/$program"
        /bin/chmod +x "{bin}/$program"
    done
fi
"""
BROKEN_APT = "exit 100"


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """The only folder on PATH: what the script calls, and neither browser nor apt-get."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname"):
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    add_program(folder, "python3", f'exec "{sys.executable}" "$@"')
    add_program(folder, "id", "echo 0")
    return folder


def add_program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(folder)}
    return subprocess.run(
        ["/bin/bash", SCRIPT], env=environment, capture_output=True, text=True, timeout=60
    )


def test_says_nothing_when_all_is_there(bin_folder: Path) -> None:
    for name in ("chromium", "dot"):
        add_program(bin_folder, name, "exit 0")
    result = run(bin_folder)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_installs_what_is_missing(bin_folder: Path) -> None:
    add_program(bin_folder, "apt-get", WORKING_APT.format(bin=bin_folder))
    result = run(bin_folder)
    assert result.returncode == 0
    assert "apt-get update" in result.stderr
    assert "chromium graphviz" in result.stderr
    assert "not installed" not in result.stderr


def test_installs_only_what_is_missing(bin_folder: Path) -> None:
    add_program(bin_folder, "chromium", "exit 0")
    add_program(bin_folder, "apt-get", WORKING_APT.format(bin=bin_folder))
    result = run(bin_folder)
    assert "graphviz" in result.stderr
    assert "chromium" not in result.stderr


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ({}, "there is no apt-get"),
        ({"apt-get": BROKEN_APT, "id": "echo 1000"}, "apt-get needs root"),
        ({"apt-get": BROKEN_APT}, "apt-get update failed"),
        ({"apt-get": '[ "$1" = update ]'}, "apt-get install failed"),
        ({"apt-get": "exit 0"}, "apt-get installed no program that the tests find"),
    ],
)
def test_says_why_it_may_not(bin_folder: Path, programs: dict[str, str], reason: str) -> None:
    for name, body in programs.items():
        add_program(bin_folder, name, body)
    result = run(bin_folder)
    assert result.returncode == 0, "the other tests still run"
    assert f"{NOT_INSTALLED} ({reason})" in result.stderr
