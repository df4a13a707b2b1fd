"""Processes with the same package share its weights.

`python -m tests.frontend.package.test_memory` prints the figures of docs/packages.md.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from torch_max_backend import save_package

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("memory")]

ROOT = Path(__file__).parents[3]
HOLD = """
import sys, torch
from torch_max_backend import load_package
package = load_package(sys.argv[1])
(name,) = package
for _ in range(2):
    package(torch.zeros([int(n) for n in sys.argv[2:]], dtype=torch.int64))
print("ready", flush=True)
sys.stdin.read()
"""


def pss(pid: int) -> int:
    """Bytes of a process: each page divided by the number of processes that have it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError("smaps_rollup has no Pss")


@contextmanager
def holding(path: Path) -> Iterator[int]:
    """A process that has loaded and run a package of 16 tokens."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), "1", "16"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
    finally:
        process.communicate()


@dataclass(frozen=True)
class Memory:
    """Bytes that a first process takes, and that a second one adds."""

    first: int
    added: int


def measure(path: Path) -> Memory:
    with holding(path) as first:
        alone = pss(first)
        with holding(path) as second:
            return Memory(alone, pss(first) + pss(second) - alone)


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(8, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.embed(ids)


class Gpt2(torch.nn.Module):
    """124M parameters, random; the logits of the last token."""

    def __init__(self) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        self.model = GPT2LMHeadModel(GPT2Config(use_cache=False))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, logits_to_keep=1).logits


def figures(folder: Path) -> tuple[Memory, Memory, int]:
    """A package of next to nothing, one of GPT-2, and the bytes of GPT-2's weights."""
    torch.manual_seed(0)
    ids = torch.zeros(1, 16, dtype=torch.int64)
    model = Gpt2().eval()
    with torch.no_grad():
        save_package(folder / "tiny.maxpkg", torch.export.export(Tiny().eval(), (ids,)))
        save_package(folder / "gpt2.maxpkg", torch.export.export(model, (ids,)))
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    return measure(folder / "tiny.maxpkg"), measure(folder / "gpt2.maxpkg"), weights


def test_a_second_process_shares_the_weights(tmp_path: Path) -> None:
    tiny, gpt2, weights = figures(tmp_path)
    assert gpt2.first - tiny.first > weights, "the measure sees weights that are not shared"
    assert gpt2.added - tiny.added < 0.3 * weights


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tiny, gpt2, weights = figures(Path(folder))
    for name, memory in (("tiny", tiny), ("GPT-2", gpt2)):
        first, added = memory.first / 2**20, memory.added / 2**20
        print(f"{name}: the first process {first:.0f} MiB, a second one adds {added:.0f} MiB")
    share = (gpt2.added - tiny.added) / weights
    print(f"weights {weights / 2**20:.0f} MiB; added beyond that of the tiny package {share:.1%}")


if __name__ == "__main__":
    main()
