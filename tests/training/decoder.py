"""A language model that writes its keys and values into a cache of fixed size."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class CachedDecoder(nn.Module):
    """Two layers of attention over the tokens so far; the caches are buffers, written in place."""

    def __init__(self, longest: int, width: int = 32, heads: int = 4, vocabulary: int = 48) -> None:
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(longest, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        shape = (2, 1, heads, longest, width // heads)
        self.keys: torch.Tensor
        self.values: torch.Tensor
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, token: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        x = self.tokens(token) + self.places(place)  # [1, 1, width]
        longest = self.keys.shape[-2]
        seen = (torch.arange(longest) <= place).view(1, 1, 1, longest)
        for layer, (qkv, out, norm) in enumerate(zip(self.qkv, self.out, self.norms, strict=True)):
            query, key, value = qkv(norm(x)).view(1, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            self.keys[layer].index_copy_(2, place, key)
            self.values[layer][:, :, place] = value
            attended = F.scaled_dot_product_attention(
                query, self.keys[layer], self.values[layer], attn_mask=seen
            )
            x = x + out(attended.transpose(1, 2).reshape(1, 1, -1))
        return F.linear(x[:, -1], self.tokens.weight)


@torch.no_grad()
def generate(model: nn.Module, count: int) -> tuple[list[int], torch.Tensor]:
    """`count` tokens, each the likeliest after those before, and the logits that chose them."""
    token, chosen, logits = torch.tensor([[1]]), [], []
    for place in range(count):
        logits.append(model(token, torch.tensor([place])))
        token = logits[-1].argmax(-1, keepdim=True)
        chosen.append(int(token))
    return chosen, torch.cat(logits)
