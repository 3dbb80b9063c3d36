"""The nearest relative: fewest differing inputs, then operations, then exact instructions; bounded in size."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.graph import modules
from xla_insight.graph import nearest
from xla_insight.graph.model import Graph
from xla_insight.graph.nearest import RelativeIndex, Signature, signature


def relatives(*names: str) -> list[Graph]:
    return [modules.graph(name) for name in names]


def test_the_nearest_is_of_the_same_structure() -> None:
    found = nearest.nearest(relatives("first", "base", "extra"), modules.graph("longer"))
    assert found is not None
    assert (found.key, found.inputs_differ, found.operations_differ) == (1, 0, 0)
    assert found.exact_differ > 0 and found.similarity == 1.0


def test_among_equal_structures_the_fewest_sizes_and_values_differ() -> None:
    found = nearest.nearest(relatives("base", "power", "longer", "first"), modules.graph("start"))
    assert found is not None and found.key == 2


def test_the_latest_wins_a_tie() -> None:
    found = nearest.nearest(relatives("base", "base", "base"), modules.graph("base"))
    assert found is not None and (found.key, found.exact_differ) == (2, 0)


def test_text_without_lines_is_compared_by_operations() -> None:
    bare = replace(
        modules.graph("base"),
        computations=tuple(
            replace(c, instructions=tuple(i._replace(metadata=i.metadata._replace(stack=())) for i in c.instructions))
            for c in modules.graph("base").computations
        ),
    )
    found = nearest.nearest([bare], modules.graph("base"))
    assert found is not None and found.operations_differ == 0 and found.similarity == 1.0


def test_nothing_is_no_relative() -> None:
    assert nearest.nearest([], modules.graph("base")) is None
    found = nearest.nearest(relatives("optimized"), modules.graph("base"))
    assert found is not None and found.similarity < 0.5


def test_the_index_is_bounded() -> None:
    index = RelativeIndex()
    known = signature(modules.graph("base"))
    for number in range(3 * nearest.MAX_STRUCTURES):
        index.add(number, replace(known, structure=number))
        index.add(-number, replace(known, structure=0))
    assert sum(map(len, index._structures.values())) <= nearest.MAX_STRUCTURES + nearest.MAX_MEMBERS
    found = index.nearest(replace(known, structure=-1))
    assert found is not None and found.key == -(3 * nearest.MAX_STRUCTURES - 1)


def changed(known: Signature, inputs: int, places: int) -> Signature:
    """A signature of another structure in which so many inputs and places of operations more are counted."""
    more = {}
    for name, number in (("inputs", inputs), ("lines", places)):
        counts = getattr(known, name).copy()
        counts[7] += number
        more[name] = counts
    return replace(known, structure=known.structure + inputs + 1000 * places, **more)


def test_fewer_inputs_win_unless_another_is_clearly_closer_in_where_its_operations_come_from() -> None:
    """The graph of the first step, without the optimizer's state, may have nearly the inputs of one without a block."""
    known = signature(modules.graph("base"))
    for places, expected in ((128, "branch"), (60, "stateless")):
        index = RelativeIndex()
        index.add("stateless", changed(known, 3, places))
        index.add("branch", changed(known, 4, 50))
        found = index.nearest(known)
        assert found is not None and found.key == expected
