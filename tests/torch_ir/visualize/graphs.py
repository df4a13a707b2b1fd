"""IRs built by hand for the drawing tests: small ones, hostile ones, and one of any size."""

from __future__ import annotations

import torch

from torch_ir.ir import IR, GraphRef, OpNode, Subgraph, TensorMeta, TensorRef


def tensor(
    name: str, *shape: int | str, dtype: str = "float32", producer: str | None = None
) -> TensorMeta:
    return TensorMeta(name, shape, dtype, producer)


class Program:
    """Builds an IR node by node; each call returns a reference to its (only) result."""

    def __init__(self, *inputs: TensorMeta) -> None:
        self.known = {meta.name: meta for meta in inputs}
        self.inputs = list(inputs)
        self.weights: list[TensorMeta] = []
        self.mapping: dict[str, str] = {}
        self.nodes: list[OpNode] = []

    def weight(self, key: str, *shape: int, dtype: str = "float32") -> TensorRef:
        meta = tensor("p_" + key.replace(".", "_"), *shape, dtype=dtype)
        if meta.name not in self.known:
            self.weights.append(meta)
            self.mapping[meta.name] = key
            self.known[meta.name] = meta
        return TensorRef(meta.name)

    def op(
        self,
        op_type: str,
        shape: tuple[int | str, ...],
        module: str = "",
        /,
        *,
        name: str | None = None,
        module_type: str = "",
        source: str = "",
        **arguments: object,
    ) -> TensorRef:
        name = name or f"{op_type.split('.')[1]}_{len(self.nodes)}"
        output = tensor(name, *shape, producer=name)
        node = OpNode(
            name,
            op_type,
            [],
            [output],
            arguments=dict(arguments),
            module_path=module,
            module_type=module_type,
            source=source,
        )
        self.nodes.append(node)
        self.known[name] = output
        return TensorRef(name)

    def linear(
        self,
        path: str,
        x: TensorRef,
        inner: int,
        shape: tuple[int | str, ...],
        *,
        bias: bool = False,
        **options: str,
    ) -> TensorRef:
        """A linear layer at `path` that has `inner` input features."""
        outer = int(shape[-1])
        arguments = {"input": x, "weight": self.weight(f"{path}.weight", outer, inner)}
        if bias:
            arguments["bias"] = self.weight(f"{path}.bias", outer)
        return self.op("aten.linear.default", shape, path, **options, **arguments)

    def layer_norm(self, path: str, x: TensorRef, shape: tuple[int | str, ...]) -> TensorRef:
        """A layer norm at `path` over the last dimension."""
        width = int(shape[-1])
        weight = self.weight(f"{path}.weight", width)
        arguments = {"input": x, "normalized_shape": [width], "weight": weight}
        return self.op("aten.layer_norm.default", shape, path, **arguments)

    def ir(self, *outputs: TensorRef, name: str = "toy") -> IR:
        return IR(
            nodes=self.nodes,
            graph_inputs=self.inputs,
            graph_outputs=[self.known[ref.name] for ref in outputs],
            weights=self.weights,
            weight_name_mapping=self.mapping,
            model_name=name,
        )


def mlp() -> IR:
    """Two linear layers that share one activation module, and a residual."""
    p = Program(tensor("x", 4, 16))
    x = TensorRef("x")
    kind = "torch.nn.modules.linear.Linear"
    source = "mlp.py:12: return self.up(x)"
    h = p.linear(
        "net.up", x, 16, (4, 32), bias=True, name="linear", module_type=kind, source=source
    )
    h = p.op("aten.relu.default", (4, 32), "net.act", name="relu", self=h)
    h = p.linear("net.down", h, 32, (4, 16), bias=True, name="linear_1", module_type=kind)
    h = p.op("aten.relu.default", (4, 16), "net.act", name="relu_1", self=h)
    out = p.op("aten.add.Tensor", (4, 16), "", name="add", self=h, other=x, alpha=1)
    return p.ir(out, name="mlp")


def transformer(layers: int, name: str = "transformer") -> IR:
    """`layers` blocks of 25 ops, with a mask that every block reads: 5,000 nodes at 200 layers."""
    size = ("s0", 128, 256)
    p = Program(tensor("ids", "s0", 128, dtype="int64"), tensor("mask", "s0", 128, dtype="int64"))
    h = p.op(
        "aten.embedding.default",
        size,
        "wte",
        weight=p.weight("wte.weight", 1000, 256),
        indices=TensorRef("ids"),
    )
    mask = p.op("aten.unsqueeze.default", ("s0", 1, 128), "", self=TensorRef("mask"), dim=1)
    for i in range(layers):
        at = f"layers.{i}"
        h = _block(p, at, h, mask, size)
    h = p.layer_norm("norm", h, size)
    out = p.linear("head", h, 256, ("s0", 128, 1000))
    return p.ir(out, name=name)


