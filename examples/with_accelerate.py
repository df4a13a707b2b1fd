"""Train with Hugging Face Accelerate: `python -m examples.with_accelerate`.

Accelerate's own switch, `Accelerator(dynamo_backend=...)`, takes a fixed list of backends and no
other name. So compile the model, then `prepare` it: Accelerate leaves a compiled model as it is.
The same training also runs without `torch.compile`, and the losses are compared.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_max_backend import compile_stats


def train(compiled: bool, epochs: int = 5) -> list[float]:
    """Train a small model, and return the loss of each step."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model: nn.Module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(256, 4)
    batches = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=64)
    if compiled:
        model = torch.compile(model, backend="max_backend")
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    losses = []
    for _ in range(epochs):
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return losses


def main() -> None:
    expected, losses = train(compiled=False), train(compiled=True)
    torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-5)
    counted = compile_stats()
    assert counted["nodes_on_max"] and not counted["nodes_on_torch"], counted
    print(f"losses {losses[0]:.5f} ... {losses[-1]:.5f}, as in eager PyTorch")
    print(f"nodes on MAX {counted['nodes_on_max']:.0f}, graphs {counted['graphs']:.0f}")


if __name__ == "__main__":
    main()
