"""docs/benchmarks.md and its chart, from the figures in docs/benchmarks.json.

`make bench` measures and calls this; `python -m benchmarks.report` writes the page and the chart
again without measuring anything.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.catalogue import BENCHMARKS, ENGINES, NEW_TOKENS, OURS
from benchmarks.chart import draw
from benchmarks.machine import grouped, machines
from benchmarks.targets import (
    Measured,
    Results,
    best_rival,
    geometric_mean,
    memory_bound,
    milliseconds,
    name_of,
    of_kind,
    speed,
    speeds,
    verdicts,
)

_PAGE = """# Benchmarks

`make bench` measures the figures on this page; `python -m benchmarks.report` writes the page again
from the [stored figures](benchmarks.json) without measuring.

{machines}

## Method

Float32 with random weights on a CPU, the same number of threads for every engine. Each engine runs
in a process of its own. The processes of one benchmark take turns in random order, so that noise
from other work on the machine affects all of them alike. A turn is one call that does not count and
timed calls ({calls} or more, until a fraction of a second has passed), after a pause in which the
threads of the other engines fall asleep. Times are medians over all turns, in milliseconds.

| engine | how it runs a model |
|---|---|
| eager | PyTorch without a compiler |
| inductor | `torch.compile` as it comes |
| inductor-freezing | the same with `freezing`, the only mode in which it packs weights |
| inductor-autotune | `freezing` and `max_autotune`: its own matmul kernels need packed weights |
| onnxruntime | ONNX Runtime on `torch.onnx.export(dynamo=True)` |
| onnxruntime-no-spin | the same with `session.intra_op.allow_spinning` off |
| openvino | OpenVINO on `openvino.convert_model(torch.export.export(...))`, in float32 |
| max | `torch.compile(backend=max_backend)` |

An engine that cannot run a model is listed with its error. ONNX Runtime and OpenVINO run exported
files in processes without PyTorch.

{turns}

![Speed relative to eager PyTorch](benchmarks.png)

## Targets

Ratios are a rival's time divided by that of `max_backend`: above 1, `max_backend` is faster. The
best rival of a benchmark is the fastest other engine.

{targets}

## Inference

{inference}

## Decoding with a cache

One token of the Llama-like model per call, the last of a static cache of 512 tokens. The step takes
the token, its position and the caches, and returns logits and new caches, which are the next call's
arguments. It is the same function for every engine, without writes into arguments, because exported
models have none; every engine therefore also copies the caches once per token. *Bound* is the time
to read all weights and the cache once at the rate at which a process in the same run read a
gigabyte.

{decode}

{generate}

## Training steps

Forward, loss, backward and AdamW (`foreach=True`), compiled as one function; no dropout.

{training}

## Memory

Peak memory of the process in MB, from its start: building or loading the model, a first call that
finds everything compiled where the engine can cache that, and all timed calls. The memory that
PyTorch itself takes is part of it for the engines that run in PyTorch.

{memory}

## All figures

