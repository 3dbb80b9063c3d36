"""What a step or the beginning of a hash means, and the one line for what means nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.report.test_text_report import REPORT
from xla_insight.analysis.explain.targets import find_graph, find_targets, matching_graphs
from xla_insight.errors import UsageError
from xla_insight.facts.report import Member, Report, StepFacts

GRAPHS = ("41c0ffee", "41c0aaaa", "beef0000", "hlo-00112233445566aa")


def report_of(*members: Member) -> Report:
    entry = REPORT.recompiles[1]
    return replace(REPORT, recompiles=(replace(entry, members=members),))


REAL = report_of(
    Member(GRAPHS[0], 3, 0, 0.5, None),
    Member(GRAPHS[1], 41, 0, 0.5, GRAPHS[0]),
    Member(GRAPHS[2], 41, 0, 0.5, GRAPHS[1]),
    Member(GRAPHS[3], None, 0, None, None),
    Member(None, 7, 0, 0.5, None),
)


@pytest.mark.parametrize(
    ("wanted", "graphs"),
    [
        ("3", [GRAPHS[0]]),
        ("41", [GRAPHS[1], GRAPHS[2]]),
        ("7", [None]),
        ("41c0f", [GRAPHS[0]]),
        ("41C0AAAA", [GRAPHS[1]]),
        ("0xbeef", [GRAPHS[2]]),
        ("hlo-0011", [GRAPHS[3]]),
        ("  be ", [GRAPHS[2]]),
    ],
)
def test_a_step_or_a_hash(wanted: str, graphs: list[str | None]) -> None:
    assert [target.member.graph for target in find_targets(REAL, wanted)] == graphs


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("41c0", r"2 graphs begin with '41c0' \(41c0aaaa, 41c0ffee\); give more digits"),
        ("5", "nothing was compiled in step 5; steps that compiled: 3, 7, 41"),
        ("zzz", "no compiled graph begins with 'zzz'; there are 41c0aaaa"),
        ("", "no compiled graph begins with ''"),
        ("ab", "graph ab ran but was not compiled"),
    ],
)
def test_what_fits_nothing_says_what_there_is(wanted: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as error:
        find_targets(REAL, wanted, others=("ab",))
    assert "\n" not in str(error.value)


def test_a_step_of_the_run_is_no_beginning_of_a_hash() -> None:
    report = report_of(Member("5c40", 3, 0, 0.1, None))
    short = replace(report, steps=StepFacts(4))
    assert [target.member.graph for target in find_targets(short, "5")] == ["5c40"], "it has no such step"
    with pytest.raises(UsageError, match="nothing was compiled in step 5; steps that compiled: 3"):
        find_targets(replace(report, steps=StepFacts(40)), "5")


def test_a_run_without_compiles() -> None:
    with pytest.raises(UsageError, match="nothing was compiled in this run"):
        find_targets(report_of(), "3")


def test_many_are_not_all_listed() -> None:
    report = report_of(*(Member(f"{number:08x}", number, 0, 0.1, None) for number in range(2_000)))
    with pytest.raises(UsageError, match=r"0, 1, 2, 3, 4, 5, 6, 7 and 1.992 more") as error:
        find_targets(report, "5000")
    assert len(str(error.value)) < 300


def test_a_graph_to_compare_with() -> None:
    assert find_graph(GRAPHS, "bee") == GRAPHS[2]
    for wanted, kept, sentence in (
        ("bee", (), "the HLO of no graph was kept"), ("41", GRAPHS, "2 graphs begin"),
        ("9", GRAPHS, "was kept begins with '9'"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=sentence):
            find_graph(kept, wanted)


def test_a_whole_hash_wins_over_longer_ones() -> None:
    assert matching_graphs(("ab", "abc"), "ab") == ["ab"]
