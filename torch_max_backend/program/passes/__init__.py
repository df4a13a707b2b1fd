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
    causal_masks,
    fill_uniform,
    fold_constants,
    fold_weight_expressions,
    fuse_cross_entropy,
    fuse_epilogues,
    fuse_gelu,
    fuse_rms_norm,
    fuse_updates,
    group_products,
    image_programs,
    join_slices,
    pack_weights,
    read_transposed,
    remove_dead_calls,
    share_heads,
    write_in_place,
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
    Pass(causal_masks.causal_masks, _INFERENCE),
    Pass(join_slices.join_slices),
    Pass(fuse_cross_entropy.fuse_cross_entropy),
    Pass(fuse_rms_norm.fuse_rms_norm, _INFERENCE),
    Pass(fuse_gelu.fuse_gelu, _INFERENCE),
    Pass(share_heads.share_heads, _INFERENCE),
    Pass(write_in_place.write_in_place, _INFERENCE),
    Pass(fuse_updates.fuse_updates, _INFERENCE),
    Pass(image_programs.image_programs, _INFERENCE, _packing),
    Pass(pack_weights.pack_weights, _INFERENCE, _packing),
    Pass(group_products.group_products, _INFERENCE, _packing),
    Pass(fuse_epilogues.fuse_epilogues, _INFERENCE, _packing),
    Pass(fold_weight_expressions.fold_weight_expressions, _INFERENCE, _packing),
    Pass(read_transposed.read_transposed),
)


@dataclass(frozen=True)
class Step:
    """What a pass did to a program."""

    name: str
    before: Program
    after: Program


def run(program: Program, kind: Kind, options: Options, steps: list[Step] | None = None) -> Program:
    """`program` after every pass that applies to graphs of its kind under `options`.

    The passes that change it are appended to `steps`.
    """
    verified = verify.is_wanted()
    if verified:
        verify.verify(program, "the import")
    for item in PIPELINE:
        if item.applies(kind, options):
            before, program = program, item.run(program)
            if program is before:
                continue
            if verified:
                verify.verify(program, item.name, before)
            if steps is not None:
                steps.append(Step(item.name, before, program))
    return program
