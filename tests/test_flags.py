"""Options and environment variables: one place, and the table of README.md says the same."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

from torch_max_backend import OptionError, flags
from torch_max_backend.flags import VARIABLES, Options

README = (Path(__file__).parent.parent / "README.md").read_text()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        for prefix in ("TORCH_MAX_BACKEND_", "PYTORCH_MAX_BACKEND_"):
            monkeypatch.delenv(prefix + variable.name, raising=False)


def test_the_readme_has_every_option_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| `(.+?)` \|", README, flags=re.MULTILINE))
    defaults = {
        field.name: repr(field.default).replace("'", '"') for field in dataclasses.fields(Options)
    }
    assert rows == defaults


def test_the_readme_has_every_variable_with_its_default() -> None:
    row = r"^\| `TORCH_MAX_BACKEND_(\w+)` \| (.+?) \|"
    rows = dict(re.findall(row, README, flags=re.MULTILINE))
    found_out = {
        "CACHE_DIR": "`~/.cache/torch_max_backend`",
        "COMPILE_PROCESSES": "by processors and memory",
        "COMPILE_MEMORY_MB": "3/4 of the memory",
    }
    defaults = {
        variable.name: found_out[variable.name]
        if variable.default is None
        else f"`{int(variable.default) if variable.default in (0, 1) else variable.default}`"
        for variable in VARIABLES
    }
    assert rows == defaults


def test_an_option_wins_over_the_environment_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Options.resolve().fallback == "eager" and not Options.resolve().tiered
    monkeypatch.setenv("TORCH_MAX_BACKEND_FALLBACK", "error")
    monkeypatch.setenv("PYTORCH_MAX_BACKEND_TIERED", "Yes")
    assert Options.resolve().fallback == "error" and Options.resolve().tiered
    chosen = Options.resolve({"fallback": "eager", "tiered": False})
    assert chosen.fallback == "eager" and not chosen.tiered and chosen.may_fall_back


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tiered": 1}, "option 'tiered' takes True or False, not 1"),
        ({"fallback": "never"}, "takes 'eager' or 'error', not 'never'"),
        ({"kernels": 3}, "takes a folder or a list of folders, not 3"),
        ({"tired": True}, "unknown option 'tired'.* known options: fallback, kernels"),
    ],
)
def test_a_wrong_option_says_what_it_takes(given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Options.resolve(given)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("TIERED", "maybe", "TIERED='maybe': use 1/true/yes or 0/false/no"),
        ("FALLBACK", "never", "use eager or error"),
        ("CACHE_MB", "-1", "use a whole number of MiB"),
    ],
)
def test_a_wrong_variable_says_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, message: str
) -> None:
    monkeypatch.setenv(f"PYTORCH_MAX_BACKEND_{name}", text)
    variable = next(variable for variable in VARIABLES if variable.name == name)
    with pytest.raises(OptionError, match=message):
        variable()


@pytest.mark.parametrize(("text", "on"), [("1", True), ("TRUE", True), ("no", False), ("", False)])
def test_switches(monkeypatch: pytest.MonkeyPatch, text: str, on: bool) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_PROFILE", text)
    assert flags.profile() is on


def test_where_things_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert flags.cache_dir() == Path("/somewhere/torch_max_backend")
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", "~/mine")
    assert flags.cache_dir() == Path.home() / "mine"


def test_folders_of_kernels() -> None:
    assert Options.resolve({"kernels": "a"}).kernels == ("a",)
    assert Options.resolve({"kernels": [Path("a"), "b"]}).kernels == ("a", "b")


def test_a_variable_of_others_is_set_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OF_OTHERS", raising=False)
    with pytest.raises(ZeroDivisionError), flags.default_for_others("OF_OTHERS", "ours"):
        assert os.environ["OF_OTHERS"] == "ours"
        1 / 0  # noqa: B018
    assert "OF_OTHERS" not in os.environ
    monkeypatch.setenv("OF_OTHERS", "the user's")
    with flags.default_for_others("OF_OTHERS", "ours"):
        assert os.environ["OF_OTHERS"] == "the user's"
    assert os.environ["OF_OTHERS"] == "the user's"
