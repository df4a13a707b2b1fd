"""The UNet of Stable Diffusion: make an image from a text. `python -m pretrained_models.unet`.

The image shows the colours of the latents (an eighth of the full height and width): the decoder of
the full pipeline is not part of this script.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from pretrained_models import arguments, state_dicts
from pretrained_models.unet_model import UNet, UNetConfig

NAME = "stable-diffusion-v1-5/stable-diffusion-v1-5"
SMALL = UNetConfig(
    block_out_channels=(16, 32),
    layers_per_block=1,
    attention_head_dim=2,
    cross_attention_dim=32,
    norm_num_groups=8,
)
COLOURS = torch.tensor(
    [[0.298, 0.207, 0.208], [0.187, 0.286, 0.173], [-0.158, 0.189, 0.264], [-0.184, -0.271, -0.473]]
)
"""Approximate red, green and blue of each latent channel."""


def folder_of(name: str) -> Path:
    """The folder of the pipeline: as given, or downloaded from the hub."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    wanted = ["unet/*.json", "unet/diffusion_pytorch_model.safetensors"]
    return Path(snapshot_download(name, allow_patterns=[*wanted, "text_encoder/*", "tokenizer/*"]))


def load_unet(folder: Path) -> UNet:
    """The UNet in a pipeline's folder, in the format of the hub."""
    told = json.loads((folder / "config.json").read_text())
    names = {field.name for field in dataclasses.fields(UNetConfig)}
    unet = UNet(UNetConfig(**{key: value for key, value in told.items() if key in names}))
    unet.load_state_dict(state_dicts.load(str(folder / "diffusion_pytorch_model.safetensors")))
    return unet


def encode(folder: Path, texts: list[str]) -> torch.Tensor:
    from transformers import CLIPTextModel, CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
    encoder = CLIPTextModel.from_pretrained(folder / "text_encoder").eval()
    length = encoder.config.max_position_embeddings
    ids = tokenizer(
        texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt"
    )
    with torch.no_grad():
        return encoder(ids.input_ids).last_hidden_state


def denoise(unet: Any, latents: torch.Tensor, context: torch.Tensor, steps: int) -> torch.Tensor:
    """DDIM with guidance; `context` is the encoded empty text, then the encoded prompt."""
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2
    kept = torch.cumprod(1 - betas, dim=0)
    times = torch.arange(1000 - 1000 // steps, -1, -(1000 // steps))
    with torch.no_grad():
        for time in times:
            noise = unet(latents.repeat(2, 1, 1, 1), time.repeat(2), context)
            empty, told = noise.chunk(2)
            noise = empty + 7.5 * (told - empty)
            now = kept[time]
            before = kept[time - 1000 // steps] if time >= 1000 // steps else torch.tensor(1.0)
            clean = (latents - (1 - now).sqrt() * noise) / now.sqrt()
            latents = before.sqrt() * clean + (1 - before).sqrt() * noise
    return latents


def main(argv: Sequence[str] | None = None) -> torch.Tensor:
    parser = arguments.parser(__doc__, NAME, arguments.HUB_OR_FOLDER)
    parser.add_argument("--prompt", default="a lighthouse on a cliff at sunset")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--side", type=int, help="height and width of the latents (64 is an image of 512)"
    )
    parser.add_argument("--output", type=Path, default=Path("unet.png"))
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    if args.random_weights:
        unet = UNet(SMALL)
        context = torch.randn(2, 8, SMALL.cross_attention_dim)
    else:
        folder = folder_of(args.model)
        unet = load_unet(folder / "unet")
        context = encode(folder, ["", args.prompt])
    arguments.compile_in_place(unet, args)
    side = args.side or (16 if args.random_weights else 64)
    torch.manual_seed(0)
    latents = torch.randn(1, unet.config.in_channels, side, side)
    latents = denoise(unet, latents, context, args.steps)
    colours = torch.einsum("bchw,cr->bhwr", latents, COLOURS)[0]
    pixels = (((colours / 2 + 0.5).clamp(0, 1)) * 255).numpy().astype(np.uint8)
    Image.fromarray(pixels).save(args.output)
    print(f"{args.output}: {side}×{side} pixels, mean colour {pixels.mean((0, 1)).round()}")
    arguments.report(args)
    return latents


if __name__ == "__main__":
    main()
