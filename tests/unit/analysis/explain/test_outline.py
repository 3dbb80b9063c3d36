"""One graph as text: every instruction in a group, search narrows, bounds are stated."""

from __future__ import annotations

import pytest

from tests.unit.graph import modules
from xla_insight.analysis.explain import outline as module
from xla_insight.analysis.explain.outline import graph_sentences, outline
from xla_insight.graph.hlo_text import parse_hlo_text

GRAPH = modules.graph("longer")


def test_all_instructions_are_in_groups_of_one_line() -> None:
    found = outline(GRAPH)
    assert found.instructions == found.found == found.shown == len(GRAPH.instructions)
    numbers = [line.number for group in found.groups for line in group.lines]
    assert numbers == list(range(len(GRAPH.instructions)))
    assert all(a.site != b.site for a, b in zip(found.groups, found.groups[1:], strict=False))


@pytest.mark.parametrize(
    ("search", "texts"),
    [
        ("parameter S64[4,16]", ["s64[4,16] parameter(6)"]),
        ("step.py:23 device_data", ["s64[4,16] parameter(6)"]),
        ("nothing of this", []),
    ],
)
def test_search_needs_all_words(search: str, texts: list[str]) -> None:
    found = outline(GRAPH, search)
    assert [line.text for group in found.groups for line in group.lines] == texts
    assert (found.found, found.shown) == (len(texts), len(texts))


def test_bounds_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 20)
    found = outline(GRAPH)
    assert found.shown == 20 == sum(len(group.lines) for group in found.groups)
    assert found.found == len(GRAPH.instructions)
    monkeypatch.setattr(module, "MAX_GROUPS", 2)
    assert len(outline(GRAPH).groups) == 2


def test_what_a_graph_holds() -> None:
    assert graph_sentences(GRAPH)[0].startswith(f"{GRAPH.instruction_count} instructions in ")
    text = """HloModule m
ENTRY e {
  p = f32[8] parameter(0)
  c = f32[8] custom-call(p), custom_call_target="Sharding", sharding={replicated}
  g = f32[16] all-gather(c), dimensions={0}
  ROOT t = (f32[16]) tuple(g)
}
"""
    told = graph_sentences(parse_hlo_text(text))
    assert told[1:4] == [
        "collectives: 1 all-gather", "custom calls: 1 Sharding", "1 instruction with a sharding annotation"
    ]  # fmt: skip
