"""One graph as text: every instruction in a group, search narrows, bounds are stated."""

from __future__ import annotations

import pytest

from tests.unit.graph import modules
from xla_insight.analysis.explain import outline as module
from xla_insight.analysis.explain.outline import outline

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
