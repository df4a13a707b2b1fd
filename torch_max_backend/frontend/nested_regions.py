"""Regions marked with `torch.compiler.nested_compile_region`: their nodes in place of the mark.

PyTorch keeps such a region as a call of a graph of its own, so that a compiler can compile it once.
MAX compiles equal kernels once in any case, and one graph is faster than many.
"""

from __future__ import annotations

import operator

from torch import fx

from torch_max_backend.compat.torch import invoke_subgraph


def inline_regions(gm: fx.GraphModule) -> None:
    """Replace every call of a region by the region's nodes."""
    changed = False
    while calls := [node for node in gm.graph.nodes if node.target is invoke_subgraph]:
        for call in calls:
            _inline(gm, call)
        changed = True
    if changed:
        gm.graph.eliminate_dead_code()
        used = {str(node.target) for node in gm.graph.find_nodes(op="get_attr")}
        for name, child in list(gm.named_children()):
            if isinstance(child, fx.GraphModule) and name not in used:
                delattr(gm, name)
        gm.recompile()


def _inline(gm: fx.GraphModule, call: fx.Node) -> None:
    mark, _, *operands = call.args
    assert isinstance(mark, fx.Node)
    region = gm.get_submodule(str(mark.target))
    assert isinstance(region, fx.GraphModule)
    copies = dict(zip(region.graph.find_nodes(op="placeholder"), operands, strict=True))
    with gm.graph.inserting_before(call):
        for node in region.graph.nodes:
            if node.op == "get_attr":
                name = f"{mark.target}_{node.target}".replace(".", "_")
                setattr(gm, name, operator.attrgetter(str(node.target))(region))
                copies[node] = gm.graph.get_attr(name)
        results = gm.graph.graph_copy(region.graph, copies)
    outputs = list(results) if isinstance(results, (list, tuple)) else [results]
    for user in list(call.users):
        assert user.target is operator.getitem, "a region returns a tuple"
        user.replace_all_uses_with(outputs[user.args[1]])  # type: ignore[index, arg-type]
        gm.graph.erase_node(user)
    gm.graph.erase_node(call)
