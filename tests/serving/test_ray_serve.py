"""The package on Ray Serve with two replicas; needs `pip install 'ray[serve]'`."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from examples.serving.load_test import infer_body, send_all, worst_difference
from examples.serving.model import decoder, save

pytest.importorskip("ray.serve")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serving")]


def test_two_replicas(tmp_path: Path) -> None:
    model = decoder()
    path = tmp_path / "model.maxpkg"
    save(path, model)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "examples.serving.ray_serve", str(path), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert "ready\n" in iter(process.stdout.readline, "")
        ids = torch.randint(512, (200, 16), generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            expected = model(ids).tolist()
        url = f"http://127.0.0.1:{port}/v2/models/score/infer"
        answers = send_all(url, [infer_body(row) for row in ids.tolist()], 200)
        assert worst_difference(answers, expected) < 1e-4
        assert len({answer.headers["x-replica-pid"] for answer in answers}) == 2
        (refused,) = send_all(url, [infer_body([10**6] * 16)], 1)
        assert refused.status == 400
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
