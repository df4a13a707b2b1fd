"""The samples of PyTorch's ModuleInfo entries: a module with its parameters, buffers, arguments."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db

from tests.testing.samples import spread
from tests.testing.training import Function, TrainedSample
from torch_max_backend.compat.torch import pytree


def entries(pattern: str = "") -> list[ModuleInfo]:
    """The entries whose name holds `pattern`."""
    return [info for info in module_db if pattern in info.name]


class ModuleSample(TrainedSample):
    """One sample of an entry, in training or not."""

    def __init__(
        self, info: ModuleInfo, sample: ModuleInput, training: bool, number: int, total: int
    ) -> None:
        super().__init__(info.name, number, total)
        self._info, self._input, self._training = info, sample, training

    def read(self) -> tuple[Function, list[torch.Tensor]]:
        """The module as a function of its parameters, buffers and arguments."""
        constructor = self._input.constructor_input
        module = self._info.module_cls(*constructor.args, **constructor.kwargs)
        module.to(torch.float32).train(self._training)
        call = self._input.forward_input
        if isinstance(module, LazyModuleMixin):  # which learns its sizes from its first call
            module(*call.args, **call.kwargs)
        leaves, spec = pytree.tree_flatten((call.args, call.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}

        def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
            filled = list(leaves)
            for place, tensor in zip(places, tensors[len(state) :], strict=True):
                filled[place] = tensor
            args, kwargs = pytree.tree_unflatten(filled, spec)
            given = dict(zip(state, tensors, strict=False))
            result = torch.func.functional_call(module, given, args, kwargs)
            return [r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]

        return function, [*state.values(), *(leaves[i] for i in places)]


def samples(info: ModuleInfo, limit: int) -> Iterator[ModuleSample]:
    """The entry's samples in both modes; with a limit, spread over those of each mode."""
    if torch.float32 not in info.dtypes:
        return
    modes = (True, False) if info.train_and_eval_differ else (True,)
    found = {training: _inputs(info, training) for training in modes}
    total = sum(map(len, found.values()))
    for training, inputs in found.items():
        for number, sample in spread(list(enumerate(inputs)), limit):
            yield ModuleSample(info, sample, training, number, total)


def _inputs(info: ModuleInfo, training: bool) -> list[ModuleInput]:
    torch.manual_seed(0)
    return list(
        info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        )
    )
