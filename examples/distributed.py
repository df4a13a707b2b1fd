"""Train with several processes: `torchrun --nproc-per-node 2 -m examples.distributed ddp`.

`ddp` wraps the model in DistributedDataParallel, `fsdp` shards it with `fully_shard`. PyTorch sends
gradients and shards with gloo; the model itself is compiled for MAX. The same training also runs
without `torch.compile`, and the losses are compared.
"""

from __future__ import annotations

import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_max_backend import compile_stats, compile_together, max_backend


class Block(nn.Module):
    """The unit that FSDP gathers and frees at a time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def model(width: int) -> nn.Sequential:
    return nn.Sequential(Block(width), Block(width), nn.Linear(width, 4))


def distributed(how: str, compiled: bool) -> nn.Module:
    """The model, wrapped and, if `compiled`, compiled."""
    layers = model(16)
    if how == "ddp":
        whole = DistributedDataParallel(layers)
        return torch.compile(whole, backend=max_backend) if compiled else whole
    # Each block is compiled, then sharded: FSDP's hooks stay outside of the compiled code.
    for index, layer in enumerate(layers):
        if compiled:
            layers[index] = torch.compile(layer, backend=max_backend)
        fully_shard(layers[index])
    return fully_shard(layers)


def train(how: str, compiled: bool, steps: int) -> list[float]:
    """Train, and return the mean loss over all processes after each step."""
    torch.manual_seed(0)
    run = distributed(how, compiled)
    optimizer = torch.optim.AdamW(run.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        torch.manual_seed(1000 * step + dist.get_rank())  # a batch for each process
        x, y = torch.randn(8, 16), torch.randn(8, 4)
        optimizer.zero_grad()
        # The first step runs on PyTorch; all its graphs then compile as one Module.
        with compile_together() if step == 0 else contextlib.nullcontext():
            loss = F.mse_loss(run(x), y)
            loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["ddp", "fsdp"])
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    try:
        expected = train(args.how, False, args.steps)
        losses = train(args.how, True, args.steps)
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
        counted = compile_stats()
        if dist.get_rank() == 0:
            print(f"{args.how}: losses {losses[0]:.5f} ... {losses[-1]:.5f}")
            print(f"largest relative difference from eager {worst:.2e}")
            print(f"nodes on MAX {counted['nodes_on_max']:.0f}")
        if worst > 1e-3 or not counted["nodes_on_max"]:
            raise SystemExit(
                f"{args.how}: losses differ by {worst:.2e}, or nothing ran on MAX: {counted}"
            )
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
