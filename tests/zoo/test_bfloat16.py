"""A bfloat16 decoder on MAX is as near to float32 as eager's bfloat16 is."""

from __future__ import annotations

import pytest
import torch

from tests.zoo.generation import GENERATORS
from torch_max_backend import compile_stats, max_backend, reset_compile_stats

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("error:a graph stays on PyTorch")]


def test_tokens_of_a_bfloat16_llama() -> None:
    architecture = GENERATORS["Llama"]
    torch.manual_seed(4)
    ids = torch.randint(3, 99, (4, 100))
    with torch.no_grad():
        exact = architecture.build()(input_ids=ids, use_cache=False).logits.argmax(-1)
        model = architecture.build().bfloat16()
        eager = model(input_ids=ids, use_cache=False).logits.argmax(-1)
        reset_compile_stats()
        compiled = torch.compile(model, backend=max_backend, fullgraph=True)
        ours = compiled(input_ids=ids, use_cache=False).logits.argmax(-1)
    assert compile_stats()["nodes_on_torch"] == 0
    by_eager, by_max = (eager == exact).sum().item(), (ours == exact).sum().item()
    print(f"of {ids.numel()} tokens as float32: eager bfloat16 {by_eager}, MAX {by_max}")
    assert by_eager < ids.numel(), "bfloat16 makes no difference: the test would show nothing"
    assert by_max >= by_eager
