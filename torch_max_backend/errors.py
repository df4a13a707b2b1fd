"""Every error that the backend raises on purpose. All derive from `MaxCompilerError`."""

from __future__ import annotations

ADDING_AN_OP = "python -m torch_max_backend docs adding_an_op"
"""Prints the page on lowerings. A path would be of no use where only the wheel is installed."""


class MaxCompilerError(Exception):
    """Base class: compiling or running a graph on MAX went wrong."""


class UnsupportedOpError(MaxCompilerError):
    """An ATen op has no lowering; the message names it, its arguments and the user's line."""


class LoweringError(MaxCompilerError):
    """A lowering raised, or returned something that PyTorch would not have returned.

    `node` is the name of the call in its graph; `builtin` is True for this package's lowerings.
    """

    def __init__(self, message: str, node: str = "", builtin: bool = False) -> None:
        super().__init__(message)
        self.node = node
        self.builtin = builtin


class ProgramError(MaxCompilerError):
    """A pass broke a rule of `program/verify.py`: a bug of this package.

    `node` is the name of the call in its graph, "" if it is none.
    """

    def __init__(self, message: str, rule: int, node: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.node = node


class MappingError(MaxCompilerError, TypeError):
    """An invalid key or value in `MAPPING_TORCH_ATEN_TO_MAX`."""


class OptionError(MaxCompilerError, ValueError):
    """An unknown option or an invalid value, in `torch.compile(..., options={...})` or in the
    environment.
    """


class EngineError(MaxCompilerError):
    """MAX could not compile or run a graph; MAX's own error is the `__cause__`."""


class IndexBoundsError(MaxCompilerError, IndexError):
    """An index of a compiled call is out of bounds; the message names the calls with an index."""


class PackageError(MaxCompilerError):
    """A package, a stored artifact or a Mojo kernel package could not be written or read."""


class ExportedProgramError(MaxCompilerError):
    """An exported program cannot be compiled as it is: it lacks weights, or it is for training."""


class InputError(MaxCompilerError, ValueError):
    """The arguments of a call do not fit the program that was compiled; says which, and how."""


class ProfileError(MaxCompilerError):
    """A profile could not be started."""


class FallbackWarning(UserWarning):
    """Part of a graph runs on PyTorch; the message names the op, the reason and the user's line."""


class GraphBreakWarning(UserWarning):
    """Dynamo ended a graph; the message names the reason and the user's line."""


def how_to_add(op: object) -> str:
    """One sentence on how to add a lowering of an `OpOverload`, for errors and warnings.

    This file imports no PyTorch, so that the command line can report errors without it.
    """
    packet = getattr(op, "overloadpacket", op)
    name = str(packet).replace("::", ".")
    return f"to add it: MAPPING_TORCH_ATEN_TO_MAX[torch.ops.{name}] = fn, see {ADDING_AN_OP}"
