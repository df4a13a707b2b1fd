"""PROFILE and VERBOSE: what is printed, and that nothing is printed without them."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys

import pytest
import torch
from max.graph import Graph
from torch.fx.experimental.proxy_tensor import make_fx

from torch_max_backend import max_backend
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.observe import profiling

PROFILE, VERBOSE = "TORCH_MAX_BACKEND_PROFILE", "TORCH_MAX_BACKEND_VERBOSE"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _off(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (PROFILE, VERBOSE):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"PY{name}", raising=False)


def graph() -> torch.fx.GraphModule:
    return make_fx(lambda x, y: (x + y + 1).sin())(torch.ones(3), torch.ones(3))


def report_all() -> None:
    profiling.report("lower", 0.0123, "2 graphs")
    profiling.show_graph(graph(), "forward")
    profiling.show_max_graph(Graph("shown", input_types=[]))


def test_silence_by_default(capfd: Capture) -> None:
    report_all()
    assert capfd.readouterr() == ("", "")


def test_profile_prints_a_line_per_stage(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROFILE, "1")
    report_all()
    out, err = capfd.readouterr()
    assert out == "" and re.fullmatch(r"\[max_backend\] lower +12\.30 ms  2 graphs\n", err)


def test_verbose_prints_graphs_and_counts(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VERBOSE, "1")
    report_all()
    out, err = capfd.readouterr()
    assert out == ""
    assert "forward graph, 3 calls" in err and "2 × aten.add.Tensor" in err
    assert "1 × aten.sin.default" in err and "MAX graph" in err and '"shown"' in err
    assert "lower" not in err


def test_the_same_as_a_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "torch_max_backend"):
        report_all()
    assert caplog.messages == ["lower 12.30 ms  2 graphs"]
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "torch_max_backend"):
        report_all()
    assert len(caplog.messages) == 3 and "2 × aten.add.Tensor" in caplog.messages[1]


def test_the_level_of_the_root_logger_logs_each_line_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        report_all()
    assert caplog.messages == ["lower 12.30 ms  2 graphs"]


@pytest.mark.parametrize("setting", ["max_backend", "+max_backend", "torch_max_backend"])
def test_pytorchs_variable_turns_the_log_on(setting: str) -> None:
    """Of `torch_max_backend` PyTorch imports the package, while it is half imported itself."""
    code = (
        "import torch\n"
        "from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX, max_backend\n"
        "from torch_max_backend.observe import profiling\n"
        "profiling.report('lower', 1.0, 'a graph')\n"
        "assert len(MAPPING_TORCH_ATEN_TO_MAX) > 300\n"
        "assert len(torch.compile(torch.matrix_exp, backend=max_backend)(torch.eye(2))) == 2\n"
    )
    environment = {**os.environ, "TORCH_LOGS": setting}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("lower 1000.00 ms  a graph") == 1 and "trace" in done.stderr
    assert ("1 × aten.linalg_matrix_exp.default" in done.stderr) == setting.startswith("+")


def test_the_max_graph_is_printed_once(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VERBOSE, "1")
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")  # compiled before, nothing is lowered
    torch._dynamo.reset()
    with ENGINE.defer():
        torch.compile(lambda x: x.sin() * 2, backend=max_backend)(torch.ones(3))
        ENGINE.drop_waiting()
    assert capfd.readouterr().err.count("mo.graph @") == 1


def test_a_timed_call(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROFILE, "1")
    call = profiling.timed(lambda args: [args[0] + 1], "a graph")
    assert call([2]) == [3]
    assert re.search(r"\[max_backend\] run +\d+\.\d\d ms  a graph", capfd.readouterr().err)


def test_a_short_name_of_a_graph() -> None:
    assert profiling.describe(graph(), "backward") == "backward, 2 tensors in"
