"""IR files of released format versions, and how they were made.

A golden is written once, by the release that introduces a version, and never again:

    python -m tests.torch_ir.golden_files

writes the goldens of the current version that do not exist yet. test_goldens.py reads all of them.
"""

from __future__ import annotations

import collections
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.export import Dim

from tests.torch_ir.small_models import AllKinds
from torch_ir import IR, IRExecutor, extract_ir
from torch_ir.ir import SCHEMA_VERSION

FOLDER = Path(__file__).with_name("goldens")
MANIFEST = FOLDER / "manifest.json"
"""File name -> its hash, those of its constants, and what a run returns."""

Pair = collections.namedtuple("Pair", ["left", "right"])


class Everything(nn.Module):
    """Every field of a file but subgraphs, and every kind of value."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.head = nn.Linear(4, 11, bias=False)
        self.head.weight = self.embed.weight
        self.norm = nn.BatchNorm1d(4)
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scale", torch.tensor([0.5, 2.0, 1.0, -1.0]), persistent=False)
        self.table = torch.arange(600.0).reshape(150, 4)

    def forward(
        self, ids: torch.Tensor, image: torch.Tensor, flag: bool, *, state: dict[str, Any]
    ) -> dict[str, Any]:
        self.steps.add_(1)
        state["memory"].mul_(2)
        rows = ids.shape[0]
        h = self.embed(ids) * self.scale + self.table[:1]
        h = self.norm(h.mean(1))
        best, where = h.topk(2, dim=1)
        picture = self.conv(image.to(torch.float64).float()).contiguous(
            memory_format=torch.channels_last
        )
        phase = torch.polar(best, best) * (1 + 2j)
        limits = torch.full((rows, 2), float("-inf"), dtype=torch.float32).clamp(min=-4.5)
        parts = torch.div(best, 0.3, rounding_mode="floor")
        return {
            "logits": self.head(h),
            "pair": Pair(best, where),
            "ordered": collections.OrderedDict(picture=picture, rows=rows * 2 + 1),
            "list": [phase.real, None, flag, "text", 2.5],
            "tuple": (limits, parts, torch.empty_like(best, dtype=torch.int8).fill_(3)),
        }


class Control(nn.Module):
    """Subgraphs: cond, while_loop and scan."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop

        y = torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos() + 1, (self.fc(x),))
        count, z = while_loop(
            lambda i, t: i < 3,
            lambda i, t: (i + 1, t * 1.5),
            (torch.zeros((), dtype=torch.int64), y),
        )
        last, rows = scan(lambda carry, row: (carry + row, carry * row), torch.zeros(3), x)
        return y, count, z, last, rows


@dataclass(frozen=True)
class Golden:
    """How a file was extracted, and the call that is repeated."""

    name: str
    make: Callable[[], IR]
    inputs: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]


def everything_inputs(rows: int = 3) -> tuple[tuple[Any, ...], dict[str, Any]]:
    ids = torch.arange(rows * 4).reshape(rows, 4) % 11
    image = torch.linspace(-1, 1, 50).reshape(2, 1, 5, 5)
    return (ids, image, True), {"state": {"memory": torch.ones(2)}}


def _everything() -> IR:
    with torch.device("meta"):
        model = Everything().eval()
    args, kwargs = everything_inputs()
    shapes = {
        "ids": {0: Dim("rows", min=2, max=64)},
        "image": None,
        "flag": None,
        "state": {"memory": None},
    }
    return extract_ir(model, args, kwargs=kwargs, dynamic_shapes=shapes, model_name="everything")


def _x() -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.linspace(-1, 1, 6).reshape(2, 3),), {}


MODELS: dict[str, tuple[Callable[[], IR], Callable[[], Any]]] = {
    "features": (lambda: extract_ir(AllKinds(), _x()[0], model_name="golden"), _x),
    "everything": (_everything, everything_inputs),
    "control": (lambda: extract_ir(Control(), _x()[0], model_name="control"), _x),
}
VERSIONS = (1, 2)
GOLDENS = [
    Golden(f"v{version}_{name}", *model) for version in VERSIONS for name, model in MODELS.items()
]


def weights_of(ir: IR) -> dict[str, torch.Tensor]:
    """The same weights for every version of this package: numbers from -1 to 1."""
    made = {}
    for meta in ir.weights:
        sizes = [int(size) for size in meta.shape]
        dtype = getattr(torch, meta.dtype)
        values = torch.linspace(-1, 1, int(torch.tensor(sizes).prod())).reshape(sizes)
        made[ir.weight_name_mapping[meta.name]] = values.abs().to(dtype)
    return made


def run(ir: IR, golden: Golden) -> list[Any]:
    """Everything that a run returns, mutated state included, as plain lists."""
    args, kwargs = golden.inputs()
    result, mutated = IRExecutor(ir, weights_of(ir)).run_with_mutations(args, kwargs)
    flat = pytree.tree_leaves((result, [mutated[key] for key in sorted(mutated)]))
    return [_plain(value) for value in flat]


def _plain(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "values": [round(float(number), 6) for number in value.double().flatten()],
    }


def hashes(name: str) -> dict[str, str]:
    """File name -> hash of a golden and of its constants."""
    files = sorted(FOLDER.glob(f"{name}.*"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def main() -> None:
    manifest = json.loads(MANIFEST.read_text()) if MANIFEST.exists() else {}
    for golden in GOLDENS:
        path = FOLDER / f"{golden.name}.json"
        if not path.exists():
            if not golden.name.startswith(f"v{SCHEMA_VERSION}_"):
                raise SystemExit(
                    f"{path.name} is of an old version; only that version can write it"
                )
            golden.make().save(path)
        if golden.name not in manifest:
            ir = IR.load(path)
            manifest[golden.name] = {"files": hashes(golden.name), "result": run(ir, golden)}
    MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
