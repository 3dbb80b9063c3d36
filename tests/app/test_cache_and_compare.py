"""Pages Cache and Compare: the sentence first, numbers with units, and texts of runs shown as texts."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from xla_insight_app.address import Address
from xla_insight_app.data import Library
from xla_insight_app.pages import cache, compare
from xla_insight_app.server import create_app

from tests.app.test_pages import text_of
from tests.synthetic import build_run, graph_hash
from xla_insight.analysis.cache.use import cache_use
from xla_insight.analysis.tables import load_tables
from xla_insight.errors import RunNotFoundError
from xla_insight.facts.cache import CacheExplanation, CacheUse, HitRate, MemoryCache, Miss, MissReason
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_cache import hit_rate_curve
from xla_insight.report.figures_colours import Scheme


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Runs `a` (earlier in the listing) and `b` (hostile, recompiles), and a cache folder with one graph of `b`."""
    build_run(tmp_path / "runs" / "a", steps=30, pattern="A")
    build_run(tmp_path / "runs" / "b", steps=30, pattern="A" * 6 + "B" * 6 + "C", hostile=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / str(int(graph_hash("B"), 16))).write_bytes(b"\x0a\x01x")
    return Library(tmp_path / "runs", caches=[str(tmp_path / "cache")])


def use_of(library: Library, run: str) -> CacheUse:
    use: CacheUse = library.derived("cache use", [run], lambda runs: cache_use(load_tables(runs[0])))
    return use


def test_cache_leads_with_a_sentence(library: Library) -> None:
    head = cache.head(use_of(library, "b"))
    assert (
        text_of(head[0]).replace("\u00a0", " ")
        == "No persistent cache was used: 4 compiles (1.2 s) come back with every start."
    )
    text = text_of(head)
    assert "found in memory 56" in text
    assert "loaded from disk n/a no cache on disk" in text
    assert "dropped from memory 0" in text


def test_a_cache_folder_says_what_a_warm_start_saves(library: Library) -> None:
    text = text_of(cache.folder(library, library.caches[0], "b")).replace("\u00a0", " ")
    assert "Of 4 graphs that this run compiled, 1 is in this cache: a warm start saves 300 ms" in text
    assert "1 entry, 3 B, last written" in text and "(torch_xla)" in text
    assert "no cache used" in text


def test_a_cache_folder_that_is_gone_is_a_sentence(library: Library, tmp_path: Path) -> None:
    assert "is not there" in text_of(cache.folder(library, str(tmp_path / "none"), "b"))
    assert "--cache" in text_of(cache.how_to_show(library))


def test_the_curve_is_drawn_in_both_schemes() -> None:
    rates = tuple(HitRate(size, 10 * size, 100 - 10 * size, 50) for size in range(1, 9))
    memory = MemoryCache(100, 8, rates, 8, 4, 60)
    for scheme in Scheme:
        figure = hit_rate_curve(memory, Canvas(1000, scheme))
        assert list(figure.data[0].y) == [10 * size for size in range(1, 9)]
        assert {note.text for note in figure.layout.annotations} == {"enough: 8", "this run: 4"}
        assert figure.layout.xaxis.dtick == 1 and tuple(figure.layout.xaxis.range) == (0.5, 8.5)
    assert hit_rate_curve(memory, Canvas(300)).layout.xaxis.dtick == 2, "whole numbers, as many as fit"
    nothing = hit_rate_curve(MemoryCache(0, 0, (), 1, None, 0), Canvas(400))
    json.dumps(nothing.to_plotly_json(), default=str)


def test_compare_leads_with_the_verdict(library: Library) -> None:
    head, content = compare.page(library, "a", "b")
    assert "2 times as long as before" in text_of(head).replace("\u00a0", " ")
    text = text_of(content)
    assert "compiles 0 2" in text and "compiles after warm-up" not in text, "the heading says so"
    assert "2 graphs the same." in text
    assert "appeared" in text and "<script>" in text, "names of runs are text"
    assert "Environment" in text and "command" in text


