"""Rewrites a graph so that its complex tensors are pairs of real ones.

Complex inputs and outputs of the graph stay complex: `view_as_real` of an input and
`view_as_complex` of an output compute nothing, they only reinterpret memory (`fx_importer.py`,
`runtime/call.py`, `runtime/results.py`). Calls without a rewrite in `arithmetic.py` stay complex,
between two such views, and run on PyTorch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx

from torch_max_backend.compat.torch import (
    FakeTensorMode,
    OpOverload,
    detect_fake_mode,
    make_fx,
    pytree,
    set_codegen_of,
    unset_fake_temporarily,
)
from torch_max_backend.frontend.complex_numbers import fourier
from torch_max_backend.frontend.complex_numbers.arithmetic import (
    TRANSFORMS,
    is_part_by_part,
    rewrite_of,
)
from torch_max_backend.frontend.complex_numbers.pair import Pair
from torch_max_backend.frontend.fx_importer import tensors_of
from torch_max_backend.frontend.strided_views import is_read_by_memory

aten = torch.ops.aten

NodePair = tuple[fx.Node, fx.Node]
Made = fx.Node | NodePair | list["fx.Node | NodePair"]
"""What a node of the old graph becomes in the new one."""


def without_complex_numbers(
    gm: fx.GraphModule, decompositions: Callable[[], Mapping[Any, Any]]
) -> fx.GraphModule:
    """`gm` with real tensors as far as possible; `gm` itself if it has no complex ones."""
    if not any(map(_has_complex, gm.graph.nodes)):
        return gm
    return _Rewriter(gm, decompositions()).run()


def _has_complex(node: fx.Node) -> bool:
    return any(tensor.is_complex() for tensor in tensors_of(node))


class _Rewriter:
    def __init__(self, gm: fx.GraphModule, decompositions: Mapping[Any, Any]) -> None:
        self.gm = gm
        self.decompositions = dict(decompositions)
        self.graph = fx.Graph()
        set_codegen_of(self.graph, gm.graph)
        self.root = torch.nn.Module()
        for name, value in _attributes(gm):
            setattr(self.root, name, value)
        self.made: dict[fx.Node, Made] = {}
        self.pairs: dict[fx.Node, NodePair] = {}
        """The two parts of complex nodes that a rewritten call reads."""
        self.complexes: dict[fx.Node, fx.Node] = {}
        """The complex views of rewritten nodes that a complex call reads."""
        self.constants: dict[object, fx.Node] = {}
        values = [value for node in gm.graph.nodes for value in tensors_of(node)]
        self.fake_mode = detect_fake_mode(values) or FakeTensorMode()

    def run(self) -> fx.GraphModule:
        for node in self.gm.graph.nodes:
            self.made[node] = self._rewritten(node)
        self.graph.eliminate_dead_code()
        self.graph.lint()
        made = fx.GraphModule(self.root, self.graph)
        made.meta.update(self.gm.meta)
        return made

    def _rewritten(self, node: fx.Node) -> Made:
        if node.target is operator.getitem:
            source = self.made[node.args[0]]  # type: ignore[index]
            if isinstance(source, list):
                return source[node.args[1]]  # type: ignore[index]
        if node.op == "call_function" and self._concerns_complex(node):
            function = rewrite_of(node.target)
            made = None
            if function is not None and _can_rewrite(node):
                made = self._rewritten_call(node, function)
            if made is not None:
                return made
        return self.graph.node_copy(node, self._one)

    def _concerns_complex(self, node: fx.Node) -> bool:
        return _has_complex(node) or any(map(_has_complex, node.all_input_nodes))

    def _one(self, node: fx.Node) -> fx.Node:
        """The value of an old node as one node, complex if the old one was."""
        made = self.made[node]
        if isinstance(made, fx.Node):
            return made
        assert isinstance(made, tuple)
        if node not in self.complexes:
            (pairs,) = self._traced(lambda a, b: [torch.stack([a, b], -1)], made, node)
            view = self.graph.call_function(aten.view_as_complex.default, (pairs,))
            view.meta = dict(node.meta)
            self.complexes[node] = view
        return self.complexes[node]

    def _pair(self, node: fx.Node) -> NodePair:
        made = self.made[node]
        if isinstance(made, tuple):
            return made
        if node in self.pairs:
            return self.pairs[node]
        assert isinstance(made, fx.Node)
        value = made.meta["val"]
        if value.is_conj() or value.is_neg():  # its memory does not hold its values
            made = self._called(aten.clone.default, made, node)
        real = self._called(aten.view_as_real.default, made, node)
        re, im = self._traced(lambda x: [x.select(-1, 0), x.select(-1, 1)], (real,), node)
        self.pairs[node] = re, im
        return re, im

    def _called(self, op: OpOverload, argument: fx.Node, source: fx.Node) -> fx.Node:
        node = self.graph.call_function(op, (argument,))
        node.meta = {**source.meta}
        with self.fake_mode, torch.no_grad():
            node.meta["val"] = op(argument.meta["val"])
        return node

    def _rewritten_call(self, node: fx.Node, function: Callable[..., Any]) -> Made | None:
        """The call rewritten by `function`; None if its results do not match PyTorch's."""
        inputs: list[fx.Node] = []

        def reference(argument: fx.Node) -> Any:
            parts = self._pair(argument) if _has_complex(argument) else (self._one(argument),)
            positions = []
            for part in parts:
                if part not in inputs:
                    inputs.append(part)
                positions.append(inputs.index(part))
            return _InputRef(tuple(positions))

        referenced: Any = fx.map_arg((node.args, node.kwargs), reference)
        args, kwargs = referenced
        constants = _Constants()
        if getattr(node.target, "overloadpacket", None) in TRANSFORMS:
            kwargs = {**kwargs, "constant": constants}
        results: list[Any] = []

        def run(*values: Any) -> list[torch.Tensor]:
            constants.begin(values[len(inputs) :])
            filled, named = pytree.tree_map_only(
                _InputRef, lambda reference: reference.read(values), (args, kwargs)
            )
            result = function(*filled, **named)
            results[:] = result if isinstance(result, (list, tuple)) else [result]
            return [part for value in results for part in _parts(value)]

        try:
            with self.fake_mode, torch.no_grad():
                run(*(item.meta["val"] for item in inputs))  # collects the constants
        except (TypeError, RuntimeError):
            return None  # the rewrite does not cover this case: PyTorch runs it, with a warning
        if list(map(_kind, results)) != list(map(_kind, tensors_of(node))):
            return None  # an overload that the rewrite does not cover
        held = [self._constant(key, make, like) for key, make, like in constants.wanted]
        tensors = iter(self._traced(run, (*inputs, *held), node))
        made = [
            (next(tensors), next(tensors)) if isinstance(value, Pair) else next(tensors)
            for value in results
        ]
        return made if isinstance(node.meta["val"], (list, tuple)) else made[0]

    def _constant(self, key: object, make: Callable[[], np.ndarray], like: torch.Tensor) -> fx.Node:
        key = (key, like.dtype, like.device)
        if key not in self.constants:
            with unset_fake_temporarily():  # AOTAutograd compiles under its fake mode
                tensor = torch.from_numpy(make()).to(like.dtype).to(like.device).contiguous()
            name = f"_complex_constant_{len(self.constants)}"
            self.root.register_buffer(name, tensor)
            node = self.graph.get_attr(name)
            node.meta["val"] = self.fake_mode.from_tensor(tensor, static_shapes=True)
            self.constants[key] = node
        return self.constants[key]

    def _traced(
        self, function: Callable[..., Any], inputs: tuple[fx.Node, ...], source: fx.Node
    ) -> list[fx.Node]:
        """Trace `function` into the new graph; the nodes of its results."""
        trace = make_fx(function, decomposition_table=self.decompositions)
        with self.fake_mode, torch.no_grad():
            traced = trace(*(item.meta["val"] for item in inputs))
        env: dict[fx.Node, fx.Node] = {}
        given = iter(inputs)
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "output":
                return [env[result] for result in node.args[0]]
            elif node.target is aten.detach.default:
                env[node] = env[node.args[0]]
            else:
                assert node.op == "call_function", node.format_node()
                env[node] = self.graph.node_copy(node, env.__getitem__)
                env[node].meta = {**source.meta, "val": node.meta.get("val")}
        raise AssertionError("a trace without an output")


