"""The private APIs of PyTorch's minifier after AOTAutograd: `TORCHDYNAMO_REPRO_AFTER=aot`.

TorchInductor asks the minifier to watch its compiler; no hook does it for other backends. The
scripts that the minifier writes call TorchInductor's compiler by name, so they must begin with a
line that puts another one in its place.

Apart from `compat/dynamo.py` because importing this imports all of TorchInductor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch._dynamo.repro.after_aot as after_aot
import torch._inductor.compile_fx as compile_fx
from torch import fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

__all__ = ["compile_scripts_with", "infer_values", "takes_a_list", "watched"]

CompileGraph = Callable[[fx.GraphModule, Any], Callable[[list[Any]], Any]]

_COMPILER = "inductor"
"""The only name for which the minifier compares results, as level 4 asks."""


def watched(compile_graph: CompileGraph, line: str) -> CompileGraph:
    """`compile_graph`, and what it returns, watched by the minifier; scripts begin with `line`."""

    def compile_inner(gm: fx.GraphModule, inputs: Any, **_: Any) -> Any:
        return compile_graph(gm, inputs)

    compile_inner_watched = after_aot.wrap_compiler_debug(
        compile_inner,  # type: ignore[arg-type]
        _COMPILER,
    )

    def compile_watched(gm: fx.GraphModule, inputs: Any) -> Callable[[list[Any]], Any]:
        with _scripts_begin_with(line):
            function: Any = compile_inner_watched(gm, inputs)

        def run(args: list[Any]) -> Any:
            with _scripts_begin_with(line):
                return function(args)

        return takes_a_list(run)

    return compile_watched


def takes_a_list(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """`call`, a function, marked as one that is called with its arguments in one list."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def _scripts_begin_with(line: str) -> Iterator[None]:
    before = after_aot.extra_imports
    after_aot.extra_imports = line
    try:
        yield
    finally:
        after_aot.extra_imports = before


def compile_scripts_with(compile_graph: CompileGraph, line: str) -> None:
    """In the process of such a script: compile by `compile_graph`, here and in further scripts."""
    compile_fx.compile_fx_inner = compile_graph  # type: ignore[assignment]
    after_aot.extra_imports = line


def infer_values(gm: fx.GraphModule, inputs: Any) -> None:
    """Set `meta["val"]` of each node: the minifier takes nodes away, and makes inputs of others."""
    FakeTensorProp(gm).propagate(*inputs)
