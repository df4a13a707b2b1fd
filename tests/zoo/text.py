"""Text: encoders, decoders, encoder-decoders, mixtures of experts, state-space models."""

from __future__ import annotations

from typing import Any

from tests.zoo.spec import (
    ENCODER_DECODER,
    GROUPED,
    SMALL,
    VOCABULARY,
    Architecture,
    ids,
    ids_and_decoder_ids,
    padded_ids,
)

NO_CACHE = {"use_cache": False}
HEADS = {**SMALL, **GROUPED, "head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SSM = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "state_size": 8,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}


def encoder(model: str, config: str, settings: dict[str, Any] = SMALL, **more: Any) -> Architecture:
    more.setdefault("inputs", ids())
    return Architecture("encoder", model, config, settings, **more)


def decoder(model: str, config: str, settings: dict[str, Any], **more: Any) -> Architecture:
    more.setdefault("inputs", ids(**NO_CACHE))
    return Architecture("decoder", model, config, settings, **more)


def experts(model: str, config: str, settings: dict[str, Any], **more: Any) -> Architecture:
    return Architecture("mixture of experts", model, config, settings, ids(**NO_CACHE), **more)


def both(model: str, config: str, settings: dict[str, Any], **more: Any) -> Architecture:
    return Architecture("encoder-decoder", model, config, settings, ids_and_decoder_ids, **more)


def recurrent(model: str, config: str, settings: dict[str, Any], **more: Any) -> Architecture:
    return Architecture("state-space", model, config, settings, ids(**NO_CACHE), **more)


TEXT = [
    encoder("BertForMaskedLM", "BertConfig", trains=True),
    encoder("RobertaModel", "RobertaConfig", inputs=padded_ids(), trains=True),
    encoder("ElectraModel", "ElectraConfig", slow=True),
    encoder(
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
        trains=True,
    ),
    encoder("AlbertModel", "AlbertConfig", slow=True),
    encoder(
        "DebertaV2Model",
        "DebertaV2Config",
        {
            **SMALL,
            "relative_attention": True,
            "position_buckets": 8,
            "max_relative_positions": 16,
            "pos_att_type": ["p2c", "c2p"],
            "conv_kernel_size": 3,
        },
        inputs=padded_ids(),
        slow=True,
    ),
    encoder(
        "XLNetModel",
        "XLNetConfig",
        {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
        inputs=ids(use_mems=False),
        slow=True,
    ),
    encoder(
        "FunnelModel",
        "FunnelConfig",
        {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 64,
        },
        slow=True,
    ),
    encoder(
        "MobileBertModel",
        "MobileBertConfig",
        {
            **SMALL,
            "embedding_size": 16,
            "intra_bottleneck_size": 16,
            "true_hidden_size": 16,
            "num_feedforward_networks": 2,
        },
        slow=True,
    ),
    encoder("MPNetModel", "MPNetConfig", slow=True),
    encoder(
        "ModernBertModel",
        "ModernBertConfig",
        {
            **SMALL,
            "local_attention": 4,
            "global_attn_every_n_layers": 2,
            "reference_compile": False,
        },
        slow=True,
    ),
    encoder("SqueezeBertModel", "SqueezeBertConfig", {**SMALL, "embedding_size": 32}, slow=True),
    encoder("FNetModel", "FNetConfig", slow=True),
    encoder("ConvBertModel", "ConvBertConfig", {**SMALL, "embedding_size": 32}, slow=True),
    decoder(
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
        trains=True,
    ),
    decoder("LlamaForCausalLM", "LlamaConfig", {**SMALL, **GROUPED}, trains=True),
    decoder("Qwen2ForCausalLM", "Qwen2Config", {**SMALL, **GROUPED}),
    decoder("Qwen3ForCausalLM", "Qwen3Config", HEADS, slow=True, trains=True),
    decoder("Gemma2ForCausalLM", "Gemma2Config", HEADS, slow=True),
    decoder(
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {**HEADS, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
        slow=True,
        trains=True,
    ),
    decoder("MistralForCausalLM", "MistralConfig", {**SMALL, **GROUPED, "sliding_window": 4}),
    decoder("PhiForCausalLM", "PhiConfig", SMALL, slow=True),
    decoder("Phi3ForCausalLM", "Phi3Config", {**SMALL, **GROUPED}, slow=True),
    decoder("GPTNeoXForCausalLM", "GPTNeoXConfig", SMALL),
    decoder(
        "GPTJForCausalLM",
        "GPTJConfig",
        {
            "vocab_size": VOCABULARY,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 64,
            "rotary_dim": 4,
        },
        slow=True,
    ),
    decoder(
        "OPTForCausalLM",
        "OPTConfig",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "ffn_dim": 64,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "word_embed_proj_dim": 32,
        },
        slow=True,
    ),
    decoder(
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4},
        slow=True,
    ),
    decoder(
        "FalconForCausalLM",
        "FalconConfig",
        {
            **SMALL,
            "num_kv_heads": 2,
            "new_decoder_architecture": True,
            "ffn_hidden_size": 64,
        },
        slow=True,
    ),
    decoder("Olmo2ForCausalLM", "Olmo2Config", {**SMALL, **GROUPED}, slow=True),
    decoder("CohereForCausalLM", "CohereConfig", {**SMALL, **GROUPED}, slow=True),
    decoder("StableLmForCausalLM", "StableLmConfig", {**SMALL, **GROUPED}, slow=True),
    decoder("Starcoder2ForCausalLM", "Starcoder2Config", {**SMALL, **GROUPED}, slow=True),
    decoder("NemotronForCausalLM", "NemotronConfig", {**SMALL, **GROUPED}, slow=True),
    both("T5ForConditionalGeneration", "T5Config", T5, trains=True),
    both("BartModel", "BartConfig", ENCODER_DECODER, trains=True),
    both("MarianMTModel", "MarianConfig", ENCODER_DECODER, slow=True),
    both("PegasusModel", "PegasusConfig", ENCODER_DECODER, slow=True),
    experts(
        "MixtralForCausalLM",
        "MixtralConfig",
        {**SMALL, **GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    experts("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**HEADS, **EXPERTS}, slow=True),
    experts(
        "OlmoeForCausalLM",
        "OlmoeConfig",
        {**SMALL, **GROUPED, "num_experts": 4, "num_experts_per_tok": 2},
        slow=True,
    ),
    experts(
        "GptOssForCausalLM",
        "GptOssConfig",
        {
            **HEADS,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 4,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        slow=True,
    ),
    experts(
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        {
            **SMALL,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 32,
            "n_routed_experts": 4,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "n_group": 2,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 16,
            "q_lora_rank": 16,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
        },
        slow=True,
    ),
    recurrent("MambaForCausalLM", "MambaConfig", SSM),
    recurrent(
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {**SSM, "num_heads": 8, "head_dim": 8, "expand": 2, "n_groups": 1, "chunk_size": 8},
        slow=True,
    ),
    recurrent(
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        {
            **SMALL,
            "num_hidden_layers": 3,
            "lru_width": 32,
            "attention_window_size": 4,
            "num_key_value_heads": 1,
            "head_dim": 8,
        },
        slow=True,
    ),
    recurrent(
        "Lfm2ForCausalLM",
        "Lfm2Config",
        {**SMALL, **GROUPED, "layer_types": ["conv", "full_attention"], "block_ff_dim": 64},
        slow=True,
    ),
    recurrent(
        "JambaForCausalLM",
        "JambaConfig",
        {
            **SMALL,
            **GROUPED,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 4,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
        slow=True,
    ),
    recurrent(
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        {
            **HEADS,
            **EXPERTS,
            "shared_expert_intermediate_size": 32,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
        },
        slow=True,
    ),
    recurrent(
        "RwkvForCausalLM",
        "RwkvConfig",
        {**SSM, "attention_hidden_size": 32},
        slow=True,
        no_ir="its forward divides its own parameters, and an IR stores no writes to parameters",
    ),
]
