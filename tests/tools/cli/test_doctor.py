"""`python -m torch_max_backend doctor`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import torch

from torch_max_backend.tools import cli
from torch_max_backend.tools.cli import doctor


def test_a_healthy_machine(capsys: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "FAULT" not in text and "fit to run models on MAX" in text
    for part in ("MAX sees", "PyTorch sees", "cpu", torch.__version__, "smoke test", "right"):
        assert part in text


def test_a_cache_that_others_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(stat.S_IRWXU | stat.S_IRWXO)
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path))
    with pytest.warns(UserWarning, match="neither read nor kept"):
        assert cli.main(["doctor", "--no-smoke"]) == 1
    text = capsys.readouterr().out
    assert "FAULT  compiled" in text and "TORCH_MAX_BACKEND_CACHE_DIR names another" in text


def test_a_device_that_is_not_there() -> None:
    finding = doctor.smoke_test("cuda:7")
    assert finding.fault is not None and "failed on cuda:7" in finding.text


@pytest.mark.parametrize(
    ("found", "bound", "fits"),
    [
        ("2.13.0+cpu", ">=2.13", True),
        ("2.12.1", ">=2.13", False),
        ("2.14.0", "<2.14", False),
        ("26.7.0.dev1", "<26.8", True),
    ],
)
def test_versions(found: str, bound: str, fits: bool) -> None:
    assert doctor._fits(found, bound) is fits


def test_a_gpu_that_both_see_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gpu:
        label, id = "gpu", 0

    class Cpu:
        label, id = "cpu", 0

    monkeypatch.setattr(doctor, "get_accelerators", lambda: iter([Gpu(), Cpu()]))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "A GPU")
    texts = {finding.what: finding.text for finding in doctor._devices()}
    assert "doctor --device cuda:0" in texts["together"] and "untested" in texts["together"]
    assert "pytest -m gpu" in texts["together"]
    assert texts["PyTorch sees"] == "cpu, cuda:0 (A GPU)"
