"""Lines at which the host ran Python: shares of looks, told with their error, and only where there are enough."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.analysis.conftest import MS, make_context
from xla_insight.analysis.findings import Context, all_findings
from xla_insight.analysis.host_lines import FEW_SAMPLES, LEAST_SAMPLES, _error, most_of_it
from xla_insight.analysis.tables import Place
from xla_insight.analysis.verdict import Evidence, verdict
from xla_insight.facts.report import RunFacts, Site

STEP = 100 * MS
PLACES = {
    site: Place(Site("/home/me/train.py", line, "main", ""), Site("/home/me/train.py", line, "main", ""))
    for site, line in ((1, 31), (2, 32), (3, 33))
}
PLACES[4] = PLACES[1]
"""Another stack with the same place."""


def context_of(steps: int, looks: dict[int, int], at_ns: int = 10 * MS) -> Context:
    """Steps that trace for 80 ms and sync for 20 ms, in which the device is busy; in step n the sites of ``looks`` are
    seen, each as often as it says."""
    from tests.unit.analysis.conftest import make_tables

    marks = [
        {"step": n, "start_ns": n * STEP, "end_ns": (n + 1) * STEP, "duration_ns": STEP, "source": "callback"}
        for n in range(steps)
    ]
    syncs = [
        {"step": n, "time_ns": n * STEP + 80 * MS, "duration_ns": 20 * MS, "thread": 0, "kind": "sync"}
        for n in range(steps)
    ]
    runs = [{"step": n, "time_ns": n * STEP + 81 * MS, "duration_ns": 19 * MS, "graph": "a"} for n in range(steps)]
    seen: list[dict[str, Any]] = []
    for site, count in looks.items():
        for each in range(count):
            step = 1 + each % (steps - 1)
            seen.append({"step": step, "time_ns": step * STEP + at_ns, "site": site})
    seen.sort(key=lambda row: row["time_ns"])
    tables = make_tables(places=PLACES, steps=marks, spans=syncs, executions=runs, samples=seen)
    return make_context(tables)


def test_lines_have_the_share_of_the_looks_and_of_the_time() -> None:
    found = context_of(31, {1: 30, 2: 60, 3: 1, 4: 10})
    steady = found.time.steady
    assert steady is not None
    first, second = found.time.host_lines
    assert (first.site.line, first.samples, second.site.line, second.samples) == (32, 60, 31, 40), "places, not stacks"
    assert first.share == pytest.approx(60 / 101) and first.spent_s == pytest.approx(60 / 101 * steady.host["trace"])
    assert 0.05 < first.error < 0.12
    assert most_of_it(found.time.host_lines) == ("~59 % of that at train.py:32 and ~40 % at train.py:31 (100 samples)")


def test_too_few_looks_say_nothing() -> None:
    few = LEAST_SAMPLES - 1
    assert context_of(31, {1: few // 3, 2: few // 3, 3: few // 3}).time.host_lines == (), "none stands out"
    assert context_of(31, {1: FEW_SAMPLES - 1}).time.host_lines == ()
    assert len(context_of(31, {1: few // 3, 2: few // 3, 3: few}).time.host_lines) == 3


def test_a_line_that_stands_out_is_told_from_few_looks() -> None:
    lines = context_of(31, {1: 14, 2: 2}).time.host_lines
    assert most_of_it(lines) == "~88 % of that at train.py:31 (14 samples)"


def test_looks_while_something_else_was_going_on_do_not_count() -> None:
    assert context_of(31, {1: 60}, at_ns=90 * MS).time.host_lines == (), "the thread was in the sync"


def test_the_finding_and_the_verdict_name_the_line() -> None:
    found = context_of(61, {1: 90, 2: 10})
    (bound,) = (finding for finding in all_findings(found) if finding.id == "trace_bound")
    assert "traces, ~90 % of that at train.py:31 (90 samples)." in bound.summary
    assert "a Python profiler" not in bound.advice
    facts = RunFacts("x", "x", 1, 1, "light", {}, (), None, "ended", False)
    said = verdict(Evidence(facts, found.steps, found.graphs, (), (), found.time))
    assert said.bound in ("trace", "nothing")


def test_a_long_gap_names_the_line_that_was_seen_in_it() -> None:
    gaps = context_of(31, {1: 90}).time.worst_gaps
    told = [gap for gap in gaps if "samples found the training thread" in gap.summary]
    assert told and all(gap.site == PLACES[1].site and "3 of 3 samples" in gap.summary for gap in told)


@given(st.integers(0, 500), st.integers(1, 500))
def test_the_error_is_that_of_a_share(count: int, more: int) -> None:
    assert 0 < _error(count, count + more) < 0.5
