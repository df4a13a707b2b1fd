"""What is trained, and how: a model, its batches, its loss, its optimizer. Rows, as for ops."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, StepLR

from tests.training.models import Cnn, Gpt, Mlp, Recurrent, Vit

WARM = 3
"""Steps before MAX begins: a momentum is born in the first, a rate has changed in the third."""
STEPS = 50

Batch = tuple[torch.Tensor, torch.Tensor]
Parameters = Iterator[nn.Parameter]


def numbers() -> Batch:
    return torch.randn(6, 8), torch.randn(6, 4)


def pictures() -> Batch:
    return torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))


def texts() -> Batch:
    ids = torch.randint(0, 48, (2, 17))
    return ids[:, :-1], ids[:, 1:]


def sentences() -> Batch:
    return torch.randint(0, 20, (3, 6)), torch.randint(0, 5, (3,))


def mean_square(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(result, target)


def classes(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(result, target, label_smoothing=0.1)


def next_token(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(result.flatten(0, 1), target.flatten(), ignore_index=3)


@dataclass(frozen=True)
class Case:
    """One training."""

    name: str
    model: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    optimizer: Callable[[Parameters], optim.Optimizer]
    clip: float | None = None
    schedule: Callable[[optim.Optimizer], LRScheduler] | None = None
    drawn: int = 0
    """Dropouts: what their graph has on PyTorch by design, a tensor and its random values each."""
    noise: tuple[str, ...] = ()
    """Parameters with a gradient of 0 but for rounding, such as a key's bias: AdamW follows it."""
    dynamic: bool | None = False
    """As torch.compile takes it; None where a number is to change without a compile."""
    group: str = ""
    """Cases of one group compile as one Module; that of "default" is the default run."""
    together: bool = True
    """Whether in a `compile_together()` block, or as a user who does not know of it."""


def _mlp(name: str, optimizer: Callable[[Parameters], optim.Optimizer], **more: Any) -> Case:
    # Each by itself: cases of one group share torch.optim's frames, where Dynamo then traces anew.
    more.setdefault("group", name)
    return Case(name, Mlp, numbers, mean_square, optimizer, **more)


def _cosine(optimizer: optim.Optimizer) -> LRScheduler:
    # Half a wave: at a rate of 0, compiled AdamW of any backend makes NaN where a gradient is 0.
    return CosineAnnealingLR(optimizer, 2 * STEPS)


def _stairs(optimizer: optim.Optimizer) -> LRScheduler:
    return StepLR(optimizer, 1, 0.98)


CASES = [
    _mlp("sgd", lambda p: optim.SGD(p, 0.05)),
    _mlp("sgd momentum", lambda p: optim.SGD(p, 0.02, momentum=0.9, weight_decay=0.01)),
    _mlp(
        "sgd nesterov, foreach",
        lambda p: optim.SGD(p, 0.02, momentum=0.9, nesterov=True, foreach=True),
    ),
    _mlp("adam", lambda p: optim.Adam(p, 0.01)),
    _mlp("adam, foreach", lambda p: optim.Adam(p, 0.01, foreach=True)),
    _mlp("adam amsgrad", lambda p: optim.Adam(p, 0.01, amsgrad=True)),
    _mlp("adamw", lambda p: optim.AdamW(p, 0.01)),
    _mlp("adamw, foreach", lambda p: optim.AdamW(p, 0.01, foreach=True), group="default"),
    _mlp("adamw, fused", lambda p: optim.AdamW(p, 0.01, fused=True)),
    _mlp("rmsprop", lambda p: optim.RMSprop(p, 0.005, momentum=0.9, centered=True)),
    _mlp("adagrad", lambda p: optim.Adagrad(p, 0.05)),
    _mlp(
        "tensor rate, clipped",
        lambda p: optim.AdamW(p, torch.tensor(0.01)),
        clip=0.5,
        schedule=_cosine,
    ),
    _mlp("number rate, stairs", lambda p: optim.Adam(p, 0.01), schedule=_stairs, dynamic=None),
    Case(
        "cnn",
        Cnn,
        pictures,
        classes,
        lambda p: optim.SGD(p, 0.02),
        drawn=2,
        group="cnn",
        together=False,
    ),
    Case(
        "gpt",
        lambda: Gpt(layers=4),
        texts,
        next_token,
        lambda p: optim.AdamW(p, torch.tensor(3e-3)),
        clip=1.0,
        schedule=_cosine,
        drawn=9,
        noise=("qkv.bias",),
        group="gpt",
    ),
    Case(
        "vit",
        Vit,
        pictures,
        classes,
        lambda p: optim.AdamW(p, 1e-3, foreach=True),
        drawn=4,
        group="vit",
        noise=("qkv.bias",),  # as in the GPT
    ),
    Case(
        "lstm and gru",
        Recurrent,
        sentences,
        classes,
        lambda p: optim.Adam(p, 0.01),
        drawn=1,
        group="lstm",
    ),
]


class Training:
    """A case on its way; two of them begin alike and see the same batches."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case = case
        self.model = case.model().train()
        self.optimizer = case.optimizer(self.model.parameters())
        self.schedule = case.schedule(self.optimizer) if case.schedule else None
        self.losses: list[float] = []

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """What users compile: everything of one step."""
        self.optimizer.zero_grad()
        loss = self.case.loss(self.model(x), y)
        loss.backward()
        if self.case.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.case.clip)
        self.optimizer.step()
        return loss.detach()

    def run(self, step: Callable[..., torch.Tensor], numbers: Iterable[int]) -> None:
        """Train, and remember the losses."""
        for number in numbers:
            torch.manual_seed(number % 4)  # four batches, so that something can be learnt
            x, y = self.case.batch()
            torch.manual_seed(number)
            self.losses.append(step(x, y).item())
            if self.schedule is not None:
                self.schedule.step()

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters, buffers and what the optimizer keeps of them."""
        found = {name: tensor.detach() for name, tensor in self.model.state_dict().items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            for name, value in values.items():
                if isinstance(value, torch.Tensor):
                    found[f"{name} of {index}"] = value
        return copy.copy(found)
