"""Damaged files: only `SerializationError`, in bounded time and memory."""

from __future__ import annotations

import contextlib
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from torch_ir import IR, SerializationError, TorchIRError, execute_ir, extract_ir, load_ir
from torch_ir.diff import diff_irs
from torch_ir.serializer import deserialize_ir, serialize_ir
from torch_ir.visualize import diff_to_html, to_dot, to_html, to_mermaid, to_model_explorer


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.fc(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])
        z = torch.cond(y.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (y,))
        return {"z": z, "n": x.shape[0], "best": z.topk(2), "none": None}


EXAMPLE = (torch.ones(2, 3),)
DYNAMIC = ({0: torch.export.Dim("n", max=9)},)


@pytest.fixture(scope="module")
def text() -> str:
    return serialize_ir(extract_ir(Model(), EXAMPLE, dynamic_shapes=DYNAMIC))


JUNK: list[Any] = [
    None, True, -1, 0, 2**63, 2**200, 1e308, "", "%", "@", "%x", "str:", "float32[2]",
    "float32[s0,]", "SymInt(", "dtype:nope", "device:cuda:99", "complex:,", "float:1",
    [], [[]], {}, {"a": 1}, ["x"] * 3, "float32[" + "9," * 70 + "9]", "ﬀ\ud800", "\x00",
    [None] * 50,
]  # fmt: skip


def _places(value: Any, found: list[tuple[Any, Any]]) -> None:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        found.append((value, key))
        if isinstance(item, dict | list):
            _places(item, found)


def _damage_tree(text: str, chance: random.Random, most: int = 4) -> str:
    document = json.loads(text)
    for _ in range(chance.randint(1, most)):
        places: list[tuple[Any, Any]] = []
        _places(document, places)
        if not places:
            break
        owner, key = chance.choice(places)
        action = chance.random()
        if action < 0.2:
            del owner[key]
        elif action < 0.4:
            other_owner, other_key = chance.choice(places)
            owner[key] = other_owner[other_key] if other_owner is not owner else chance.choice(JUNK)
        elif action < 0.5 and isinstance(owner, list):
            owner.append(owner[key])
        else:
            owner[key] = chance.choice(JUNK)
        try:
            json.dumps(document)
        except (ValueError, RecursionError):  # the damage made a cycle: start over
            document = json.loads(text)
    return json.dumps(document)


def _damage_text(text: str, chance: random.Random) -> str:
    letters = list(text)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(letters))
        action = chance.random()
        if action < 0.3:
            del letters[at : at + chance.randint(1, 40)]
        elif action < 0.7:
            letters[at] = chance.choice('{}[]",:%@0-eE.\\ \n\x00é')
        else:
            start = chance.randrange(len(letters))
            letters[at:at] = letters[start : start + chance.randint(1, 60)]
        if not letters:
            break
    return "".join(letters)


def _reset_peak() -> int:
    """Let the process's peak memory (VmHWM, KiB) start anew; returns what is in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


@dataclass
class Attack:
    """What damaged files did: how many were refused, the slowest, memory above that of before."""

    refused: int = 0
    slowest_s: float = 0.0
    grown_mib: float = 0.0


def attack(text: str, count: int, seed: int) -> Attack:
    """Load `count` damaged versions of a file; only `SerializationError` may come out."""
    chance = random.Random(seed)
    found = Attack()
    before = _reset_peak()
    for i in range(count):
        damaged = (_damage_tree if i % 2 else _damage_text)(text, chance)
        start = time.process_time()
        try:
            loaded = deserialize_ir(damaged)
        except SerializationError as error:
            found.refused += 1
            assert len(str(error)) < 2000
        else:
            assert isinstance(loaded, IR)
            serialize_ir(loaded)
        found.slowest_s = max(found.slowest_s, time.process_time() - start)
        assert found.slowest_s < 2.0, damaged[:500]
    found.grown_mib = (_status("VmHWM") - before) / 1024
    assert found.grown_mib < 200
    return found


def test_10000_damaged_files(text: str) -> None:
    assert attack(text, 10_000, seed=2).refused > 5000


def test_what_loads_can_be_run_drawn_compared_and_saved(text: str, tmp_path: Path) -> None:
    model, x = Model(), torch.ones(2, 3)
    whole = deserialize_ir(text)
    chance = random.Random(3)
    used = 0
    for _ in range(1500):
        try:
            loaded = deserialize_ir(_damage_tree(text, chance, most=1))
        except SerializationError:
            continue
        used += 1
        with contextlib.suppress(TorchIRError):
            execute_ir(loaded, (x,), model.state_dict())
        with contextlib.suppress(SerializationError):
            loaded.save(tmp_path / "model.json")  # a lone surrogate is no text for a file
        str(diff_irs(whole, loaded))
        diff_to_html(whole, loaded)
        str(loaded), repr(loaded), loaded.text()
        for draw in (to_dot, to_html, to_mermaid, to_model_explorer):
            draw(loaded)
    assert used > 100


def test_damaged_bytes_on_disk(tmp_path: Path) -> None:
    class Table(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.table

        table = torch.arange(1000.0)

    path = tmp_path / "model.json"
    extract_ir(Table(), (torch.ones(1000),)).save(path)
    (beside,) = tmp_path.glob("*.safetensors")
    chance = random.Random(4)
    for file in (path, beside):
        whole = file.read_bytes()
        refused = 0
        for _ in range(500):
            damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
            for _ in range(min(chance.randint(1, 6), len(damaged))):
                damaged[chance.randrange(min(len(damaged), 600))] = chance.randrange(256)
            file.write_bytes(damaged)
            try:
                load_ir(path)
            except SerializationError:
                refused += 1
        assert refused > 250, file.name
        file.write_bytes(whole)
        load_ir(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_json_in_any_field(text: str, data: st.DataObject) -> None:
    document = json.loads(text)
    field = data.draw(st.sampled_from(sorted(document)))
    document[field] = data.draw(json_values)
    try:
        deserialize_ir(json.dumps(document))
    except SerializationError as error:
        assert str(error)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text(value: str) -> None:
    with pytest.raises(SerializationError):
        deserialize_ir(value)
