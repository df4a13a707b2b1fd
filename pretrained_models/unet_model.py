"""The UNet of Stable Diffusion 1.x, with the parameter names of its published weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class UNetConfig:
    """The entries of `unet/config.json` that this model uses."""

    in_channels: int = 4
    out_channels: int = 4
    block_out_channels: Sequence[int] = (320, 640, 1280, 1280)
    layers_per_block: int = 2
    attention_head_dim: int = 8
    """The number of heads; the name in the file is a historical mistake."""
    cross_attention_dim: int = 768
    norm_num_groups: int = 32

    @property
    def time_dim(self) -> int:
        return 4 * self.block_out_channels[0]


class TimestepEmbedding(nn.Module):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(channels, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear_2(F.silu(self.linear_1(x)))


class ResnetBlock(nn.Module):
    def __init__(self, channels: int, width: int, config: UNetConfig) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(config.norm_num_groups, channels, eps=1e-5)
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.time_emb_proj = nn.Linear(config.time_dim, width)
        self.norm2 = nn.GroupNorm(config.norm_num_groups, width, eps=1e-5)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        if channels != width:
            self.conv_shortcut = nn.Conv2d(channels, width, 1)
        self.changes_width = channels != width

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.conv1(F.silu(self.norm1(x)))
        hidden = hidden + self.time_emb_proj(F.silu(time))[:, :, None, None]
        hidden = self.conv2(F.silu(self.norm2(hidden)))
        return (self.conv_shortcut(x) if self.changes_width else x) + hidden


class Attention(nn.Module):
    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(context, width, bias=False)
        self.to_v = nn.Linear(context, width, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(width, width), nn.Dropout(0.0)])

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.to_q(x), self.to_k(context), self.to_v(context))
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return self.to_out[0](mixed)


class GEGLU(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, 2 * inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.proj(x).chunk(2, dim=-1)
        return value * F.gelu(gate)


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 4 * width
        self.net = nn.Sequential(GEGLU(width, inner), nn.Dropout(0.0), nn.Linear(inner, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class TransformerBlock(nn.Module):
    def __init__(self, width: int, config: UNetConfig) -> None:
        super().__init__()
        heads = config.attention_head_dim
        self.norm1 = nn.LayerNorm(width)
        self.attn1 = Attention(width, width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.attn2 = Attention(width, config.cross_attention_dim, heads)
        self.norm3 = nn.LayerNorm(width)
        self.ff = FeedForward(width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        normal = self.norm1(x)
        x = x + self.attn1(normal, normal)
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class Transformer(nn.Module):
    """Attention over the pixels of a feature map, and from them to the text."""

    def __init__(self, width: int, config: UNetConfig) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(config.norm_num_groups, width, eps=1e-6)
        self.proj_in = nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(width, config)])
        self.proj_out = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[-2:]
        hidden = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        for block in self.transformer_blocks:
            hidden = block(hidden, context)
        hidden = hidden.transpose(1, 2).unflatten(2, (height, width))
        return x + self.proj_out(hidden)


class Resample(nn.Module):
    """Halves height and width, or doubles them if `up`."""

    def __init__(self, channels: int, up: bool) -> None:
        super().__init__()
        self.up = up
        self.conv = nn.Conv2d(channels, channels, 3, stride=1 if up else 2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest") if self.up else x)


class Block(nn.Module):
    """ResNet blocks, each followed by attention if `attends`, and a resampling at the end."""

    def __init__(
        self,
        widths: Sequence[int],
        width: int,
        config: UNetConfig,
        attends: bool,
        downsample: bool = False,
        upsample: bool = False,
    ) -> None:
        super().__init__()
        self.resnets = nn.ModuleList([ResnetBlock(w, width, config) for w in widths])
        if attends:
            self.attentions = nn.ModuleList([Transformer(width, config) for _ in widths])
        if downsample:
            self.downsamplers = nn.ModuleList([Resample(width, up=False)])
        if upsample:
            self.upsamplers = nn.ModuleList([Resample(width, up=True)])
        self.attends, self.downsample, self.upsample = attends, downsample, upsample

    def layer(
        self, index: int, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor
    ) -> torch.Tensor:
        x = self.resnets[index](x, time)
        return self.attentions[index](x, context) if self.attends else x


class MidBlock(nn.Module):
    def __init__(self, width: int, config: UNetConfig) -> None:
        super().__init__()
        self.attentions = nn.ModuleList([Transformer(width, config)])
        self.resnets = nn.ModuleList([ResnetBlock(width, width, config) for _ in range(2)])

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = self.attentions[0](self.resnets[0](x, time), context)
        return self.resnets[1](x, time)


class UNet(nn.Module):
    """Predicts the noise in a latent image, given its time step and a text."""

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.config = config
        widths, layers = list(config.block_out_channels), config.layers_per_block
        last = len(widths) - 1
        self.conv_in = nn.Conv2d(config.in_channels, widths[0], 3, padding=1)
        self.time_embedding = TimestepEmbedding(widths[0], config.time_dim)
        self.down_blocks = nn.ModuleList()
        skips, previous = [widths[0]], widths[0]
        for level, width in enumerate(widths):
            reads = [previous, *[width] * (layers - 1)]
            self.down_blocks.append(
                Block(reads, width, config, attends=level < last, downsample=level < last)
            )
            skips += [width] * (layers + (level < last))
            previous = width
        self.mid_block = MidBlock(previous, config)
        self.up_blocks = nn.ModuleList()
        for level, width in enumerate(reversed(widths)):
            reads = []
            for _ in range(layers + 1):
                reads.append(previous + skips.pop())
                previous = width
            self.up_blocks.append(
                Block(reads, width, config, attends=level > 0, upsample=level < last)
            )
        self.conv_norm_out = nn.GroupNorm(config.norm_num_groups, widths[0], eps=1e-5)
        self.conv_out = nn.Conv2d(widths[0], config.out_channels, 3, padding=1)

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, context: torch.Tensor
    ) -> torch.Tensor:
        time = self.time_embedding(self._waves(timestep))
        x = self.conv_in(sample)
        skips = [x]
        for block in self.down_blocks:
            for index in range(len(block.resnets)):
                x = block.layer(index, x, time, context)
                skips.append(x)
            if block.downsample:
                x = block.downsamplers[0](x)
                skips.append(x)
        x = self.mid_block(x, time, context)
        for block in self.up_blocks:
            for index in range(len(block.resnets)):
                x = block.layer(index, torch.cat([x, skips.pop()], dim=1), time, context)
            if block.upsample:
                x = block.upsamplers[0](x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))

    def _waves(self, timestep: torch.Tensor) -> torch.Tensor:
        half = self.config.block_out_channels[0] // 2
        rates = torch.exp(torch.arange(half, device=timestep.device) * (-math.log(10000) / half))
        angles = timestep[:, None].float() * rates[None]
        return torch.cat([angles.cos(), angles.sin()], dim=-1)