def test_compare_of_equal_runs_and_of_one(library: Library) -> None:
    head, content = compare.page(library, "a", "a")
    assert "the same run, so there is nothing to compare" in text_of(head).replace("\u00a0", " ")
    assert "the same in both runs" in text_of(content)
    assert "no other run" in text_of(compare.nothing_to_compare()[0])


def test_which_run_is_compared(library: Library) -> None:
    assert compare.others(library, "a") == ["b"] and compare.others(library, "b") == ["a"]
    assert compare.against("?against=b", ["a", "b"]) == "b"
    assert compare.against("?against=../../etc", ["a"]) == "a"
    assert compare.against(None, []) is None
    assert Address.parse("?against=x").search == "?against=x"
    assert Address(run="a", against="x").of_other_run("x").against is None
    assert Address(run="a", against="x").of_other_run("b").against == "x"


def test_a_run_that_cannot_be_opened_is_not_compared_with_unasked(library: Library, tmp_path: Path) -> None:
    for name in ("newest", "broken", "older"):
        build_run(tmp_path / name, steps=3)
    facts = tmp_path / "broken" / "run.json"
    facts.write_text(facts.read_text().replace('"schema": 1', '"schema": 99'))
    here = Library(tmp_path)
    can_open = partial(compare.opens, here)
    assert compare.against(None, ["broken", "older"], can_open) == "older"
    assert compare.against("?against=broken", ["older", "broken"], can_open) == "broken", "asked for: the page says why"
    assert compare.against(None, ["broken"], can_open) == "broken"


def test_a_run_that_cannot_be_compared_with_is_named(library: Library) -> None:
    assert compare.instead_of(None, "a") == [] and compare.instead_of("a", "a") == []
    assert "Run torn is not there or cannot be read; a is shown" in text_of(compare.instead_of("torn", "a"))


def test_many_reasons_are_cut_and_counted() -> None:
    many = tuple(Miss(f"{n:032x}", MissReason.OTHER_GRAPH, f"At line {n}.", 1.0, False) for n in range(30))
    found = CacheExplanation("run", "cache", 0, many, 30, 0, 0.0, 30, 30.0, "None.")
    text = text_of(cache.misses(found))
    assert "At line 19." in text and "At line 20." not in text and "10 graphs more for other reasons" in text


def test_results_are_kept_until_a_run_changes(library: Library) -> None:
    calls: list[int] = []

    def count(runs: list[Any]) -> int:
        calls.append(len(runs))
        return len(calls)

    assert [library.derived("count", ["a", "b"], count) for _ in range(3)] == [1, 1, 1]
    os.utime(library.entry("a").path / "run.json", (time.time() - 5, time.time() - 5))
    assert library.derived("count", ["a", "b"], count) == 2
    with pytest.raises(RunNotFoundError):
        library.derived("count", ["../a"], count)


def test_the_pages_answer(library: Library) -> None:
    client = create_app(library.folder, library=library).server.test_client()
    for path in ("/cache", "/compare"):
        assert client.get(path, headers={"Host": "localhost"}).status_code == 200


def test_more_than_two_runs_have_a_trend(library: Library) -> None:
    assert compare.trend_of(library, "b") is None, "two runs are compared, not a trend"
    for number in range(1, 10):
        build_run(library.folder / f"c{number}", steps=9, pattern="AB" if number == 9 else "A")
    names = [entry.id for entry in library.entries()]
    section = compare.trend_of(library, names[0])
    text = text_of(section)
    assert f"Trend over {compare.TREND_RUNS} runs" in text
    assert [f"c{number}" in text for number in range(1, 10)] == [False, *[True] * compare.TREND_RUNS]
    assert "against first" in text and "compile time" in text
    assert compare.trend_of(library, names[-2]) is None
    assert compare.trend_of(library, "not there") is None
