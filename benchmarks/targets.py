"""What a run should show, and whether it does: ratios of medians, and the targets for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.catalogue import BENCHMARKS, OURS

Measured = Mapping[str, Any]
"""Of one benchmark; `Results` has one for each name and batch, `gpt2-128/1`."""
Results = Mapping[str, Measured]


@dataclass(frozen=True)
class Verdict:
    """A target and what was found."""

    target: str
    found: str
    met: bool | None
    """None if nothing was measured."""


def name_of(key: str) -> str:
    return key.partition("/")[0]


def of_kind(results: Results, *kinds: str) -> dict[str, Measured]:
    """The results of benchmarks of these kinds."""
    return {
        key: measured
        for key, measured in results.items()
        if name_of(key) in BENCHMARKS and BENCHMARKS[name_of(key)].kind in kinds
    }


def milliseconds(measured: Measured, engine: str) -> float | None:
    """The median of an engine; None if it failed or was not measured."""
    return measured["engines"].get(engine, {}).get("median_ms")


def best_rival(measured: Measured) -> str | None:
    """The fastest engine other than ours."""
    times = {
        engine: result["median_ms"]
        for engine, result in measured["engines"].items()
        if engine != OURS and "median_ms" in result
    }
    return min(times, key=lambda engine: times[engine]) if times else None


def speed(measured: Measured, rival: str | None) -> float | None:
    """A rival's time over ours: above 1, ours is faster."""
    ours = milliseconds(measured, OURS)
    theirs = milliseconds(measured, rival) if rival else None
    return theirs / ours if ours and theirs else None


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, values)))


def speeds(results: Results, rival: Callable[[Measured], str | None]) -> dict[str, float]:
    """By benchmark, where both were measured."""
    found = {key: speed(measured, rival(measured)) for key, measured in results.items()}
    return {key: value for key, value in found.items() if value is not None}


def memory_bound(measured: Measured) -> float | None:
    """The milliseconds that reading the weights and the cache once takes, in the same run."""
    if "bandwidth_gb_s" not in measured:
        return None
    return measured["bytes_read"] / measured["bandwidth_gb_s"] / 1e6


def _each(target: str, found: Mapping[str, float], least: float) -> Verdict:
    """Each ratio reaches `least`; those that do not are named."""
    if not found:
        return Verdict(target, "not measured", None)
    below = sorted((value, key) for key, value in found.items() if value < least)
    if not below:
        return Verdict(target, f"lowest {min(found.values()):.2f} of {len(found)}", True)
    named = ", ".join(f"{key} {value:.2f}" for value, key in below)
    return Verdict(target, f"{len(below)} of {len(found)} below: {named}", False)


def _mean(target: str, found: Mapping[str, float], least: float) -> Verdict:
    if not found:
        return Verdict(target, "not measured", None)
    mean = geometric_mean(list(found.values()))
    return Verdict(target, f"{mean:.2f} over {len(found)}", mean >= least)


def _memory(results: Results) -> Verdict:
    target = "inference: peak memory at most 1.3 × TorchInductor's, each"
    found = {}
    for key, measured in results.items():
        ours, theirs = (
            measured["engines"].get(engine, {}).get("peak_mb") for engine in (OURS, "inductor")
        )
        if ours and theirs:
            found[key] = ours / theirs
    if not found:
        return Verdict(target, "not measured", None)
    above = sorted(((value, key) for key, value in found.items() if value > 1.3), reverse=True)
    named = ", ".join(f"{key} {value:.2f}" for value, key in above)
    told = f"{len(above)} of {len(found)} above: {named}" if above else "none above"
    return Verdict(target, f"{told}; highest {max(found.values()):.2f}", not above)


def _over_bound(results: Results) -> Verdict:
    target = "decode: at most 1.15 × the time that memory bandwidth allows, each"
    found = {}
    for key, measured in results.items():
        ours, bound = milliseconds(measured, OURS), memory_bound(measured)
        if ours and bound:
            found[key] = ours / bound
    if not found:
        return Verdict(target, "not measured", None)
    told = ", ".join(f"{key} {value:.2f}" for key, value in found.items())
    return Verdict(target, told, max(found.values()) <= 1.15)


def verdicts(results: Results, zoo: Mapping[str, float]) -> Iterator[Verdict]:
    """All targets; `zoo` is the speed of each architecture relative to eager PyTorch."""
    inference = of_kind(results, "inference")
    decode = of_kind(results, "decode")

    def family(name: str) -> dict[str, float]:
        chosen = {k: m for k, m in inference.items() if BENCHMARKS[name_of(k)].family == name}
        return speeds(chosen, best_rival)

    everything = {**inference, **decode}
    yield _each("transformers: at least 1.0 × the best rival, each", family("transformer"), 1.0)
    yield _each(
        "convolution networks: at least 0.95 × the best rival, each", family("convolution"), 0.95
    )
    yield _mean(
        "inference: geometric mean at least 1.1 × the best rival",
        speeds(everything, best_rival),
        1.1,
    )
    yield _mean(
        "inference: geometric mean at least 1.5 × TorchInductor as it comes",
        speeds(everything, lambda _: "inductor"),
        1.5,
    )
    yield _each(
        "decode: at least 1.0 × ONNX Runtime, each", speeds(decode, lambda _: "onnxruntime"), 1.0
    )
    yield _over_bound(decode)
    yield _each(
        "training step: at least 1.0 × TorchInductor, each",
        speeds(of_kind(results, "training"), lambda _: "inductor"),
        1.0,
    )
    yield _each("zoo: at least 0.95 × eager PyTorch, each architecture", zoo, 0.95)
    yield _mean("zoo: geometric mean at least 1.5 × eager PyTorch", zoo, 1.5)
    yield _memory(inference)
