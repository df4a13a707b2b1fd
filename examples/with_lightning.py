"""Train with Lightning: `python -m examples.with_lightning`.

The Trainer takes a compiled LightningModule and compiles its steps: loss and model are one graph,
and its gradients another. The same training also runs without `torch.compile`, and the losses are
compared.
"""

from __future__ import annotations

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torch_max_backend import compile_stats


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        inputs, targets = batch
        return nn.functional.mse_loss(self.layers(inputs), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Losses(lightning.Callback):
    """The loss of each step."""

    def __init__(self) -> None:
        self.all: list[float] = []

    def on_train_batch_end(
        self, trainer: object, module: object, outputs: dict[str, torch.Tensor], *_: object
    ) -> None:
        self.all.append(outputs["loss"].item())


def train(compiled: bool, epochs: int = 5) -> list[float]:
    """Train a small model, and return the loss of each step."""
    torch.manual_seed(0)
    model = Regression()
    x = torch.randn(256, 4)
    batches = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=64)
    losses = Losses()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[losses],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(torch.compile(model, backend="max_backend") if compiled else model, batches)
    return losses.all


def main() -> None:
    expected, losses = train(compiled=False), train(compiled=True)
    torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-5)
    counted = compile_stats()
    assert counted["nodes_on_max"] and not counted["nodes_on_torch"], counted
    print(f"losses {losses[0]:.5f} ... {losses[-1]:.5f}, as in eager PyTorch")
    print(f"nodes on MAX {counted['nodes_on_max']:.0f}, graphs {counted['graphs']:.0f}")


if __name__ == "__main__":
    main()
