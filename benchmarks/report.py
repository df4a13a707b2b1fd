"""docs/benchmarks.md and its chart, from the figures in docs/benchmarks.json.

`make bench` measures and calls this; `python -m benchmarks.report` writes the page and the chart
again without measuring anything.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TITLES = {
    "mlp": "MLP, 6 layers, batch 32",
    "gpt2-128": "GPT-2, 128 tokens",
    "bert-128": "BERT-base, 128 tokens",
    "vit-base": "ViT-base, one image",
    "resnet-50": "ResNet-50, one image",
    "llama-prefill-128": "Llama-like, 128 tokens",
    "llama-decode-1": "Llama-like, one token",
}
"""Each model in words, in the order of the page and the chart."""

ENGINES = {
    "eager": ("eager PyTorch", "0.3"),
    "inductor": ("TorchInductor", "0.72"),
    "onnxruntime": ("ONNX Runtime", "0.52"),
    "openvino": ("OpenVINO", "0.85"),
    "max": ("max_backend", "#d1495b"),
}
"""Each engine's name and colour; greys for the others, so that ours stands out."""

_PAGE = """# Benchmarks

`make bench` measures the figures on this page; `python -m benchmarks.report` writes the page again
from the [stored figures](benchmarks.json) without measuring.

Float32 inference with random weights, batch 1 (the MLP: 32), on a CPU. Each engine runs in a
process of its own. The processes of one model take turns in random order, so that noise from other
work on the machine affects all of them alike. A turn is one call that does not count and
{calls} timed calls, after a pause in which the threads of the other engines fall asleep. Times are
medians and quartiles over all turns.

"First call" is the time from `torch.compile` to the first result: *cold* with empty caches, *warm*
in a second process. Peak memory is that of the whole process, which also ran the eager model once
as the reference. The error is the largest absolute difference from eager PyTorch.

{machines}
{rounds}
{notes}
![Speed relative to eager PyTorch](benchmarks.png)

## Ratios

Time of the other engine divided by the time of `max_backend` (medians): above 1, `max_backend` is
faster.

{ratios}

## All figures

{table}
"""


def ratios(models: Mapping[str, Any]) -> str:
    """The time of each peer over ours, as Markdown."""
    peers = [engine for engine in ENGINES if engine != "max"]
    lines = [
        "| model | " + " | ".join(ENGINES[peer][0] for peer in peers) + " |",
        "|---" * (len(peers) + 1) + "|",
    ]
    for name, model in models.items():
        engines = model["engines"]
        ours = engines.get("max", {}).get("median_ms")
        cells = []
        for peer in peers:
            theirs = engines.get(peer, {}).get("median_ms")
            cells.append(f"{theirs / ours:.2f}" if ours and theirs else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table(models: Mapping[str, Any]) -> str:
    """Every figure, as Markdown."""
    lines = [
        "| model | engine | median ms | quartiles | first call cold s | warm s | peak MB "
        "| max error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, model in models.items():
        for engine, r in model["engines"].items():
            if "failure" in r:
                lines.append(f"| {name} | {engine} | failed: {r['failure'][:80]} | | | | | |")
                continue
            cold = r.get("cold_first_s")
            low, high = r["quartiles_ms"]
            lines.append(
                f"| {name} | {engine} | {r['median_ms']:.2f} | {low:.2f}–{high:.2f} "
                f"| {'' if cold is None else f'{cold:.1f}'} | {r['first_s']:.1f} "
                f"| {r['peak_mb']:.0f} | {r['error']:.1e} |"
            )
    return "\n".join(lines)


def page(models: Mapping[str, Any]) -> str:
    """docs/benchmarks.md."""
    machines = dict.fromkeys(model["machine"] for model in models.values())
    calls = dict.fromkeys(str(model["calls"]) for model in models.values())
    rounds = ", ".join(f"{name} {model['rounds']}" for name, model in models.items())
    noted: dict[str, list[str]] = {}
    for name, model in models.items():
        if "note" in model:
            noted.setdefault(model["note"], []).append(name)
    notes = [f"- {', '.join(names)}: {note}." for note, names in noted.items()]
    return _PAGE.format(
        calls=" or ".join(calls),
        machines="\n".join(f"Machine: {machine}." for machine in machines),
        rounds=f"Turns of each engine: {rounds}.",
        notes="\n".join(["", "Differences between the runs:", "", *notes, ""]) if notes else "",
        ratios=ratios(models),
        table=table(models),
    )


def chart(models: Mapping[str, Any], path: Path) -> None:
    """Speed relative to eager PyTorch, one group of bars per model, each bar with its number."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = [
        engine
        for engine in ENGINES
        if engine != "eager" and any(engine in model["engines"] for model in models.values())
    ]
    height = 0.84 / len(bars)
    small: dict[str, Any] = {"va": "center", "fontsize": 8, "bbox": {"color": "white", "pad": 0.3}}
    figure, axes = pyplot.subplots(figsize=(9, 0.7 * len(models) + 1.1))
    for index, engine in enumerate(bars):
        label, colour = ENGINES[engine]
        places, speeds = [], []
        for row, model in enumerate(models.values()):
            result = model["engines"].get(engine, {})
            place = row + (index - (len(bars) - 1) / 2) * height
            if "median_ms" in result:
                places.append(place)
                speeds.append(model["engines"]["eager"]["median_ms"] / result["median_ms"])
                number = f"{speeds[-1]:.2f}"
                axes.text(speeds[-1] + 0.02, place, number, **small)
            else:
                axes.text(0.02, place, f"{label}: failed", color="0.45", **small)
        axes.barh(places, speeds, height * 0.9, label=label, color=colour)
    axes.axvline(1, color="black", linewidth=1, zorder=0.5)
    axes.set_yticks(range(len(models)), [TITLES.get(name, name) for name in models])
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("speed relative to eager PyTorch (the line at 1); longer is faster")
    axes.legend(ncols=len(bars), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def write(models: Mapping[str, Any], folder: Path) -> None:
    """The figures, the page and the chart."""
    folder.mkdir(parents=True, exist_ok=True)
    ordered = {
        name: models[name] for name in [*TITLES, *(models.keys() - TITLES)] if name in models
    }
    (folder / "benchmarks.json").write_text(json.dumps(ordered, indent=1) + "\n")
    (folder / "benchmarks.md").write_text(page(ordered))
    chart(ordered, folder / "benchmarks.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs"))
    folder = parser.parse_args().folder
    write(json.loads((folder / "benchmarks.json").read_text()), folder)


if __name__ == "__main__":
    main()
