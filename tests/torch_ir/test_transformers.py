"""Architectures of transformers: extract on meta, save, load, execute, verify to 1e-5."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.testing.runner import on_meta
from tests.torch_ir.roundtrip import save_and_load
from tests.zoo.architectures import ARCHITECTURES
from tests.zoo.spec import Architecture
from torch_ir import TorchIRError, extract_ir, verify_ir_with_state_dict

EXPORTED = [architecture for architecture in ARCHITECTURES if architecture.no_ir is None]


def marks(architecture: Architecture) -> list[pytest.MarkDecorator]:
    found = [pytest.mark.slow] if architecture.slow else []
    if architecture.no_ir is not None:
        found.append(pytest.mark.xfail(reason=architecture.no_ir, raises=TorchIRError, strict=True))
    return found


@pytest.mark.parametrize(
    "architecture", [pytest.param(a, id=a.model, marks=marks(a)) for a in ARCHITECTURES]
)
def test_architecture(architecture: Architecture, tmp_path: Path) -> None:
    torch.manual_seed(1)
    kwargs = architecture.inputs()
    ir = extract_ir(architecture.build("meta"), (), kwargs=on_meta(kwargs))
    ir = save_and_load(ir, tmp_path)
    model = architecture.build()
    passed, report = verify_ir_with_state_dict(
        ir, model.state_dict(), model, (), 0.0, 1e-5, kwargs=kwargs
    )
    assert passed, str(report)


def test_there_are_25_of_8_families() -> None:
    assert len(EXPORTED) >= 25
    assert len({architecture.family for architecture in EXPORTED}) >= 8
