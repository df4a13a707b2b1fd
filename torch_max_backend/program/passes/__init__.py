"""The passes over a `Program`, in order: each takes one and returns it, or an equivalent one.

`run` is the only way into them, for the backend and for its tests. One pass per file, its rules
numbered in its docstring; to add a pass, write its file and a line in `PIPELINE`. The tests verify
the program after each pass, and so does the backend with TORCH_MAX_BACKEND_VERBOSE=1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_max_backend.flags import Options
from torch_max_backend.program import verify
from torch_max_backend.program.passes import (
    fill_uniform,
    fold_constants,
    fuse_gelu,
    fuse_rms_norm,
    group_matvecs,
    image_programs,
    pack_weights,
    remove_dead_calls,
)
from torch_max_backend.program.program import Kind, Program


def _always(options: Options) -> bool:
    return True


def _packing(options: Options) -> bool:
    return options.pack_weights


@dataclass(frozen=True)
class Pass:
    """One pass, and the graphs that it applies to."""

    run: Callable[[Program], Program]
    kinds: frozenset[Kind] = frozenset(Kind)
    wanted: Callable[[Options], bool] = _always
    """Whether the user's options allow it."""

    @property
    def name(self) -> str:
        return self.run.__name__

    def applies(self, kind: Kind, options: Options) -> bool:
        return kind in self.kinds and self.wanted(options)


_INFERENCE = frozenset({Kind.INFERENCE})

PIPELINE: tuple[Pass, ...] = (
    Pass(remove_dead_calls.remove_dead_calls),
    Pass(fill_uniform.fill_uniform),
    Pass(fold_constants.fold_constants),
    Pass(fuse_rms_norm.fuse_rms_norm, _INFERENCE),
    Pass(fuse_gelu.fuse_gelu, _INFERENCE),
    Pass(image_programs.image_programs, _INFERENCE, _packing),
    Pass(pack_weights.pack_weights, _INFERENCE, _packing),
    Pass(group_matvecs.group_matvecs, _INFERENCE, _packing),
)


def run(program: Program, kind: Kind, options: Options) -> Program:
    """`program` after every pass that applies to graphs of its kind under `options`."""
    verified = verify.is_wanted()
    if verified:
        verify.verify(program, "the import")
    for item in PIPELINE:
        if item.applies(kind, options):
            before, program = program, item.run(program)
            if verified and program is not before:
                verify.verify(program, item.name, before)
    return program