def _block(
    p: Program, at: str, h: TensorRef, mask: TensorRef, size: tuple[int | str, ...]
) -> TensorRef:
    heads = ("s0", 4, 128, 64)
    n = p.layer_norm(f"{at}.norm1", h, size)
    projected = []
    for part in "qkv":
        y = p.linear(f"{at}.attn.{part}", n, 256, size)
        y = p.op(
            "aten.view.default", ("s0", 128, 4, 64), f"{at}.attn", self=y, size=["s0", 128, 4, 64]
        )
        projected.append(p.op("aten.transpose.int", heads, f"{at}.attn", self=y, dim0=1, dim1=2))
    q, k, v = projected
    kt = p.op("aten.transpose.int", ("s0", 4, 64, 128), f"{at}.attn", self=k, dim0=-1, dim1=-2)
    s = p.op("aten.matmul.default", ("s0", 4, 128, 128), f"{at}.attn", self=q, other=kt)
    s = p.op("aten.mul.Scalar", ("s0", 4, 128, 128), f"{at}.attn", self=s, other=0.125)
    s = p.op("aten.add.Tensor", ("s0", 4, 128, 128), f"{at}.attn", self=s, other=mask)
    s = p.op("aten.softmax.int", ("s0", 4, 128, 128), f"{at}.attn", self=s, dim=-1)
    y = p.op("aten.matmul.default", heads, f"{at}.attn", self=s, other=v)
    y = p.op("aten.transpose.int", ("s0", 128, 4, 64), f"{at}.attn", self=y, dim0=1, dim1=2)
    y = p.op("aten.reshape.default", size, f"{at}.attn", self=y, shape=["s0", 128, 256])
    y = p.linear(f"{at}.attn.out", y, 256, size)
    h = p.op("aten.add.Tensor", size, at, self=h, other=y)
    n = p.layer_norm(f"{at}.norm2", h, size)
    y = p.linear(f"{at}.mlp.up", n, 256, ("s0", 128, 1024))
    y = p.op("aten.gelu.default", ("s0", 128, 1024), f"{at}.mlp.act", self=y, approximate="tanh")
    y = p.linear(f"{at}.mlp.down", y, 1024, size)
    return p.op("aten.add.Tensor", size, at, self=h, other=y)


def branching() -> IR:
    """A `cond` with two subgraphs of one op each."""
    p = Program(tensor("flag", dtype="bool"), tensor("x", 3))
    x = tensor("arg0", 3)

    def branch(op_type: str) -> Subgraph:
        node = OpNode(
            "inner",
            op_type,
            [x],
            [tensor("inner", 3, producer="inner")],
            arguments={"self": TensorRef("arg0")},
        )
        return Subgraph([x], [node], [TensorRef("inner")])

    out = p.op(
        "higher_order.cond",
        (3,),
        "gate",
        name="cond",
        pred=TensorRef("flag"),
        true_fn=GraphRef("true_graph_0"),
        false_fn=GraphRef("false_graph_0"),
        operands=[TensorRef("x")],
    )
    ir = p.ir(out, name="branching")
    ir.subgraphs = {
        "true_graph_0": branch("aten.sin.default"),
        "false_graph_0": branch("aten.cos.default"),
    }
    return ir


def constant_reader() -> IR:
    """One op that reads a constant of the graph."""
    p = Program(tensor("x", 3))
    out = p.op("aten.add.Tensor", (3,), self=TensorRef("x"), other=TensorRef("c_bias"))
    ir = p.ir(out)
    ir.constants = {"c_bias": torch.zeros(3, dtype=torch.bfloat16)}
    return ir


HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "--><!-- `${alert(1)}` ';//\"",
    '"]; subgraph evil["x',
    "end\nclick n0 callback\u2028\u2029\x00\ud800\u202e",
    "@CSP@ @DATA@ @JS@",
)


def hostile() -> IR:
    """Every place for a name has one that tries to become markup or code."""
    bad = list(HOSTILE)
    p = Program(tensor(bad[0], "</title><script>document.title='owned'</script>", 2))
    h = TensorRef(bad[0])
    for i, text in enumerate(bad):
        h = p.op(
            f"aten.{text}.default",
            (2, text),
            f"m.{text}",
            name=f"{text}{i}",
            module_type=text,
            source=text,
            **{text: text, "self": h, "weight": p.weight(text, 2)},
        )
    return p.ir(h, name="".join(bad))


def flat(count: int) -> IR:
    """`count` nodes without modules; each also reads one from before, every third from far."""
    p = Program(tensor("x", 8))
    made = [TensorRef("x")]
    for i in range(count):
        far = made[(i * 7919) % len(made)] if i % 3 == 0 else made[max(0, len(made) - 1 - i % 17)]
        made.append(
            p.op("aten.add.Tensor", (8,), self=made[-1 - (i % 2) * (len(made) > 1)], other=far)
        )
    return p.ir(made[-1], name="flat")


ALL = {
    "mlp": mlp,
    "transformer": lambda: transformer(3),
    "branching": branching,
    "constant": constant_reader,
    "hostile": hostile,
}
"""One of each kind, by name."""
