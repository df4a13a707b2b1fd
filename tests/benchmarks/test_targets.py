"""Ratios, means and targets, from figures that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import report
from benchmarks.targets import best_rival, memory_bound, speed, verdicts


def measured(**times: float | str) -> dict[str, Any]:
    """Figures of one benchmark: milliseconds by engine, or how it failed."""
    engines: dict[str, Any] = {}
    for engine, time in times.items():
        if isinstance(time, str):
            engines[engine] = {"failure": time}
            continue
        engines[engine] = {
            "median_ms": time,
            "quartiles_ms": [time, time],
            "calls": 4,
            "first_s": 1.0,
            "error": 0.0,
            "peak_mb": 100 * time,
        }
    return {"machine": "a machine", "rounds": 2, "calls": 2, "engines": engines}


def verdict(results: dict[str, Any], start: str, zoo: dict[str, float] | None = None) -> Any:
    (found,) = [v for v in verdicts(results, zoo or {}) if v.target.startswith(start)]
    return found


def test_the_best_rival_is_the_fastest_that_ran() -> None:
    results = measured(eager=4.0, inductor=3.0, openvino="RuntimeError: no", max=2.0)
    assert best_rival(results) == "inductor"
    assert speed(results, "inductor") == 1.5
    assert speed(results, "openvino") is None


def test_one_slow_transformer_misses_the_target_and_is_named() -> None:
    results = {
        "gpt2-128/1": measured(eager=4.0, max=2.0),
        "bert-128/8": measured(eager=4.0, onnxruntime=1.0, max=2.0),
        "resnet-50/1": measured(eager=0.96, max=1.0),
    }
    found = verdict(results, "transformers")
    assert found.met is False and "bert-128/8 0.50" in found.found
    assert verdict(results, "convolution").met is True
    mean = verdict(results, "inference: geometric mean at least 1.1")
    assert mean.found == "0.99 over 3" and mean.met is False


def test_nothing_measured_is_neither_met_nor_missed() -> None:
    assert {v.met for v in verdicts({}, {})} == {None}


def test_decode_is_compared_with_the_time_of_memory() -> None:
    decode = measured(eager=40.0, onnxruntime=22.0, max=23.0)
    decode |= {"bytes_read": 400_000_000, "bandwidth_gb_s": 20.0}
    assert memory_bound(decode) == pytest.approx(20.0)
    results = {"llama-decode-512/1": decode}
    assert verdict(results, "decode: at most 1.15").met is True
    assert verdict(results, "decode: at least 1.0").met is False


def test_memory_and_the_zoo() -> None:
    results = {"mlp/1": measured(inductor=1.0, max=1.4)}
    assert "mlp/1 1.40" in verdict(results, "inference: peak memory").found
    zoo = {"BertModel": 0.9, "GPT2Model": 3.0}
    assert verdict(results, "zoo: at least", zoo).found == "1 of 2 below: BertModel 0.90"
    assert verdict(results, "zoo: geometric", zoo).met is True


def test_the_page_shows_failures_and_every_section() -> None:
    decode = measured(eager=40.0, max=20.0)
    decode |= {"bytes_read": 400_000_000, "bandwidth_gb_s": 20.0}
    page = report.page(
        {
            "gpt2-128/1": measured(eager=4.0, openvino="RuntimeError: a | b", max=2.0),
            "llama-decode-512/1": decode,
            "llama-generate-512/1": measured(eager=64.0, max=32.0),
            "train-vit-tiny/4": measured(eager=4.0, inductor=3.0, max=2.0),
        },
        {},
    )
    assert "| GPT-2, 128 tokens, batch 1 | 4.00 | failed | **2.00** | 2.00 | – |" in page
    assert "failed: RuntimeError: a \\| b" in page
    assert "bound (400 MB at 20.0 GB/s) | 20.00 | 50.0 | 1.00 |" in page
    assert "| max | 32.00 | 1000.0 |" in page
    assert "| ViT-tiny, 4 images | 4.00 | 3.00 | **2.00** | 1.50 | 1.50 |" in page
    assert "Not measured yet" not in page
