"""A server with a real package: results of eager PyTorch, 500 requests at once, a killed worker."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.serving.load_test import (
    Answer,
    Server,
    infer_body,
    send_all,
    send_while_killing,
    serving,
    worst_difference,
)
from examples.serving.model import Decoder, decoder, save

pytestmark = pytest.mark.xdist_group("serving")

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def model() -> Decoder:
    return decoder()


@pytest.fixture(scope="module")
def path(model: Decoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serving") / "model.maxpkg"
    save(path, model)
    return path


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Server]:
    with serving(path, "--max-body", "20000") as server:
        yield server


def rows(count: int) -> torch.Tensor:
    return torch.randint(512, (count, 16), generator=torch.Generator().manual_seed(count))


def eager(model: Decoder, ids: torch.Tensor) -> list[list[float]]:
    with torch.no_grad():
        return model(ids).tolist()


def continued(model: Decoder, prompt: list[int], count: int) -> list[int]:
    """What eager PyTorch generates, without a cache."""
    tokens = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens]))[0].argmax()))
    return tokens[len(prompt) :]


def url(server: Server, entry: str = "score") -> str:
    return f"{server.url}/v2/models/{entry}/infer"


def test_500_requests_at_once(server: Server, model: Decoder) -> None:
    ids = rows(500)
    answers = send_all(url(server), [infer_body(row) for row in ids.tolist()], 500)
    assert worst_difference(answers, eager(model, ids)) < TOLERANCE
    calls = server.metric('serving_call_rows_count{entry="score"}')
    assert calls < 250, "requests share calls"
    assert server.metric('serving_requests_total{entry="score",status="200"}') >= 500


def test_a_killed_worker_loses_no_request(server: Server, model: Decoder) -> None:
    ids = rows(400)
    bodies = [infer_body(row) for row in ids.tolist()]
    ended = server.metric("serving_workers_ended_total")
    answers = send_while_killing(url(server), bodies, server.workers()[0], after=0.1)
    assert worst_difference(answers, eager(model, ids)) < TOLERANCE
    server.wait_ready(2)
    assert server.metric("serving_workers_ended_total") == ended + 1


def test_several_rows_in_one_request(server: Server, model: Decoder) -> None:
    ids = rows(3)
    tensor = {"name": "ids", "shape": [3, 16], "datatype": "INT64", "data": ids.tolist()}
    (answer,) = send_all(url(server), [{"id": "a", "inputs": [tensor]}], 1)
    assert answer.body["id"] == "a"
    (output,) = answer.body["outputs"]
    found = torch.tensor(output["data"]).reshape(output["shape"])
    torch.testing.assert_close(found, torch.tensor(eager(model, ids)), rtol=1e-4, atol=1e-4)


def test_sequences_at_once(server: Server, model: Decoder) -> None:
    """More than there are slots, of several lengths; a prompt of one token is padded."""
    prompts = [row[: 1 + i % 9] for i, row in enumerate(rows(14).tolist())]
    bodies = [{"tokens": prompt, "max_tokens": 10} for prompt in prompts]
    answers = send_all(f"{server.url}/v2/generate_stream", bodies, 14)
    for prompt, answer in zip(prompts, answers, strict=True):
        *tokens, end = answer.body
        assert [event["token"] for event in tokens] == continued(model, prompt, 10)
        assert end == {"finish_reason": "length"}


def test_ends_of_sequences(server: Server, model: Decoder) -> None:
    prompt = [3, 1, 4, 1, 5]
    expected = continued(model, prompt, 59)
    stop = next(i for i, token in enumerate(expected) if token not in expected[:i] and i > 1)
    bodies: list[dict[str, Any]] = [
        {"tokens": prompt, "max_tokens": 1000},
        {"tokens": prompt, "max_tokens": 1000, "stop": [expected[stop]]},
        {"tokens": prompt, "max_tokens": 8, "temperature": 1.0, "seed": 5},
        {"tokens": prompt, "max_tokens": 8, "temperature": 1.0, "seed": 5},
        {"tokens": prompt * 13},
    ]
    answers = send_all(f"{server.url}/v2/generate", bodies, 5)
    assert answers[0].body == {"tokens": expected, "finish_reason": "length"}
    assert answers[1].body == {"tokens": expected[:stop], "finish_reason": "stop"}
    assert answers[2].body == answers[3].body and len(answers[2].body["tokens"]) == 8
    assert answers[4].status == 400 and "at most 64 fit" in answers[4].body["error"]


def bad_bodies() -> dict[str, tuple[str, Any, int, str]]:
    one = infer_body([1] * 16)
    return {
        "no entry": ("train", one, 404, "there is no entry 'train'"),
        "an entry with a state": ("decode", one, 404, "there is no entry 'decode'"),
        "no body": ("score", {}, 422, "inputs"),
        "another length": ("score", infer_body([1] * 15), 400, "is INT64"),
        "a token outside": ("score", infer_body([10**6] * 16), 400, "index"),
        "too large": ("score", infer_body([1] * 16000), 413, "larger than 20000 bytes"),
    }


@pytest.mark.parametrize("name", bad_bodies())
def test_wrong_requests(name: str, server: Server) -> None:
    entry, body, status, text = bad_bodies()[name]
    (answer,) = send_all(url(server, entry), [body], 1)
    assert answer.status == status and text in json.dumps(answer.body)


def get(server: Server, path: str) -> Any:
    with urllib.request.urlopen(server.url + path, timeout=10) as answer:
        return json.loads(answer.read())


def test_health_and_metadata(server: Server) -> None:
    assert get(server, "/v2/health/live") == {"live": True}
    assert get(server, "/v2/health/ready") == {"ready": True}
    assert get(server, "/v2/models/score/ready") == {"name": "score", "ready": True}
    (ids,) = get(server, "/v2/models/score")["inputs"]
    assert ids == {"name": "ids", "datatype": "INT64", "shape": [-1, 16]}


def test_a_stopping_server_answers_what_it_has_accepted(path: Path, model: Decoder) -> None:
    """And its workers end with it."""
    ids = rows(100)
    bodies = [infer_body(row) for row in ids.tolist()]
    found: list[Answer] = []
    # A window of a second: all of them wait when the server is told to stop.
    with serving(path, "--window", "1", "--max-batch", "1000", workers=1) as server:
        (worker,) = server.workers()
        thread = threading.Thread(target=lambda: found.extend(send_all(url(server), bodies, 100)))
        thread.start()
        while server.metric("serving_waiting") < 100 and thread.is_alive():
            time.sleep(0.05)
        server.process.send_signal(signal.SIGTERM)
        thread.join(60)
        assert server.process.wait(30) in (0, -signal.SIGTERM)
    assert worst_difference(found, eager(model, ids)) < TOLERANCE
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
