"""The engine `max` of torch_ir: an IR becomes an exported program, and enters at the same seam.

The entry point of the group `torch_ir.engines` in pyproject.toml names `engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torch_ir.errors import ExecutionError
from torch_ir.ir import IR
from torch_ir.to_program import to_exported_program
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.flags import Options
from torch_max_backend.frontend.exported import SeamGraph
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.observe.held_warnings import hold_warnings
from torch_max_backend.program import Kind


@hold_warnings()
def engine(
    ir: IR, weights: Mapping[str, torch.Tensor], options: Mapping[str, Any]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Compile an IR; `weights` by the names of the graph. See `torch_ir.engines.Engine`.

    What the model changes is returned, not written: torch_ir does that if it is asked to.
    """
    state = {key: weights[name] for name, key in ir.weight_name_mapping.items() if name in weights}
    try:
        graphs = GraphCompiler.prepared(Options.resolve(options))
        program = to_exported_program(ir, state)
        seam = SeamGraph.of(program)
        seam.return_everything()
        graph = graphs.compile(seam.module, Kind.INFERENCE, seam.static_inputs)
        graphs.finish()
    except MaxCompilerError as error:
        raise ExecutionError(f"the engine max cannot run this IR: {error}") from error
    # Decomposing renames the arguments; what they stand for keeps its name.
    own = {
        spec.target: weights.get(spec.arg.name)
        for spec in program.graph_signature.input_specs
        if spec.target is not None
    }
    arguments = [own.get(spec.target, seam.constant_of(spec)) for _, spec in seam.inputs]
    places = seam.user_inputs

    def run(flat: Sequence[Any]) -> Sequence[Any]:
        given = arguments.copy()
        for place, value in zip(places, flat, strict=True):
            given[place] = value
        return graph.run(given)

    return run