"First" is the time from the start of the engine to its first result in that process (of exported
files: without the export). The error is the largest absolute difference from eager PyTorch; of
`generate`, the number of tokens that differ; of training, that of the first two losses. Cold first
calls are on the page on [compile time](compile_time.md#twelve-models).

{figures}
"""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _title(key: str) -> str:
    name, _, batch = key.partition("/")
    entry = BENCHMARKS.get(name)
    if entry is None or len(entry.batches) == 1:
        return entry.title if entry else key
    return f"{entry.title}, batch {batch}"


def _engines(results: Results) -> list[str]:
    """Those that were measured anywhere, in the order of the catalogue."""
    return [e for e in ENGINES if any(e in m["engines"] for m in results.values())]


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _time(measured: Measured, engine: str, bold: bool) -> str:
    result = measured["engines"].get(engine, {})
    if "failure" in result:
        return "failed"
    text = _number(milliseconds(measured, engine))
    return f"**{text}**" if bold else text


def times(results: Results) -> str:
    """Median of every engine, the best in bold, and the ratio to the best rival."""
    if not results:
        return "Not measured yet."
    engines = _engines(results)
    rows = []
    for key, measured in results.items():
        rival = best_rival(measured)
        ratio = speed(measured, rival)
        best = OURS if ratio is not None and ratio >= 1 else rival
        cells = [_time(measured, engine, engine == best) for engine in engines]
        rows.append([_title(key), *cells, _number(ratio), _number(speed(measured, "inductor"))])
    means = [
        geometric_mean(list(found.values())) if found else None
        for found in (speeds(results, best_rival), speeds(results, lambda _: "inductor"))
    ]
    rows.append(["geometric mean", *[""] * len(engines), *map(_number, means)])
    return _table(["", *engines, "best rival ÷ max", "inductor ÷ max"], rows)


def decode(results: Results) -> str:
    """Milliseconds and tokens per second of a decode step, beside what memory allows."""
    if not results:
        return "Not measured yet."
    rows = []
    for key, measured in results.items():
        batch = int(key.partition("/")[2])
        bound = memory_bound(measured)
        for engine in measured["engines"]:
            time = milliseconds(measured, engine)
            over = time / bound if time and bound else None
            rows.append(
                [
                    _title(key),
                    engine,
                    _time(measured, engine, False),
                    _number(batch * 1e3 / time if time else None, 1),
                    _number(over),
                ]
            )
        if bound:
            rate = f"bound ({measured['bytes_read'] / 1e6:.0f} MB"
            rate += f" at {measured['bandwidth_gb_s']:.1f} GB/s)"
            rows.append(
                [_title(key), rate, _number(bound), _number(batch * 1e3 / bound, 1), "1.00"]
            )
    return _table(["", "engine", "ms per token", "tokens per second", "÷ bound"], rows)


def generate(results: Results) -> str:
    """Tokens per second of `generate`."""
    if not results:
        return "`generate` is not measured yet."
    rows = []
    for measured in results.values():
        for engine in measured["engines"]:
            time = milliseconds(measured, engine)
            rate = NEW_TOKENS * 1e3 / time if time else None
            rows.append([engine, _time(measured, engine, False), _number(rate, 1)])
    told = (
        "The same model with `generate` of transformers and its own static cache of 512, which is\n"
        f"written in place: {NEW_TOKENS} greedy tokens after a prompt of 8; the time includes the\n"
        "prompt.\n\n"
    )
    return told + _table(["engine", "ms per call", "tokens per second"], rows)


def memory(results: Results) -> str:
    """Peak memory by engine."""
    if not results:
        return "Not measured yet."
    engines = _engines(results)
    rows = []
    for key, measured in results.items():
        peaks = {e: measured["engines"].get(e, {}).get("peak_mb") for e in engines}
        ours, theirs = peaks.get(OURS), peaks.get("inductor")
        ratio = ours / theirs if ours and theirs else None
        cells = [_number(peaks[engine], 0) for engine in engines]
        rows.append([_title(key), *cells, _number(ratio)])
    return _table(["", *engines, "max ÷ inductor"], rows)


def figures(results: Results) -> str:
    """Every figure."""
    rows = []
    for key, measured in results.items():
        for engine, r in measured["engines"].items():
            if "failure" in r:
                told = r["failure"][:160].replace("|", "\\|").replace("<", "&lt;")
                rows.append([key, engine, f"failed: {told}", *[""] * 5])
                continue
            low, high = r["quartiles_ms"]
            rows.append(
                [
                    key,
                    engine,
                    _number(r["median_ms"]),
                    f"{low:.2f}–{high:.2f}",
                    str(r["calls"]),
                    _number(r["first_s"], 1),
                    _number(r["peak_mb"], 0),
                    f"{r['error']:.1e}",
                ]
            )
    head = ["benchmark", "engine", "median ms", "quartiles", "calls", "first s", "peak MB", "error"]
    return _table(head, rows)


def targets(results: Results, zoo: Mapping[str, float]) -> str:
    """The targets, each met or not."""
    words = {True: "met", False: "**not met**", None: "–"}
    rows = [[v.target, v.found, words[v.met]] for v in verdicts(results, zoo)]
    return _table(["target", "found", ""], rows)


def page(results: Results, zoo: Mapping[str, float]) -> str:
    """docs/benchmarks.md."""
    calls = dict.fromkeys(str(measured["calls"]) for measured in results.values())
    rounds = grouped(results, "rounds")
    most = next(iter(rounds))
    others = [f"{count} of {', '.join(keys)}" for count, keys in rounds.items() if count != most]
    return _PAGE.format(
        machines=machines(results),
        calls=" or ".join(calls),
        turns=f"Each engine had {most} turns{'; ' if others else ''}{'; '.join(others)}.",
        targets=targets(results, zoo),
        inference=times(of_kind(results, "inference")),
        decode=decode(of_kind(results, "decode")),
        generate=generate(of_kind(results, "generate")),
        training=times(of_kind(results, "training")),
        memory=memory(of_kind(results, "inference", "decode")),
        figures=figures(results),
    )


def zoo_speeds(folder: Path) -> dict[str, float]:
    """Speed relative to eager PyTorch by architecture, from `benchmarks.zoo`."""
    kept = folder / "zoo_speed.json"
    if not kept.is_file():
        return {}
    return {
        name: line["eager_ms"] / line["max_ms"]
        for name, line in json.loads(kept.read_text()).items()
        if "max_ms" in line
    }


def write(results: Mapping[str, Any], folder: Path) -> None:
    """The figures, the page and the chart."""
    folder.mkdir(parents=True, exist_ok=True)
    order = list(BENCHMARKS)
    known = [key for key in results if name_of(key) in BENCHMARKS and "/" in key]
    known.sort(key=lambda key: (order.index(name_of(key)), int(key.partition("/")[2])))
    ordered = {key: results[key] for key in known}
    (folder / "benchmarks.json").write_text(json.dumps(ordered, indent=1) + "\n")
    (folder / "benchmarks.md").write_text(page(ordered, zoo_speeds(folder)))
    charted = of_kind(ordered, "inference", "decode")
    single = {key: measured for key, measured in charted.items() if key.endswith("/1")}
    draw({BENCHMARKS[name_of(k)].title: m["engines"] for k, m in single.items()}, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs"))
    folder = parser.parse_args().folder
    write(json.loads((folder / "benchmarks.json").read_text()), folder)


if __name__ == "__main__":
    main()
