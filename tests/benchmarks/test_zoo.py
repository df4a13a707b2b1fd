"""The page of the zoo's speed, and which architectures a run measures again."""

from __future__ import annotations

from benchmarks import zoo

LINES = {
    "BertModel": {"eager_ms": 2.0, "max_ms": 1.0, "machine": "m"},
    "ViTModel": {"eager_ms": 0.9, "max_ms": 1.0, "machine": "m"},
    "LostModel": {"failure": "ValueError: no\nmore", "machine": "m"},
}


def test_the_slowest_come_first() -> None:
    assert list(zoo.ratios(LINES)) == ["ViTModel", "BertModel"]


def test_the_page_names_those_that_are_slower_and_those_that_failed() -> None:
    page = zoo.page(LINES)
    assert "1 slower than eager PyTorch: ViTModel." in page
    assert "| ViTModel | 0.900 | 1.000 | 0.90 |" in page
    assert "| LostModel | failed: ValueError: no | | |" in page
    assert f"2 of {len(zoo.ARCHITECTURES)} architectures" in page


def test_only_what_changed_is_measured_again() -> None:
    chosen = [a for a in zoo.ARCHITECTURES if a.model in ("BertForMaskedLM", "GPT2LMHeadModel")]
    about = {"sources": "now"}
    done = {chosen[0].model: {"sources": "now"}, chosen[1].model: {"sources": "before"}}
    assert zoo.waiting(chosen, done, about) == [chosen[1]]
    assert zoo.waiting(chosen, {}, about) == chosen
