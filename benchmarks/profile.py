"""Where the time of a benchmark model goes: `python -m benchmarks.profile gpt2-128 [CALLS]`.

`training-gpt` is a training step of a small GPT with AdamW; `train-*` are those of the catalogue.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import stepped
from benchmarks.catalogue import BENCHMARKS
from benchmarks.models import make
from torch_max_backend import max_backend, profile

WIDTH, HEADS, TOKENS, VOCABULARY = 256, 4, 128, 8192


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norms[0](x)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def training_step(layers: int = 2) -> Callable[[], object]:
    """Forward, backward and optimizer."""
    torch.manual_seed(0)
    model = Gpt(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    ids = torch.randint(0, VOCABULARY, (4, TOKENS + 1))
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    loss_of = torch.compile(
        lambda: F.cross_entropy(model(x).flatten(0, 1), y.flatten()), backend=max_backend
    )
    update = torch.compile(lambda: optimizer.step(), backend=max_backend)

    def step() -> None:
        optimizer.zero_grad()
        loss_of().backward()
        update()

    return step


def inference(name: str) -> Callable[[], object]:
    """A call of a benchmark model."""
    benchmark = make(name)
    compiled = torch.compile(benchmark.model, backend=max_backend)

    def call() -> torch.Tensor:
        with torch.no_grad():
            return compiled(*benchmark.args)

    return call


def measured(call: Callable[[], object], calls: int) -> float:
    """The median, in ms."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times) * 1e3


def main() -> None:
    name, calls = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10
    if name == "training-gpt":
        call = training_step()
    elif name in stepped.STEPPED:
        call = stepped.start(name, BENCHMARKS[name].batches[0], "max_backend")
    else:
        call = inference(name)
    for _ in range(4):
        call()
    before = measured(call, calls)
    with profile() as p:
        for _ in range(calls):
            call()
    after = measured(call, calls)
    print(p)
    print(
        f"{name}: {calls} calls, {p.wall / calls * 1e3:.2f} ms each; median without a profile "
        f"{before:.2f} ms before and {after:.2f} ms after; explained {p.result.explained:.1%}"
    )
    p.save_chrome_trace(f"{name}.trace.json")


if __name__ == "__main__":
    main()
