"""Short cuts for families of very many graphs: what is taken for the same, and what is still compared."""

from __future__ import annotations

import itertools
import struct

import pytest

from tests.unit.graph.modules import read
from xla_insight.analysis.recompiles.evidence import Explanation
from xla_insight.analysis.recompiles.history import Compile
from xla_insight.analysis.recompiles.repeats import Repeats
from xla_insight.analysis.tables import Place

EXPONENT = struct.pack("<f", 1.7)
"""As it stands in ``power``."""


def hlo(graph: str) -> bytes | None:
    """``power-1.9`` is ``power`` with another exponent; of others, what follows the dash only makes another name."""
    name, _, value = graph.partition("-")
    if name == "missing":
        return None
    content = read(f"{name}.hlo.pb")
    return content.replace(EXPONENT, struct.pack("<f", float(value))) if name == "power" and value else content


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
    for value_now in ("1.9", "2.1", "2.3"):
        found = repeats.explained(compiled(f"power-{value_now}"))
        assert found is not None and found[1].repeated and found[0] != f"power-{value_now}"
    for other in ("start", "extra", "weight", "base", "missing"):
        assert repeats.explained(compiled(other)) is None
    assert repeats.explained(compiled("longer-1")) is None, "the same bytes are not another value"


def test_two_causes_that_take_turns_are_both_known(repeats: Repeats) -> None:
    learn(repeats, Explanation("baked_value", group="step.py:17"), "longer", "power", "longer")
    learn(repeats, Explanation("input_shape", inputs=("input_ids",)), "longer", "base", "longer")
    found = [repeats.explained(compiled(name)) for name in ("base", "longer", "power-1.9", "power-2.1")]
    causes = [one[1].cause if one is not None else None for one in found]
    assert causes == ["input_shape", "input_shape", "baked_value", "baked_value"]


def test_branches_with_other_inputs_are_compared(repeats: Repeats) -> None:
    learn(repeats, Explanation("control_flow", group="a"), "longer", "extra", "longer")
    assert repeats.explained(compiled("base")) is None
