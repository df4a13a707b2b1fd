"""Time divided among spans that overlap."""

from __future__ import annotations

import random

from torch_max_backend.tools.profiler.timeline import covered, shares


def test_spans_apart_count_in_full() -> None:
    assert shares([(0, 10), (20, 25)]) == [10, 5]
    assert covered([(0, 10), (20, 25)]) == 15


def test_an_inner_span_shares_its_time() -> None:
    assert shares([(0, 10), (2, 6)]) == [8, 2]
    assert covered([(0, 10), (2, 6)]) == 10


def test_partly_overlapping_spans_share_the_overlap() -> None:
    assert shares([(0, 10), (5, 15), (20, 21)]) == [7.5, 7.5, 1]


def test_nothing_is_nothing() -> None:
    assert shares([]) == [] and covered([]) == 0
    assert shares([(5, 5)]) == [0] and covered([(5, 5)]) == 0


def test_the_sum_is_the_covered_time() -> None:
    numbers = random.Random(0)
    for _ in range(200):
        spans = []
        for _ in range(numbers.randrange(1, 30)):
            begin = numbers.randrange(100)
            spans.append((begin, begin + numbers.randrange(40)))
        found = shares(spans)
        assert abs(sum(found) - covered(spans)) < 1e-9
        for part, (begin, end) in zip(found, spans, strict=True):
            assert -1e-9 <= part <= end - begin + 1e-9
        ticks = {tick for begin, end in spans for tick in range(begin, end)}
        assert covered(spans) == len(ticks)
