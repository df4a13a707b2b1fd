"""A package for a kind of CPUs gives the results of one for this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.frontend.package import models
from tests.testing.joined import joined
from torch_max_backend import compile_stats, load_package
from torch_max_backend.engine.targets import NATIVE, Target

OTHER = "x86-64-v3"

pytestmark = [
    *joined("package"),
    pytest.mark.skipif(
        Target.named(OTHER).why_not_here() is not None, reason=f"this CPU cannot run {OTHER}"
    ),
]
compile_all = models.compile_all


def test_results_of_another_target(tmp_path: Path) -> None:
    both, other = tmp_path / "both.maxpkg", tmp_path / "other.maxpkg"
    models.save(both, targets=[NATIVE, OTHER])
    before = compile_stats()["modules"]
    models.save(other, targets=[OTHER])
    assert compile_stats()["modules"] == before, "it was compiled with the first"

    here, there = load_package(both), load_package(other)
    assert (here.target, there.target) == (NATIVE, OTHER)
    assert [compiled.target.name for compiled in here.manifest.compiled] == [NATIVE, OTHER]
    model = models.decoder()
    for name, ids, kwargs in (
        ("prefill", models.PROMPT, {}),
        ("decode", models.TOKEN, {"scale": 2.0}),
        ("prefill", models.PROMPT[:2], {}),
    ):
        with torch.no_grad():
            expected = model(ids, **kwargs)
        own, others = here[name](ids, **kwargs), there[name](ids, **kwargs)
        torch.testing.assert_close(others, own, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(others, expected, rtol=1e-5, atol=1e-5)
    assert compile_stats()["modules"] == before
