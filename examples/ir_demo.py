"""Extract a graph on meta, save and load it, run it with real weights, verify and draw it.

python -m examples.ir_demo [folder]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from torch_ir import extract_ir, load_ir, verify_ir_with_state_dict
from torch_ir.visualize import visualize


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class TinyTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.blocks = nn.Sequential(*(Block(64, 4) for _ in range(2)))
        self.head = nn.Linear(64, 1000)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.blocks(self.embed(ids))
        return {"logits": self.head(hidden), "last_hidden": hidden[:, -1]}


def main(output_dir: str | Path | None = None) -> int:
    """Write files to `output_dir`; returns 0 if the IR gives the model's results."""
    folder = Path(output_dir) if output_dir is not None else Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    with torch.device("meta"):
        skeleton = TinyTransformer().eval()
        ids = torch.zeros(2, 16, dtype=torch.long)
    length = torch.export.Dim("length", min=2, max=512)
    start = time.perf_counter()
    ir = extract_ir(skeleton, (ids,), dynamic_shapes=({1: length},))
    seconds = time.perf_counter() - start
    path = folder / "tiny_transformer.json"
    ir.save(path)
    print(f"extracted {len(ir.nodes)} nodes on meta in {seconds:.1f} s; {path}")
    print(f"  input {ir.graph_inputs[0].describe()}, {path.stat().st_size / 1024:.1f} KiB")

    torch.manual_seed(0)
    model = TinyTransformer().eval()
    ir, ok = load_ir(path), True
    for size in (16, 37):
        test = torch.randint(0, 1000, (2, size))
        passed, report = verify_ir_with_state_dict(ir, model.state_dict(), model, (test,))
        print(f"length {size}: {report}")
        ok &= passed
    print(f"drawing: {visualize(ir, folder / 'tiny_transformer.html')}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
