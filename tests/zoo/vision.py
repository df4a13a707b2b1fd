"""Vision: patches, windows, convolutions, detection, segmentation, video.

A larger `initializer_range` than transformers' own is for those whose outputs would vanish: many
layers of small weights without a normalisation that works in evaluation.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.zoo.spec import BATCH, PATCHES, Architecture, pixels

CONVOLUTIONS: dict[str, Any] = {"num_channels": 3, "depths": [1, 1], "hidden_sizes": [8, 16]}
WINDOWS: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 16,
    "depths": [1, 1],
    "num_heads": [2, 2],
    "window_size": 4,
}


def vision(
    model: str, config: str, settings: dict[str, Any], size: int = 32, **more: Any
) -> Architecture:
    more.setdefault("inputs", pixels(size))
    return Architecture("vision", model, config, settings, **more)


def video() -> dict[str, Any]:
    return {"pixel_values": torch.randn(BATCH, 4, 3, 16, 16)}


VISION = [
    vision("ViTModel", "ViTConfig", PATCHES, 16, trains=True),
    vision("Dinov2Model", "Dinov2Config", PATCHES, 16, slow=True),
    vision(
        "BeitModel",
        "BeitConfig",
        {**PATCHES, "use_relative_position_bias": True},
        16,
        slow=True,
    ),
    vision(
        "ResNetForImageClassification",
        "ResNetConfig",
        {**CONVOLUTIONS, "embedding_size": 8},
        trains=True,
    ),
    vision("ConvNextModel", "ConvNextConfig", {**CONVOLUTIONS, "num_stages": 2}, trains=True),
    vision("ConvNextV2Model", "ConvNextV2Config", {**CONVOLUTIONS, "num_stages": 2}, slow=True),
    vision("SwinModel", "SwinConfig", WINDOWS, slow=True, trains=True),
    vision("Swinv2Model", "Swinv2Config", WINDOWS, slow=True),
    vision(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
            "decoder_hidden_size": 16,
        },
        slow=True,
    ),
    vision(
        "MobileNetV2Model",
        "MobileNetV2Config",
        {
            "depth_multiplier": 0.25,
            "image_size": 32,
            "min_depth": 4,
            "depth_divisible_by": 4,
            "initializer_range": 0.25,
        },
        slow=True,
    ),
    vision(
        "EfficientNetModel",
        "EfficientNetConfig",
        {
            "image_size": 32,
            "width_coefficient": 0.25,
            "depth_coefficient": 0.5,
            "in_channels": [32, 16],
            "out_channels": [16, 24],
            "kernel_sizes": [3, 5],
            "strides": [1, 2],
            "num_block_repeats": [1, 1],
            "expand_ratios": [1, 6],
            "depthwise_padding": [],
            "hidden_dim": 320,  # 1280 by the width
            "initializer_range": 0.5,
        },
        slow=True,
    ),
    vision(
        "RegNetModel",
        "RegNetConfig",
        {**CONVOLUTIONS, "embedding_size": 8, "groups_width": 4, "layer_type": "y"},
        slow=True,
    ),
    vision(
        "PoolFormerModel",
        "PoolFormerConfig",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "padding": [2, 1],
            "mlp_ratio": 2.0,
        },
        slow=True,
    ),
    vision(
        "PvtModel",
        "PvtConfig",
        {
            "image_size": 32,
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sequence_reduction_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [4, 2],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
        slow=True,
    ),
    vision(
        "LevitModel",
        "LevitConfig",
        {
            "image_size": 64,
            "hidden_sizes": [16, 24, 32],
            "num_attention_heads": [2, 3, 4],
            "depths": [1, 1, 1],
            "key_dim": [4, 4, 4],
            "initializer_range": 0.2,
        },
        64,
        slow=True,
    ),
    vision(
        "MobileViTModel",
        "MobileViTConfig",
        {
            "image_size": 32,
            "hidden_sizes": [8, 16, 16],
            "neck_hidden_sizes": [4, 8, 8, 16, 16, 16, 32],
            "num_attention_heads": 2,
            "initializer_range": 0.5,
        },
        slow=True,
    ),
    vision(
        "FocalNetModel",
        "FocalNetConfig",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [1, 1],
            "hidden_sizes": [16, 32],
            "focal_levels": [2, 2],
            "focal_windows": [3, 3],
        },
        slow=True,
    ),
    vision(
        "HieraModel",
        "HieraConfig",
        {
            "image_size": [32, 32],
            "embed_dim": 16,
            "depths": [1, 1, 1],
            "num_heads": [1, 2, 4],
            "patch_stride": [4, 4],
            "query_stride": [2, 2],
            "masked_unit_size": [4, 4],
            "num_query_pool": 2,
        },
        slow=True,
    ),
    vision(
        "DPTForDepthEstimation",
        "DPTConfig",
        {
            **PATCHES,
            "image_size": 32,
            "patch_size": 8,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
            "is_hybrid": False,
            "initializer_range": 0.1,
        },
        slow=True,
    ),
    vision(
        "YolosForObjectDetection",
        "YolosConfig",
        {**PATCHES, "image_size": [32, 32], "num_detection_tokens": 5},
        slow=True,
    ),
    vision(
        "DetrModel",
        "DetrConfig",
        {
            "backbone_config": {
                "depths": [1, 1],
                "hidden_sizes": [8, 16],
                "embedding_size": 8,
                "out_features": ["stage2"],
            },
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "num_queries": 5,
        },
        nested={"backbone_config": "ResNetConfig"},
        slow=True,
    ),
    vision(
        "VideoMAEModel",
        "VideoMAEConfig",
        {**PATCHES, "num_frames": 4, "tubelet_size": 2},
        inputs=video,
        slow=True,
    ),
]
