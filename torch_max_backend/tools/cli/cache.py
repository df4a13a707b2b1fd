"""`cache`: the compiled graphs on disk."""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.table import Table

from torch_max_backend.engine import artifacts


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "action",
        choices=["ls", "size", "clear"],
        help="ls: one line per artifact, and how many traced graphs; size: how much space they "
        "take; clear: remove them all",
    )


def run(args: argparse.Namespace) -> int:
    """Do it in the store that the environment names; always 0."""
    store = artifacts.default_store()
    if args.action == "size":
        print(f"{store.size() / 2**20:.1f} MiB of {store.limit / 2**20:.0f} in {store.modules}")
    elif args.action == "clear":
        removed, traced = store.clear()
        print(f"removed {removed} artifacts from {store.modules}")
        print(f"removed {traced} traced graphs from {store.traces}")
    else:
        _list(store)
    return 0


def _list(store: artifacts.ArtifactStore) -> None:
    found = list(store.artifacts())
    if found:
        _print_table(store, found)
    else:
        print(f"no artifacts in {store.modules}")
    traced = list(store.traced())
    size = sum(file.bytes for file in traced) / 2**20
    print(f"{len(traced)} traced graphs, {size:.1f} MiB in {store.traces}")


def _print_table(store: artifacts.ArtifactStore, found: list[artifacts.Artifact]) -> None:
    table = Table("artifact", "MiB", "graphs", "last used")
    graphs = store.graphs_by_artifact()
    for artifact in found:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(artifact.used))
        size = f"{artifact.bytes / 2**20:.1f}"
        table.add_row(artifact.path.name, size, str(graphs[artifact.path.name]), used)
    Console().print(table)