@dataclass(frozen=True)
class _InputRef:
    """The position of an argument among the inputs, or the two positions of a pair."""

    positions: tuple[int, ...]

    def read(self, values: tuple[Any, ...]) -> Any:
        found = [values[position] for position in self.positions]
        return Pair(*found) if len(found) == 2 else found[0]


class _Constants:
    """A `fourier.Constant` for two runs: the first collects the constants, the second gets them."""

    def __init__(self) -> None:
        self.wanted: list[tuple[object, Callable[[], np.ndarray], torch.Tensor]] = []
        self.keys: dict[object, int] = {}
        self.given: tuple[torch.Tensor, ...] = ()

    def begin(self, given: tuple[torch.Tensor, ...]) -> None:
        self.given = given

    def __call__(
        self, key: object, make: Callable[[], np.ndarray], like: torch.Tensor
    ) -> torch.Tensor:
        if self.given:
            return self.given[self.keys[key]]
        if key not in self.keys:
            self.keys[key] = len(self.wanted)
            self.wanted.append((key, make, like))
        return like.new_empty(make().shape)


def _attributes(gm: fx.GraphModule) -> list[tuple[str, Any]]:
    names = {str(node.target).split(".")[0] for node in gm.graph.find_nodes(op="get_attr")}
    return [(name, getattr(gm, name)) for name in names]


def _kind(value: Any) -> tuple[bool, torch.dtype, tuple[Any, ...]]:
    """Whether the value is complex, the dtype of its parts, and its shape."""
    pair = isinstance(value, Pair)
    part = value.re if pair else value
    return pair or part.is_complex(), part.dtype.to_real(), tuple(part.shape)


def _parts(value: Any) -> tuple[torch.Tensor, ...]:
    return (value.re, value.im) if isinstance(value, Pair) else (value,)


def _can_rewrite(node: fx.Node) -> bool:
    """Whether the rewrite of the node's op applies to this call."""
    if is_read_by_memory(node):
        return False  # the two parts would have no gaps
    given = [tensor for source in node.all_input_nodes for tensor in tensors_of(source)]
    if is_part_by_part(node.target):
        return any(tensor.is_complex() for tensor in given)
    if getattr(node.target, "overloadpacket", None) in TRANSFORMS:
        dims: Any = node.args[1]
        lengths: list[Any] = [given[0].shape[dim] for dim in dims]
        if node.target is aten._fft_c2r.default:
            lengths[-1] = node.args[3]
        return all(isinstance(n, int) and fourier.can_split(n) for n in lengths)
    return True
