"""PyTorch's streams and MAX's: a call on a GPU waits for both. Only the order is tested here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from max import driver
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.testing.programs import program_of
from torch_max_backend.program import Program
from torch_max_backend.runtime.streams import gpus_of, in_order


def _program(*devices: str) -> Program:
    with FakeTensorMode():
        tensors = [torch.empty(2, device=device) for device in devices]
        return program_of(make_fx(lambda *xs: [x + 1 for x in xs], tracing_mode="real")(*tensors))


def test_a_graph_on_the_cpu_waits_for_nothing() -> None:
    execute = list
    assert not gpus_of(_program("cpu")) and in_order(_program("cpu"), execute) is execute


def test_each_gpu_is_waited_for_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []

    class Stream:
        def __init__(self, device: object) -> None:
            self.device = device

        def synchronize(self) -> None:
            log.append(self.device)

    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(driver, "Accelerator", Stream)
    program = _program("cuda:1", "cpu", "cuda:0", "cuda:1")
    gpus = [torch.device("cuda:0"), torch.device("cuda:1")]
    assert gpus_of(program) == gpus
    run = in_order(program, lambda buffers: log.append("run") or buffers)
    assert run([3]) == [3]
    assert log == [*gpus, "run", 0, 1]
