"""Order between PyTorch and MAX on a GPU, where both queue their work and return at once.

Each has streams of its own and does not wait for the other's. So a call waits for what PyTorch has
queued on its current stream before it runs the model, and for the model before it returns. A kept
buffer of a parameter, and memory that MAX uses again for later results, are then safe as well. It
costs the overlap of the two. Graphs on the CPU are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from max import driver

from torch_max_backend.program import Program, TensorInput

Execute = Callable[[list[Any]], list[Any]]


def gpus_of(program: Program) -> list[torch.device]:
    """The GPUs whose memory the program reads or writes."""
    specs = [item.spec for item in program.inputs if isinstance(item, TensorInput)]
    specs += [spec for call in program.calls for spec in call.outputs if spec is not None]
    indices = {spec.device.index or 0 for spec in specs if spec.device.type == "cuda"}
    return [torch.device("cuda", index) for index in sorted(indices)]


def in_order(program: Program, execute: Execute) -> Execute:
    """`execute`, after what PyTorch has queued and before what it queues next."""
    theirs = gpus_of(program)
    if not theirs:
        return execute
    ours = [driver.Accelerator(device.index) for device in theirs]

    def synchronized(buffers: list[Any]) -> list[Any]:
        for device in theirs:
            torch.cuda.current_stream(device).synchronize()
        outputs = execute(buffers)
        for accelerator in ours:
            accelerator.synchronize()
        return outputs

    return synchronized
