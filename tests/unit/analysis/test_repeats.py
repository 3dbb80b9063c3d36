"""Short cuts for families of very many graphs: what is taken for the same, and what is still compared."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.graph.modules import read
from xla_insight.analysis.recompiles.evidence import Explanation
from xla_insight.analysis.recompiles.history import Compile
from xla_insight.analysis.recompiles.repeats import Repeats
from xla_insight.analysis.tables import Place


def hlo(graph: str) -> bytes | None:
    return None if graph == "missing" else read(f"{graph.partition('-')[0]}.hlo.pb")


def compiled(graph: str) -> Compile:
    return Compile(0, 0, 0, 1, graph, "sync", "", Place(), (0, "sync", None, None))


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> Repeats:
    monkeypatch.setattr("xla_insight.analysis.recompiles.repeats.ENOUGH", 2)
    return Repeats(hlo)


def learn(repeats: Repeats, explanation: Explanation, *graphs: str) -> None:
    for before, now in itertools.pairwise(graphs):
        repeats.compared(compiled(now), explanation, before)


def test_branches_are_compared_less_often_the_more_were_alike(repeats: Repeats) -> None:
    branch = Explanation("control_flow", group="step.py:27", now="1 operation added")
    learn(repeats, branch, "longer", "extra")
    assert repeats.explained(compiled("longer-1")) is None, "one is not enough"
    compared = []
    learn(repeats, branch, "longer", "extra")
    for number in range(200):
        found = repeats.explained(compiled(f"longer-{number}"))
        if found is None:
            compared.append(number)
            learn(repeats, branch, "extra", f"longer-{number}")
        else:
            assert found[0].startswith(("extra", "longer")) and found[1].repeated and found[1].now == ""
    assert 8 < len(compared) < 16
    gaps = [later - earlier for earlier, later in itertools.pairwise(compared)]
    assert gaps == sorted(gaps)


def test_another_cause_or_place_begins_anew(repeats: Repeats) -> None:
    learn(repeats, Explanation("control_flow", group="a"), "longer", "extra", "longer")
    learn(repeats, Explanation("control_flow", group="b"), "longer", "extra")
    assert repeats.explained(compiled("longer-1")) is None
    learn(repeats, Explanation("first_graph"), "longer", "extra", "longer", "extra")
    assert repeats.explained(compiled("longer-1")) is None


def test_values_repeat_only_in_instructions_that_differed_before(repeats: Repeats) -> None:
    value = Explanation("baked_value", group="step.py:17", before="2", now="3")
    learn(repeats, value, "longer", "power", "longer")
    found = repeats.explained(compiled("power-1"))
    assert found is not None and found[0] == "longer" and found[1].repeated
    for other in ("start", "extra", "weight", "base", "missing"):
        assert repeats.explained(compiled(other)) is None
    assert repeats.explained(compiled("longer-1")) is None, "the same bytes are not another value"


def test_branches_with_other_inputs_are_compared(repeats: Repeats) -> None:
    learn(repeats, Explanation("control_flow", group="a"), "longer", "extra", "longer")
    assert repeats.explained(compiled("base")) is None
