"""Every environment variable and every `options=` entry, read here and nowhere else.

Environment variables may be spelled `TORCH_MAX_BACKEND_X` or `PYTORCH_MAX_BACKEND_X`; "1", "true"
and "yes" in any case mean on. They are read when asked for, so a test can change them.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from torch_max_backend.errors import OptionError

_PREFIXES = ("TORCH_MAX_BACKEND_", "PYTORCH_MAX_BACKEND_")
_ON = {"1", "true", "yes"}
_OFF = {"0", "false", "no", ""}
FALLBACKS = ("eager", "error")


def _text(name: str) -> str | None:
    for prefix in _PREFIXES:
        if (value := os.environ.get(prefix + name)) is not None:
            return value.strip()
    return None


def _switch(name: str, default: bool) -> bool:
    value = _text(name)
    if value is None:
        return default
    if value.lower() in _ON:
        return True
    if value.lower() in _OFF:
        return False
    raise OptionError(f"TORCH_MAX_BACKEND_{name}={value!r}: use 1/true/yes or 0/false/no")


def profile() -> bool:
    """TORCH_MAX_BACKEND_PROFILE: print timings of tracing, lowering, compiling and each run."""
    return _switch("PROFILE", False)


def verbose() -> bool:
    """TORCH_MAX_BACKEND_VERBOSE: print the graphs, the count of each op, the MAX graph."""
    return _switch("VERBOSE", False)


def beartype() -> bool:
    """TORCH_MAX_BACKEND_BEARTYPE: run-time type checks of the package's functions (default on)."""
    return _switch("BEARTYPE", True)


def tiered() -> bool:
    """TORCH_MAX_BACKEND_TIERED: run on PyTorch until MAX has compiled in the background."""
    return _switch("TIERED", False)


def fallback() -> str:
    """TORCH_MAX_BACKEND_FALLBACK: "eager" runs on PyTorch what MAX cannot, "error" raises."""
    value = _text("FALLBACK") or FALLBACKS[0]
    if value not in FALLBACKS:
        raise OptionError(f"TORCH_MAX_BACKEND_FALLBACK={value!r}: use {' or '.join(FALLBACKS)}")
    return value


def progress() -> bool:
    """TORCH_MAX_BACKEND_PROGRESS: a line in the terminal while MAX compiles (default on)."""
    return _switch("PROGRESS", True)


def cache_dir() -> Path:
    """TORCH_MAX_BACKEND_CACHE_DIR: where compiled kernels and artifacts are kept."""
    if value := _text("CACHE_DIR"):
        return Path(value).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "torch_max_backend"


def cache_mb() -> int:
    """TORCH_MAX_BACKEND_CACHE_MB: how many MiB of artifacts are kept; 0 turns the store off."""
    value = _text("CACHE_MB")
    if value is None:
        return 4096
    if not value.isdigit():
        raise OptionError(f"TORCH_MAX_BACKEND_CACHE_MB={value!r}: give a whole number of MiB")
    return int(value)


@dataclasses.dataclass(frozen=True)
class Options:
    """What `torch.compile(..., options={...})` may hold."""

    tiered: bool | None = None
    """Run on PyTorch until MAX has compiled in the background; None asks the environment."""
    fallback: str | None = None
    """What MAX cannot run: "eager" on PyTorch, "error" raises; None asks the environment."""
    pack_weights: bool = True
    """In inference graphs, hand matmul weights to MAX in its own layout, made once."""
    kernels: tuple[str, ...] = ()
    """Folders of Mojo kernels of the user's own, made available to their lowerings."""

    @classmethod
    def parse(cls, options: Mapping[str, object] | None) -> Options:
        """Check `options` and return them typed; an unknown name lists the known ones."""
        given = dict(options or {})
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(map(str, given.keys() - known)):
            raise OptionError(
                f"unknown option {', '.join(map(repr, unknown))} for max_backend; "
                f"known options: {', '.join(sorted(known))}"
            )
        if "kernels" in given:
            folders = given["kernels"]
            if isinstance(folders, (str, Path)):
                folders = [folders]
            if not isinstance(folders, (list, tuple)):
                raise OptionError(f"option 'kernels' takes folders, not {folders!r}")
            given["kernels"] = tuple(str(folder) for folder in folders)
        if given.get("fallback", FALLBACKS[0]) not in FALLBACKS:
            raise OptionError(
                f"option 'fallback' takes {' or '.join(map(repr, FALLBACKS))}, "
                f"not {given['fallback']!r}"
            )
        for name in ("pack_weights", "tiered"):
            if not isinstance(given.get(name, True), bool):
                raise OptionError(f"option {name!r} takes True or False, not {given[name]!r}")
        return cls(**given)  # type: ignore[arg-type]
