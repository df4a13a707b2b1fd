"""Small convolution networks, one for each thing that an image program can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from torch_max_backend.program.image_program import Instruction, Step, Then, View, What
from torch_max_backend.program.image_weights import Filters, ImageWeights, Piece, panel_floats


class Of(nn.Module):
    """Modules by name, and a function of them and the input."""

    def __init__(self, function: Callable[..., torch.Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleDict(modules)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, **self.parts)


def _conv(*args: int, **kwargs: object) -> nn.Conv2d:
    return nn.Conv2d(*args, **kwargs)  # type: ignore[arg-type]


def _residual(x: torch.Tensor, a: nn.Module, n: nn.Module, b: nn.Module, s: nn.Module):
    return F.relu(n(b(F.relu(a(x)))) + s(x))


def _dense(x: torch.Tensor, a: nn.Module, n: nn.Module, b: nn.Module, c: nn.Module):
    first = torch.cat([x.relu(), a(x)], 1)
    second = torch.cat([first, b(n(first).relu())], 1)
    return torch.cat([second, c(second), second], 1)


def _excite(x: torch.Tensor, a: nn.Module, r: nn.Module, e: nn.Module):
    y = F.hardswish(a(x))
    return y * F.hardsigmoid(e(F.relu(r(F.adaptive_avg_pool2d(y, 1)))))


def _project(x: torch.Tensor, a: nn.Module, r: nn.Module, e: nn.Module, p: nn.Module, q: nn.Module):
    return q(p(_excite(x, a, r, e)) * 2)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int, int]]] = {
    "one convolution": (lambda: _conv(3, 5, 3), (2, 3, 7, 9)),
    "padded, without bias": (lambda: _conv(4, 33, 3, padding=1, bias=False), (1, 4, 6, 5)),
    "strides": (lambda: _conv(3, 8, (3, 5), stride=(2, 3), padding=(2, 1)), (1, 3, 15, 14)),
    "dilation": (lambda: _conv(5, 7, 3, padding=2, dilation=2), (2, 5, 9, 8)),
    "a stride that skips pixels": (lambda: _conv(3, 4, 1, stride=3), (1, 3, 8, 8)),
    "1 x 1, all pixels in a row": (lambda: _conv(17, 40, 1), (2, 17, 5, 7)),
    "a wide row": (lambda: _conv(3, 4, 3, padding=1), (1, 3, 3, 50)),
    "3 x 3 by Winograd's algorithm": (
        lambda: nn.Sequential(_conv(20, 40, 3, padding=1), nn.ReLU(), _conv(40, 17, 3)),
        (2, 20, 21, 18),
    ),
    "Winograd's with a norm and a sum": (
        lambda: Of(
            _residual,
            a=_conv(16, 33, 3, padding=1),
            n=nn.BatchNorm2d(33),
            b=_conv(33, 33, 3, padding=1),
            s=_conv(16, 33, 1),
        ),
        (1, 16, 24, 25),
    ),
    "rows of seven": (
        lambda: nn.Sequential(_conv(20, 40, 3, padding=1), nn.ReLU(), _conv(40, 33, 1)),
        (1, 20, 7, 7),
    ),
    "groups": (lambda: _conv(6, 12, 3, padding=1, groups=3), (2, 6, 6, 6)),
    "depthwise": (lambda: _conv(37, 37, 5, stride=2, padding=2, groups=37), (2, 37, 9, 11)),
    "one channel in, several out": (lambda: _conv(4, 8, 3, groups=4), (1, 4, 6, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(5, 6, 2, stride=2), (2, 5, 4, 3)),
    "norm behind": (lambda: nn.Sequential(_conv(3, 9, 3), nn.BatchNorm2d(9)), (1, 3, 6, 6)),
    "norm behind a depthwise one": (
        lambda: nn.Sequential(_conv(9, 9, 3, groups=9, bias=False), nn.BatchNorm2d(9)),
        (1, 9, 6, 6),
    ),
    "norm without parameters": (
        lambda: nn.Sequential(_conv(3, 9, 3), nn.BatchNorm2d(9, affine=False), nn.SiLU()),
        (1, 3, 6, 6),
    ),
    "norm in front": (
        lambda: nn.Sequential(
            _conv(3, 4, 1), nn.ReLU(), nn.BatchNorm2d(4), nn.Sigmoid(), _conv(4, 3, 3)
        ),
        (1, 3, 6, 6),
    ),
    "residual": (
        lambda: Of(
            _residual,
            a=_conv(4, 8, 3, padding=1),
            n=nn.BatchNorm2d(8),
            b=_conv(8, 8, 3, padding=1),
            s=_conv(4, 8, 1),
        ),
        (2, 4, 7, 6),
    ),
    "concatenations": (
        lambda: Of(
            _dense,
            a=_conv(3, 5, 3, padding=1),
            n=nn.BatchNorm2d(8),
            b=_conv(8, 4, 3, padding=1),
            c=_conv(12, 2, 5, padding=2),
        ),
        (1, 3, 6, 6),
    ),
    "squeeze and excite": (
        lambda: Of(_excite, a=_conv(3, 18, 3), r=_conv(18, 4, 1), e=_conv(4, 18, 1)),
        (2, 3, 6, 6),
    ),
    "excite, then 1 x 1": (
        lambda: Of(
            _project,
            a=_conv(3, 18, 3),
            r=_conv(18, 4, 1),
            e=_conv(4, 18, 1),
            p=_conv(18, 40, 1),
            q=_conv(40, 5, 1),
        ),
        (1, 3, 9, 8),
    ),
    "excite two images, then 1 x 1": (
        lambda: Of(
            _project,
            a=_conv(3, 33, 3, padding=1),
            r=_conv(33, 4, 1),
            e=_conv(4, 33, 1),
            p=_conv(33, 9, 1),
            q=_conv(9, 33, 1),
        ),
        (2, 3, 5, 7),
    ),
    "pools": (
        lambda: nn.Sequential(
            _conv(3, 20, 1),
            nn.MaxPool2d(3, stride=2, padding=1),
            nn.AvgPool2d(3, stride=2, padding=1),
        ),
        (1, 3, 15, 13),
    ),
    "pools that round up": (
        lambda: nn.Sequential(
            _conv(3, 5, 1),
            nn.MaxPool2d(2, ceil_mode=True, dilation=1),
            nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        ),
        (2, 3, 9, 11),
    ),
    "pools of distant pixels": (
        lambda: nn.Sequential(_conv(3, 5, 1), nn.MaxPool2d(3, 1, dilation=2)),
        (1, 3, 9, 9),
    ),
    "zeros on two sides": (
        lambda: Of(
            lambda x, a, b: b(F.pad(a(x), (0, 1, 2, 0))), a=_conv(3, 5, 1), b=_conv(5, 3, 3)
        ),
        (1, 3, 6, 6),
    ),
    "cropped": (
        lambda: Of(
            lambda x, a, b: b(F.pad(a(x), (-1, 0, 0, -2))), a=_conv(3, 5, 1), b=_conv(5, 3, 3)
        ),
        (1, 3, 8, 8),
    ),
    "numbers": (
        lambda: Of(lambda x, a: ((a(x) + 2) * 0.5).clamp(-0.25, 1.5) / 3, a=_conv(3, 5, 1)),
        (1, 3, 6, 6),
    ),
    "gelu, and one bound": (
        lambda: Of(
            lambda x, a, b: b(F.gelu(a(x)).clamp(min=0.1)), a=_conv(3, 5, 1), b=_conv(5, 3, 1)
        ),
        (1, 3, 6, 6),
    ),
    "a sum with itself, read twice": (
        lambda: Of(
            lambda x, a, b: b((y := a(x)) + y) * y.mean((2, 3), True),
            a=_conv(3, 5, 1),
            b=_conv(5, 5, 1),
        ),
        (2, 3, 6, 6),
    ),
    "channels last": (
        lambda: Of(
            lambda x, a, n, b, c: (
                a(x) + c(F.gelu(b(n(a(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)
            ),
            a=_conv(3, 40, 3, padding=1),
            n=nn.LayerNorm(40),
            b=nn.Linear(40, 70),
            c=nn.Linear(70, 40, bias=False),
        ),
        (2, 3, 6, 7),
    ),
    "ends with channels last": (
        lambda: Of(
            lambda x, a, n: n(a(x).permute(0, 2, 3, 1)) * n.weight,
            a=_conv(3, 9, 1),
            n=nn.LayerNorm(9),
        ),
        (2, 3, 6, 7),
    ),
    "two phases": (
        lambda: Of(
            lambda x, a, b: b(torch.softmax(a(x).relu(), 1)).mean((2, 3)),
            a=_conv(3, 5, 3, padding=1),
            b=_conv(5, 3, 3),
        ),
        (1, 3, 6, 6),
    ),
}


def make(name: str) -> tuple[nn.Module, torch.Tensor]:
    """A network for inference, with statistics that are not 0 and 1, and its input."""
    torch.manual_seed(0)
    build, shape = NETWORKS[name]
    model = build().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.normal_(module.bias)
    return model, torch.randn(shape)


class All(nn.Module):
    """All networks beside each other, each with an input of its own: one program."""

    def __init__(self, models: list[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return [model(x) for model, x in zip(self.models, inputs, strict=True)]


def one_convolution(image: torch.Tensor, filters: torch.Tensor) -> tuple[Any, ...]:
    """Arguments of `image_program` for a 1 x 1 convolution and a ReLU, written by hand."""
    n, inputs, h, w = image.shape
    outputs = filters.shape[0]
    source = View(0, h * w * inputs, w * inputs, inputs)
    result = View(n * h * w * inputs, h * w * outputs, w * outputs, outputs)
    lines = (
        Instruction(What.LOAD, (n, h, w, inputs), source, View(image=h * w * inputs)),
        Instruction(
            What.CONVOLUTION,
            (n, h, w, outputs),
            result,
            source,
            (h, w, inputs),
            steps=(Step(Then.RELU),),
        ).in_one_line(),
        Instruction(What.STORE, (n, h, w, outputs), View(image=h * w * outputs), result),
    )
    columns = 16
    size = panel_floats(inputs, outputs, columns)
    layout = ImageWeights((Piece(0, size, Filters(0)),), size + 2 * columns, columns)
    program = [number for line in lines for number in line.encode()]
    floats = n * h * w * outputs
    memory = n * h * w * inputs + floats
    x = image.reshape(1, -1)
    past = 2 * columns
    return x, layout.pack(filters), program, [0.0, 0.0], memory, past, floats, columns
