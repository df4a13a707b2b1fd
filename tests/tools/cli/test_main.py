"""`python -m torch_max_backend`: the commands as a whole, their help and their exit codes."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from torch_max_backend.tools import cli

COMMANDS = Path(cli.__file__).parent
NAMES = sorted(path.stem for path in COMMANDS.glob("*.py") if path.stem != "__init__")


def test_every_file_is_a_command() -> None:
    assert sorted(cli.COMMANDS) == list(cli.COMMANDS) == NAMES


@pytest.mark.parametrize("arguments", [[], *([name] for name in NAMES)], ids=" ".join)
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([*arguments, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    if arguments:
        assert cli.COMMANDS[arguments[0]] in " ".join(text.split())
    else:
        assert all(f"\n    {name} " in text for name in NAMES)


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["cache"], ["cache", "burn"], ["ops", "x"]]
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: python -m torch_max_backend")


def test_a_wrong_variable_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "plenty")
    assert cli.main(["cache", "size"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("torch_max_backend cache: TORCH_MAX_BACKEND_CACHE_MB='plenty'")
    assert captured.err.count("\n") == 1


def test_the_installed_command_is_main() -> None:
    (script,) = entry_points(group="console_scripts", name="torch-max-backend")
    assert script.load() is cli.main


@pytest.mark.parametrize("arguments", [["cache", "ls"], ["docs"], ["--help"]], ids=" ".join)
def test_commands_that_need_no_pytorch_do_not_import_it(arguments: list[str]) -> None:
    """It takes seconds, and so does MAX."""
    code = (
        "import contextlib, sys\n"
        "from torch_max_backend.tools import cli\n"
        f"with contextlib.suppress(SystemExit): cli.main({arguments!r})\n"
        "assert not {'torch', 'max'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_as_a_module() -> None:
    """The exit code reaches the shell, and a reader that goes away leaves no traceback."""
    command = f"{sys.executable} -m torch_max_backend"
    wrong = subprocess.run([*command.split(), "docs", "nonsense"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr

    piped = subprocess.run(
        ["bash", "-c", f"{command} ops | head -n 1"], capture_output=True, text=True
    )
    assert piped.stdout.count("\n") == 1
    assert piped.stderr == ""


def test_every_file_is_imported_without_a_warning() -> None:
    """beartype warns of functions that it cannot check, when their file is first imported."""
    script = """
import importlib, pkgutil, sys, warnings
import torch_max_backend

for found in pkgutil.walk_packages(torch_max_backend.__path__, "torch_max_backend."):
    if not found.name.endswith("__main__"):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            importlib.import_module(found.name)
        for warning in told:
            if "torch_max_backend" in str(warning.message) + warning.filename:
                sys.exit(f"{found.name}: {warning.message}")
print("all")
"""
    root = Path(__file__).parents[3]
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True
    )
    assert result.stdout == "all\n", result.stderr[-3000:]
