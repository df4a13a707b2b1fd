"""One measurement of a package that is imported as `torch_ir`, printed as a line of JSON.

Runs in two environments, with this project's torch_ir and with PyPI's pytorch-ir, which has the
same import name: so it uses only what both have, PyTorch, and nothing of this repository.

python ir_worker.py {pipeline,memory} {gpt2,resnet50} | overhead | probe
"""

from __future__ import annotations

import json
import math
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import torch_ir


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for t in self.qkv(x).split(width, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        y = (scores + mask[:length, :length]).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """GPT-2 (124M). Mask and positions are buffers: pytorch-ir cannot save a model that makes
    them in forward."""

    mask: torch.Tensor
    positions: torch.Tensor

    def __init__(self, width: int = 768, layers: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 50257, bias=False)
        self.register_buffer("mask", torch.full((256, 256), float("-inf")).triu(1))
        self.register_buffer("positions", torch.arange(256))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(self.positions[: ids.shape[1]])
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


class Bottleneck(nn.Module):
    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = 4 * width
        self.conv1 = nn.Conv2d(inner, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, outer, 1, bias=False)
        self.bn1, self.bn2, self.bn3 = (nn.BatchNorm2d(n) for n in (width, width, outer))
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.skip = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.skip(x))


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks, inner = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(inner, width, stride if i == 0 else 1))
                inner = 4 * width
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Chain(nn.Module):
    """2,000 nodes on a tensor of two numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(1000):
            x = torch.relu(x + 1.0)
        return x


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "gpt2": (GPT2, lambda: torch.zeros(1, 256, dtype=torch.long)),
    "resnet50": (ResNet50, lambda: torch.zeros(4, 3, 224, 224)),
}


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """Shortest processor time of a call. Whoever else is running can only add to it."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def build(name: str, device: str) -> tuple[nn.Module, torch.Tensor]:
    make, example = MODELS[name]
    with torch.device(device):
        return make().eval(), example()


def pipeline(name: str) -> dict[str, float]:
    model, x = build(name, "meta")
    torch_ir.extract_ir(model, (x,))  # PyTorch imports and caches on the first export
    extract = seconds(lambda: torch_ir.extract_ir(model, (x,)), 10)
    ir = torch_ir.extract_ir(model, (x,))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        save = seconds(lambda: ir.save(path), 40)
        load = seconds(lambda: torch_ir.IR.load(path), 40)
        size = path.stat().st_size
    return {
        "nodes": len(ir.nodes),
        "extract_s": extract,
        "save_ms": save * 1e3,
        "load_ms": load * 1e3,
        "file_kib": size / 1024,
    }


def peak_since(function: Callable[[], Any]) -> float:
    """Growth of the process's peak memory during a call, in MiB."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = status("VmRSS")
    function()
    return (status("VmHWM") - before) / 1024


def status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise RuntimeError(f"{field} is not in /proc/self/status")


def memory(name: str) -> dict[str, float]:
    skeleton, meta = build(name, "meta")
    ir = torch_ir.extract_ir(skeleton, (meta,))
    model, x = build(name, "cpu")
    weights = model.state_dict()
    result: list[Any] = []
    peak = peak_since(lambda: result.append(torch_ir.execute_ir(ir, (x,), weights=weights)))
    with torch.no_grad():
        expected = model(x)
    actual = result[0][0] if isinstance(result[0], tuple) else result[0]
    return {"peak_mib": peak, "max_abs_error": float((actual - expected).abs().max())}


def overhead() -> dict[str, float]:
    x = torch.zeros(2)
    ir = torch_ir.extract_ir(Chain(), (x.to("meta"),))
    relu, add = torch.ops.aten.relu.default, torch.ops.aten.add.Tensor

    def bare() -> None:
        y = x
        for _ in range(1000):
            y = relu(add(y, 1.0))

    count = len(ir.nodes)
    torch_ir.execute_ir(ir, (x,), weights={})
    executor = torch_ir.IRExecutor(ir, {})
    run = executor.run if hasattr(executor, "run") else executor.execute
    with torch.no_grad():
        bare_us = seconds(bare, 15) / count * 1e6
    once_us = seconds(lambda: torch_ir.execute_ir(ir, (x,), weights={}), 15) / count * 1e6
    again_us = seconds(lambda: run((x,)), 15) / count * 1e6
    return {
        "nodes": count,
        "bare_us": bare_us,
        "execute_ir_us": once_us,
        "executor_us": again_us,
    }


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    task, *rest = arguments
    if task == "probe":
        result: dict[str, Any] = {"module": torch_ir.__file__, "torch": torch.__version__}
    elif task == "overhead":
        result = overhead()
    else:
        result = {"pipeline": pipeline, "memory": memory}[task](*rest)
    result["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
