"""transformers compiles a model itself, by our backend's name: once for a whole generation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM

from torch_max_backend import compile_stats

pytestmark = pytest.mark.xdist_group("compile-config")


def generate(model: LlamaForCausalLM, prompt: torch.Tensor, **how: Any) -> torch.Tensor:
    return model.generate(prompt, max_new_tokens=12, do_sample=False, pad_token_id=0, **how)


def test_one_graph_serves_a_generation() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    how = CompileConfig(backend="max_backend", fullgraph=True)
    how._compile_all_devices = True  # transformers compiles on GPUs alone unless it is told to
    static: dict[str, Any] = {"cache_implementation": "static"}
    before = compile_stats()
    for seed in range(2):
        prompt = torch.randint(64, (1, 5), generator=torch.Generator().manual_seed(seed))
        expected = generate(model, prompt, **static, disable_compile=True)
        assert torch.equal(generate(model, prompt, **static, compile_config=how), expected)
        after = compile_stats()
        assert after["graphs"] - before["graphs"] == 1, "one token, whatever its place"
        assert after["graph_breaks"] == before["graph_breaks"]
        assert after["nodes_on_torch"] == before["nodes_on_torch"]
