"""A model to try the server with: a small decoder whose static cache has slots.

`python -m examples.serving.model model.maxpkg` writes a package of it with three entries: `score`,
which has no state, and `prefill` and `decode`, which share the cache.
"""

from __future__ import annotations

import argparse
from os import PathLike
from typing import cast

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from torch_max_backend import Example, save_package


class Block(nn.Module):
    """Attention with a cache of `slots` sequences, then an MLP."""

    def __init__(self, width: int, heads: int, slots: int, length: int) -> None:
        super().__init__()
        self.heads, self.slots, self.length = heads, slots, length
        self.keys: torch.Tensor
        self.values: torch.Tensor
        self.norm, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        # One line per token. A call writes whole lines, so it changes the cache where it is.
        self.register_buffer("keys", torch.zeros(slots * length, width), persistent=False)
        self.register_buffer("values", torch.zeros(slots * length, width), persistent=False)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """[..., tokens, width] to [..., heads, tokens, width of a head]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def rest(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        x = x + self.out(attended.transpose(-2, -3).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))

    def whole(self, x: torch.Tensor, lines: torch.Tensor | None) -> torch.Tensor:
        """Whole sequences, [batch, tokens, width]; `lines` are where the cache keeps them."""
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        if lines is not None:
            self.keys.index_copy_(0, lines, k[0])
            self.values.index_copy_(0, lines, v[0])
        attended = F.scaled_dot_product_attention(
            self.split(q), self.split(k), self.split(v), is_causal=True
        )
        return self.rest(x, attended)

    def step(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """One token of every slot, [slots, 1, width]."""
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        lines = torch.arange(self.slots) * self.length + positions
        self.keys.index_copy_(0, lines, k[:, 0])
        self.values.index_copy_(0, lines, v[:, 0])
        seen = torch.arange(self.length) <= positions[:, None]
        attended = F.scaled_dot_product_attention(
            self.split(q),
            self.split(self.keys.unflatten(0, (self.slots, self.length))),
            self.split(self.values.unflatten(0, (self.slots, self.length))),
            attn_mask=seen[:, None, None, :],
        )
        return self.rest(x, attended)


class Decoder(nn.Module):
    """Next-token logits of whole sequences, of a prompt, or of one token of each slot."""

    def __init__(
        self,
        vocabulary: int = 512,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        slots: int = 4,
        length: int = 64,
    ) -> None:
        super().__init__()
        self.slots, self.length = slots, length
        self.embed = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, slots, length) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    @property
    def layers(self) -> list[Block]:
        return [cast(Block, block) for block in self.blocks]

    def forward(
        self,
        ids: torch.Tensor,
        length: torch.Tensor | None = None,
        slot: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if positions is not None:  # decode
            x = (self.embed(ids) + self.places(positions))[:, None]
            for block in self.layers:
                x = block.step(x, positions)
            return self.head(self.norm(x[:, 0]))
        places = torch.arange(ids.shape[-1])
        x = self.embed(ids) + self.places(places)
        if slot is None:  # score
            for block in self.layers:
                x = block.whole(x, None)
            return self.head(self.norm(x[:, -1]))
        x = x[None]  # prefill
        for block in self.layers:
            x = block.whole(x, slot * self.length + places)
        assert length is not None
        return self.head(self.norm(x[0].index_select(0, length[None] - 1)))[0]


def decoder(**sizes: int) -> Decoder:
    """With random weights, the same ones at each call."""
    torch.manual_seed(0)
    return Decoder(**sizes).eval()


def save(path: str | PathLike[str], model: Decoder, tokens: int = 16, rows: int = 64) -> None:
    """Write the package; `score` takes sequences of `tokens`, up to `rows` of them at once."""
    batch, prompt = Dim("batch", min=1, max=rows), Dim("prompt", min=2, max=model.length)
    ids = torch.zeros(2, tokens, dtype=torch.int64)
    save_package(
        path,
        model,
        entries={
            "score": Example((ids,), dynamic_shapes={"ids": {0: batch}}),
            "prefill": Example(
                (ids[0], torch.tensor(1), torch.tensor(1)),
                dynamic_shapes={"ids": {0: prompt}, "length": None, "slot": None},
            ),
            "decode": Example(
                (torch.zeros(model.slots, dtype=torch.int64),),
                {"positions": torch.arange(model.slots)},
            ),
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    args = parser.parse_args()
    save(args.package, decoder(width=args.width, layers=args.layers))


if __name__ == "__main__":
    main()
