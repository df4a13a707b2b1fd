"""Inference, training and graph extraction, end to end: `make demo`.

Runs a small GPT-2 and a small CNN on MAX and compares them with eager PyTorch, trains a small model
on MAX, then extracts a graph without weights, saves, loads and verifies it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from examples import ir_demo
from torch_max_backend import compile_stats, compile_together, max_backend

CONSOLE = Console(width=100 if not sys.stdout.isatty() else None)
STEPS = 30


def small_gpt2() -> nn.Module:
    config = GPT2Config(
        vocab_size=512,
        n_positions=64,
        n_embd=64,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).eval()


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    ).eval()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))


@contextmanager
def visibly(what: str) -> Iterator[None]:
    """Print what is being done and how long it takes; every 15 s, that it still runs."""
    CONSOLE.print(f"[bold]{what}[/bold] ...")
    done = threading.Event()
    start = time.perf_counter()

    def tick() -> None:
        while not done.wait(15):
            CONSOLE.print(f"  still running after {time.perf_counter() - start:.0f} s")

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()
    CONSOLE.print(f"  done in {time.perf_counter() - start:.1f} s")


def milliseconds(function: Callable[[], object], rounds: int = 20) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return median(times) * 1e3


def training_step(model: nn.Module) -> Callable[[torch.Tensor, torch.Tensor], float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    compiled = torch.compile(model, backend=max_backend)

    def step(x: torch.Tensor, y: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(compiled(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main(output: Path = Path("demo_output")) -> int:
    """Run the demo; exit code 1 if a result differs from PyTorch's or the loss does not fall."""
    torch.manual_seed(0)
    gpt2, cnn = small_gpt2(), small_cnn()
    tokens, image = torch.randint(0, 512, (1, 64)), torch.randn(4, 3, 32, 32)
    runs = {
        "GPT-2, 2 layers, 64 tokens": (gpt2, (tokens,), lambda out: out.logits),
        "CNN, batch 4, 32×32": (cnn, (image,), lambda out: out),
    }
    compiled = {name: torch.compile(run[0], backend=max_backend) for name, run in runs.items()}
    model = mlp()
    step = training_step(model)
    x = torch.rand(256, 2) * 2 - 1
    y = (x[:, :1] * x[:, 1:]).sin()

    with visibly("Compiling three models for MAX, as one Module"), compile_together():
        with torch.no_grad():
            for name, (_, inputs, _) in runs.items():
                compiled[name](*inputs)
        first_loss = step(x, y)

    ok = True
    table = Table(title="Inference on MAX, compared with eager PyTorch")
    for column in ("model", "max abs error", "eager ms", "MAX ms"):
        table.add_column(column, justify="left" if column == "model" else "right")
    with torch.no_grad():
        for name, (eager, inputs, pick) in runs.items():
            error = (pick(compiled[name](*inputs)) - pick(eager(*inputs))).abs().max().item()
            ok &= error <= 1e-4
            table.add_row(
                name,
                f"{error:.1e}",
                f"{milliseconds(lambda: eager(*inputs)):.2f}",  # noqa: B023 - called at once
                f"{milliseconds(lambda: compiled[name](*inputs)):.2f}",  # noqa: B023
            )
    CONSOLE.print(table)

    losses = [first_loss, *(step(x, y) for _ in range(STEPS))]
    ok &= losses[-1] < 0.5 * losses[0]
    table = Table(title="Training an MLP on MAX (forward and backward)")
    table.add_column("step")
    table.add_column("loss", justify="right")
    for index in range(0, len(losses), 10):
        table.add_row(str(index), f"{losses[index]:.5f}")
    CONSOLE.print(table)

    CONSOLE.print({key: round(value, 1) for key, value in compile_stats().items()})
    ok &= ir_demo.main(output) == 0
    CONSOLE.print("[green]all results match PyTorch" if ok else "[red]a result is wrong")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
