"""Every environment variable and every `options=` entry, read here and nowhere else.

An option is resolved to its final value when a function is compiled: what `options={...}` says,
else the environment variable of the same name where there is one, else the default. Environment
variables may be spelled `TORCH_MAX_BACKEND_X` or `PYTORCH_MAX_BACKEND_X`. They are read when asked
for, so that a test can change them.

To add an option or a variable, add it here and to the table in README.md; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch_max_backend.errors import OptionError

_PREFIXES = ("TORCH_MAX_BACKEND_", "PYTORCH_MAX_BACKEND_")
FALLBACKS = ("eager", "error")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""What `torch.compile(..., mode=...)` takes, for every backend."""

T = TypeVar("T")


@dataclass(frozen=True)
class Variable(Generic[T]):
    """An environment variable; calling it gives its value now."""

    name: str
    """Without the prefix."""
    default: T
    parse: Callable[[str], T]
    """Raises `ValueError` with what the variable takes."""
    effect: str

    def __call__(self) -> T:
        for prefix in _PREFIXES:
            text = os.environ.get(prefix + self.name)
            if text is None:
                continue
            try:
                return self.parse(text.strip())
            except ValueError as error:
                raise OptionError(f"{prefix}{self.name}={text!r}: use {error}") from error
        return self.default


def _switch(text: str) -> bool:
    switches = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if text.lower() not in {*switches, ""}:
        raise ValueError("1/true/yes or 0/false/no")
    return switches.get(text.lower(), False)


def _fallback(text: str) -> str:
    text = text or FALLBACKS[0]
    if text not in FALLBACKS:
        raise ValueError(" or ".join(FALLBACKS))
    return text


def _megabytes(text: str) -> int:
    if not text.isdigit():
        raise ValueError("a whole number of MiB")
    return int(text)


def _limit(text: str) -> int | None:
    if not text.isdigit():
        raise ValueError("a whole number; 0 sets no limit")
    return int(text)


def _count(text: str) -> int | None:
    if not text.isdigit():
        raise ValueError("a whole number")
    return int(text)


def _folder(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


profile = Variable(
    "PROFILE", False, _switch, "print timings: trace, lower, compile, load, each run"
)
verbose = Variable(
    "VERBOSE",
    False,
    _switch,
    "print the graphs, the count of each op, the MAX graph; check the graph after each pass",
)
beartype = Variable("BEARTYPE", True, _switch, "check the types of the package's calls at run time")
tiered = Variable("TIERED", False, _switch, "the default of the option `tiered`")
fallback = Variable("FALLBACK", "eager", _fallback, "the default of the option `fallback`")
progress = Variable("PROGRESS", True, _switch, "show a line in the terminal while MAX compiles")
_cache_dir = Variable[Path | None]("CACHE_DIR", None, _folder, "where compiled graphs are kept")
cache_mb = Variable("CACHE_MB", 4096, _megabytes, "MiB of compiled graphs to keep; 0 keeps none")
compile_processes = Variable[int | None](
    "COMPILE_PROCESSES",
    None,
    _count,
    "child processes that compile at once; by default as many as processors and memory allow; "
    "0 compiles in the process itself",
)
compile_timeout = Variable[int | None](
    "COMPILE_TIMEOUT", 3600, _limit, "seconds after which a compile is ended; 0 sets no limit"
)
compile_memory_mb = Variable[int | None](
    "COMPILE_MEMORY_MB",
    None,
    _limit,
    "MiB at which a compile is ended; by default three quarters of the memory; 0 sets no limit",
)

VARIABLES: tuple[Variable[Any], ...] = (
    profile,
    verbose,
    beartype,
    tiered,
    fallback,
    progress,
    _cache_dir,
    cache_mb,
    compile_processes,
    compile_timeout,
    compile_memory_mb,
)


def cache_dir() -> Path:
    """Where compiled kernels and artifacts are kept."""
    if (folder := _cache_dir()) is not None:
        return folder
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "torch_max_backend"


def _check_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def _check_fallback(value: object) -> str:
    if value not in FALLBACKS:
        raise ValueError(" or ".join(map(repr, FALLBACKS)))
    return str(value)


def _check_folders(value: object) -> tuple[str, ...]:
    folders = [value] if isinstance(value, (str, Path)) else value
    if not isinstance(folders, (list, tuple)):
        raise ValueError("a folder or a list of folders")
    return tuple(str(folder) for folder in folders)


def _option(default: Any, check: Callable[[object], Any], variable: Any = None) -> Any:
    return dataclasses.field(default=default, metadata={"check": check, "variable": variable})


@dataclass(frozen=True)
class Options:
    """What `torch.compile(..., options={...})` may hold, as final values."""

    pack_weights: bool = _option(True, _check_switch)
    """In inference graphs, hand matmul weights to the kernel in the layout it reads, made once."""
    fallback: str = _option("eager", _check_fallback, fallback)
    """What MAX cannot run: "eager" runs on PyTorch with a warning, "error" raises."""
    tiered: bool = _option(False, _check_switch, tiered)
    """Run on PyTorch until MAX has compiled in the background."""
    kernels: tuple[str, ...] = _option((), _check_folders)
    """Folders of the user's own Mojo kernels, made available to their lowerings."""

    @classmethod
    def resolve(cls, given: Mapping[str, object] | None = None) -> Options:
        """The final values: `given`, else the environment, else the defaults.

        >>> from torch_max_backend.flags import Options
        >>> Options.resolve({"pack_weights": False}).pack_weights
        False
        """
        given = given or {}
        fields = {field.name: field for field in dataclasses.fields(cls)}
        if unknown := sorted(map(str, given.keys() - fields.keys())):
            raise OptionError(
                f"unknown option {', '.join(map(repr, unknown))} for max_backend; "
                f"known options: {', '.join(sorted(fields))}"
            )
        values: dict[str, Any] = {}
        for name, field in fields.items():
            variable = field.metadata["variable"]
            if name in given:
                try:
                    values[name] = field.metadata["check"](given[name])
                except ValueError as error:
                    raise OptionError(
                        f"option {name!r} takes {error}, not {given[name]!r}"
                    ) from error
            elif variable is not None:
                values[name] = variable()
        return cls(**values)

    @property
    def may_fall_back(self) -> bool:
        """Whether PyTorch runs what MAX cannot."""
        return self.fallback == "eager"


def check_mode(mode: str | None) -> str | None:
    """What to tell the user about a `mode` of `torch.compile`; None if there is nothing to tell.

    The modes are TorchInductor's: CUDA graphs, and timing the candidates of a kernel. For MAX,
    graphs are compiled in one way.
    """
    if mode is not None and mode not in MODES:
        raise OptionError(f"unknown mode {mode!r} for torch.compile; modes: {', '.join(MODES)}")
    if mode is None or mode == "default":
        return None
    return (
        f"mode={mode!r} changes nothing for max_backend: it chooses between ways in which "
        "TorchInductor compiles, and MAX has one; options={...} holds what can be chosen here"
    )


@contextmanager
def default_for_others(name: str, value: str) -> Iterator[None]:
    """Set a variable that others read, for a moment; one that is set already stays as it is."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
