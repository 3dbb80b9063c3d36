"""Each compile has one cause, counts add up, and severity follows reuse and cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xla_insight.analysis.recompiles import GraphLibrary, explained_compiles
from xla_insight.analysis.recompiles.entries import Totals, recompile_entries
from xla_insight.analysis.recompiles.history import Family
from xla_insight.analysis.tables import Place, Process, RunTables
from xla_insight.facts.report import Recompile, Severity, Site

MS = 1_000_000
Make = Callable[..., RunTables]
At = Callable[..., Place]


def compiled(graph: str | None, time_ms: int, **more: Any) -> dict[str, Any]:
    row = {"graph": graph, "time_ns": time_ms * MS, "duration_ns": 5 * MS, "trigger": "sync", "sentence": "", "site": 1}
    return {**row, "step": time_ms, "cut_ns": time_ms * MS, **more}


def executed(*graphs: str) -> list[dict[str, Any]]:
    return [{"graph": graph, "time_ns": n, "duration_ns": 1, "outcome": "hit"} for n, graph in enumerate(graphs)]


def entries(tables: RunTables, total: int | None = None, wall_s: float | None = None) -> tuple[Recompile, ...]:
    history, explained = explained_compiles(tables, GraphLibrary(tables.hlo))
    return recompile_entries(
        explained, history, tables, Totals(len(history.compiles) if total is None else total, wall_s)
    )


def by_cause(found: tuple[Recompile, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in found:
        counts[entry.cause] = counts.get(entry.cause, 0) + entry.count
    return counts


def test_the_first_graph_of_a_place_is_expected(tables: Make, at_line: At) -> None:
    (entry,) = entries(tables(places={1: at_line(14)}, compiles=[compiled("a", 0)], executions=executed("a", "a")))
    assert (entry.cause, entry.expected, entry.severity) == ("first_graph", True, Severity.INFO)
    assert entry.site is not None and entry.site.line == 14
    assert "train.py:14" in entry.summary


def test_what_began_late_does_not_call_its_first_compile_the_first(tables: Make, at_line: At) -> None:
    late = Process(0, 0, 0, 10**10, facts={"capabilities": {"phase": "after_first_graph"}})
    made = tables(processes=(late,), places={1: at_line(14)}, compiles=[compiled("a", 0)], executions=executed("a"))
    (entry,) = entries(made)
    assert entry.summary.startswith("First graph recorded at ") and "compiled once" not in entry.summary
    assert "Other graphs had run before the recording began" in entry.summary


def test_each_place_has_a_first_graph(tables: Make, at_line: At) -> None:
    made = tables(
        places={1: at_line(14), 2: at_line(30)},
        compiles=[compiled("a", 0), compiled("b", 1, site=2)],
    )
    assert by_cause(entries(made)) == {"first_graph": 2}


def test_one_line_called_from_two_places_is_two_families(tables: Make) -> None:
    site = Site("/home/me/train.py", 5, "step", "")
    frame = ("/home/me/train.py", 5, "step")
    places = {n: Place(site, site, (frame, ("/home/me/train.py", 10 * n, "<module>"))) for n in (1, 2)}
    made = tables(places=places, compiles=[compiled("a", 0), compiled("b", 1, site=2)])
    (entry,) = entries(made)
    assert (entry.cause, entry.count) == ("first_graph", 2)


def test_a_second_graph_says_what_is_known(tables: Make, at_line: At) -> None:
    made = tables(
        places={1: at_line(18)},
        compiles=[compiled(name, n) for n, name in enumerate("abcde")],
        graphs=[{"graph": name, "inputs": 6, "outputs": 2} for name in "abcd"]
        + [{"graph": "e", "inputs": 7, "outputs": 2}],
        executions=executed(*"abcde"),
    )
    found = entries(made)
    assert by_cause(found) == {"unknown": 4, "first_graph": 1}
    unknown = found[0]
    assert unknown.severity is Severity.WARNING and not unknown.expected
    assert unknown.summary == (
        "4 more graphs compiled at train.py:18 after the first; now 7 inputs, before 6 (it changed in 1 of 4) and"
        " as many outputs as the graph before."
    )
    assert unknown.steps == (1, 2, 3, 4) and unknown.graphs == ("b", "c", "d", "e")


@pytest.mark.parametrize(
    ("runs", "severity"),
    [
        ("aabb", Severity.INFO),  # few variants, reused
        ("abbb", Severity.INFO),  # a start-up variant, then one that stays
        ("aab", Severity.WARNING),  # the new variant is not reused
        ("aabbccddeeff", Severity.WARNING),  # reused, and too many
    ],
)
def test_severity_follows_reuse(tables: Make, at_line: At, runs: str, severity: Severity) -> None:
    names = sorted(set(runs))
    made = tables(
        places={1: at_line(18)},
        compiles=[compiled(name, n) for n, name in enumerate(names)],
        executions=executed(*runs),
    )
    assert {e.severity for e in entries(made) if e.cause == "unknown"} == {severity}


def test_repeated_compiles_that_take_most_of_the_time_are_critical(tables: Make, at_line: At) -> None:
    made = tables(places={1: at_line(1)}, compiles=[compiled(str(n), n) for n in range(6)], executions=executed())
    assert entries(made, wall_s=0.050)[0].severity is Severity.CRITICAL
    assert entries(made, wall_s=50.0)[0].severity is Severity.WARNING


def test_a_graph_compiled_again_was_evicted(tables: Make, at_line: At) -> None:
    compiles = [compiled("a", 0), compiled("b", 1), compiled("a", 2)]
    made = tables(places={1: at_line(1)}, compiles=compiles, executions=executed("a", "b"))
    assert by_cause(entries(made)) == {"first_graph": 1, "unknown": 1, "evicted": 1}


def test_a_graph_whose_compile_failed_and_was_tried_again_was_not_evicted(tables: Make, at_line: At) -> None:
    made = tables(places={1: at_line(1)}, compiles=[compiled("a", 0), compiled("a", 1)])
    assert by_cause(entries(made)) == {"first_graph": 1, "unknown": 1}


def test_the_same_graph_in_another_process_was_not_evicted(tables: Make, at_line: At) -> None:
    made = tables(
        processes=(Process(0, 0, 0, 1), Process(1, 1, 0, 1)),
        places={1: at_line(1)},
        compiles=[compiled("a", 0), compiled("a", 0, process=1)],
    )
    assert by_cause(entries(made)) == {"first_graph": 2}


def test_three_reads_in_one_line_are_three_first_graphs(tables: Make, at_line: At) -> None:
    reads = [
        {"time_ns": n * MS, "trigger": "read", "executions": 1, "site": 1, "step": 0, "duration_ns": MS}
        for n in (1, 2, 3)
    ]
    sync = {"time_ns": 9 * MS, "trigger": "sync", "executions": 1, "site": 2, "step": 0, "duration_ns": MS}
    made = tables(
        places={1: at_line(12), 2: at_line(20)},
        syncs=[*reads, sync],
        compiles=[compiled(f"r{n}", n, trigger="read") for n in (1, 2, 3)],
    )
    assert by_cause(entries(made)) == {"first_graph": 3}


def test_without_any_sync_reads_stay_one_family(tables: Make, at_line: At) -> None:
    reads = [{"time_ns": n * MS, "trigger": "read", "executions": 1, "site": 1, "duration_ns": MS} for n in (1, 2, 3)]
    made = tables(
        places={1: at_line(12)}, syncs=reads, compiles=[compiled(f"r{n}", n, trigger="read") for n in (1, 2, 3)]
    )
    assert by_cause(entries(made)) == {"first_graph": 1, "unknown": 2}


def test_a_compile_inside_a_backward_pass_takes_its_line(tables: Make, at_line: At) -> None:
    made = tables(
        places={7: at_line(15)},
        syncs=[{"time_ns": 3 * MS, "trigger": "autograd", "executions": 1, "site": 7, "duration_ns": MS}],
        compiles=[compiled(None, 3, trigger="autograd", site=None)],
    )
    (entry,) = entries(made)
    assert entry.cause == "first_graph" and entry.site is not None and entry.site.line == 15


def test_counted_compiles_without_an_event_are_an_entry_of_their_own(tables: Make, at_line: At) -> None:
    found = entries(tables(places={1: at_line(1)}, compiles=[compiled("a", 0)]), total=4)
    assert sum(entry.count for entry in found) == 4
    assert by_cause(found) == {"first_graph": 1, "unknown": 3}


def test_what_is_cut_before_the_first_step_is_no_relative_of_it(tables: Make, at_line: At) -> None:
    made = tables(
        places={1: at_line(5)},
        compiles=[compiled(name, n) for n, name in enumerate("abc")],
        graphs=[
            {"graph": "a", "inputs": 1, "outputs": 2},
            {"graph": "b", "inputs": 49, "outputs": 70},
            {"graph": "c", "inputs": 80, "outputs": 90},
        ],
        executions=executed(*"abccccc"),
    )
    found = entries(made)
    assert by_cause(found) == {"first_graph": 2, "unknown": 1}
    assert {entry.severity for entry in found} == {Severity.INFO}


def test_generated_code_does_not_tell_places_apart(tables: Make) -> None:
    site = Site("/home/me/train.py", 11, "<module>", "")
    frame = ("/home/me/train.py", 11, "<module>")
    places = {n: Place(site, site, ((f"<eval_with_key>.{n}", 5, "forward"), frame)) for n in (1, 2)}
    made = tables(places=places, compiles=[compiled("a", 0), compiled("b", 1, site=2)])
    assert by_cause(entries(made)) == {"first_graph": 1, "unknown": 1}


def test_single_operations_are_never_compared(tables: Make, at_line: At) -> None:
    rows = [compiled(None, n, trigger=trigger) for n, trigger in enumerate(["eager", "eager", "autograd", "autograd"])]
    (entry,) = entries(tables(places={1: at_line(9)}, compiles=rows))
    assert (entry.cause, entry.count, entry.severity) == ("first_graph", 4, Severity.INFO)
    assert "eager mode" in entry.summary


def test_a_compile_of_unknown_place_is_not_called_expected(tables: Make) -> None:
    (entry,) = entries(tables(compiles=[compiled("a", 0, site=None)]))
    assert entry.cause == "unknown" and "not recorded" in entry.summary


@pytest.mark.parametrize(
    ("executions", "bounded", "by_size"),
    [
        ([1, 5, 4], True, True),
        ([1, 1, 1, 5, 4, 4], False, True),  # tables were made in the first batch of each of three sizes
        ([1, 1, 1, 5, 4], False, False),
        ([3, 1, 3], False, False),
        ([1], False, False),
        ([2, 2, 2, 2, 2], False, False),
    ],
)
def test_few_variants_that_are_used_again_are_a_price_paid_once(
    executions: list[int], bounded: bool, by_size: bool
) -> None:
    family = Family([f"{n}" for n in range(len(executions))], executions)
    assert family.bounded_and_reused() is bounded
    assert family.bounded_and_reused(each_starts=True) is by_size
