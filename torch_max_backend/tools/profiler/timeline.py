"""How the time of a run divides among what happened in it."""

from __future__ import annotations

from collections.abc import Sequence

Span = tuple[int, int]


def shares(spans: Sequence[Span]) -> list[float]:
    """The time of each span; where several overlap, each gets an equal part.

    Kernels overlap when MAX runs independent ones on several threads, and when a thread that waits
    for the tasks of one kernel starts another one. The sum is the time in which there was any.
    """
    edges = sorted({edge for span in spans for edge in span})
    position = {edge: index for index, edge in enumerate(edges)}
    active = [0] * (len(edges) + 1)
    for begin, end in spans:
        active[position[begin]] += 1
        active[position[end]] -= 1
    passed = [0.0] * (len(edges) + 1)  # up to each edge, by a span that was there all the time
    count = 0
    for index in range(len(edges) - 1):
        count += active[index]
        part = (edges[index + 1] - edges[index]) / count if count else 0.0
        passed[index + 1] = passed[index] + part
    return [passed[position[end]] - passed[position[begin]] for begin, end in spans]


def covered(spans: Sequence[Span]) -> int:
    """The time in which there was at least one of the spans."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        if reached is None or begin > reached:
            total += end - begin
            reached = end
        elif end > reached:
            total += end - reached
            reached = end
    return total
