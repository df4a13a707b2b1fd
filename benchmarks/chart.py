"""The chart of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.catalogue import ENGINES


def draw(rows: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Speed relative to eager PyTorch, one group of bars per model, each bar with its number."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = {title: engines for title, engines in rows.items() if "median_ms" in engines["eager"]}
    bars = [e for e in ENGINES if e != "eager" and any(e in engines for engines in rows.values())]
    if not bars:
        return
    height = 0.84 / len(bars)
    small: dict[str, Any] = {"va": "center", "fontsize": 7, "bbox": {"color": "white", "pad": 0.2}}
    figure, axes = pyplot.subplots(figsize=(9, 0.16 * len(bars) * len(rows) + 1.4))
    for index, engine in enumerate(bars):
        label, colour = ENGINES[engine].title, ENGINES[engine].colour
        places, lengths = [], []
        for row, engines in enumerate(rows.values()):
            result = engines.get(engine, {})
            place = row + (index - (len(bars) - 1) / 2) * height
            if "median_ms" in result:
                places.append(place)
                lengths.append(engines["eager"]["median_ms"] / result["median_ms"])
                axes.text(lengths[-1] + 0.02, place, f"{lengths[-1]:.2f}", **small)
            elif "failure" in result:
                axes.text(0.02, place, f"{label}: failed", color="0.45", **small)
        axes.barh(places, lengths, height * 0.9, label=label, color=colour)
    axes.axvline(1, color="black", linewidth=1, zorder=0.5)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("speed relative to eager PyTorch (the line at 1); longer is faster")
    axes.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(folder / "benchmarks.png", dpi=110)
    pyplot.close(figure)
