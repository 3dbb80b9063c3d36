"""Run against run: faster or slower and by what, or no difference that is more than noise.

Owns the verdict over what the modules beside it find: step time (``step_time``), graphs (``graph_pairs``), causes
(``causes``) and the environment. Leaves the report of each run to ``analyze`` and every output format to ``report``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from xla_insight.analysis import analyze
from xla_insight.analysis.compare.causes import cause_changes
from xla_insight.analysis.compare.graph_pairs import graph_changes
from xla_insight.analysis.compare.judgement import Changes, judge, the_same_run
from xla_insight.analysis.compare.step_time import SteadySteps, compare_step_time, steady_steps
from xla_insight.analysis.environment import Setting, environment_differences
from xla_insight.analysis.step_table import build_step_table
from xla_insight.analysis.tables import Process, RunTables, load_tables
from xla_insight.facts.comparison import ComparedRun, Comparison, Figure, Judgement, StatePart, Trend, TrendRow
from xla_insight.facts.report import HostState, Report

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

__all__ = ["Side", "compare_runs", "compare_sides", "load_side", "trend"]


@dataclass(frozen=True)
class Side:
    """One run, read once."""

    run: Run
    tables: RunTables
    report: Report
    process: Process | None
    steps: SteadySteps

    @property
    def compared(self) -> ComparedRun:
        """Which run this is."""
        facts = self.report.run
        return ComparedRun(facts.id, facts.path, facts.state, self.report.steps.count, facts.started_unix_s)

    @property
    def setting(self) -> Setting:
        """What it was started with."""
        return Setting(self.process, self.report.run.ranks, self.report.run.command)


def load_side(run: Run, tables: RunTables | None = None, report: Report | None = None) -> Side:
    """What a comparison needs of an open run; its ``tables`` and its ``report`` are made when they are not given."""
    tables = load_tables(run) if tables is None else tables
    report = analyze(run, tables) if report is None else report
    main = tables.main_process()
    return Side(run, tables, report, main, steady_steps(_own_steps(tables, main)))


def compare_runs(before: Run, now: Run) -> Comparison:
    """Everything that can be said about two open runs."""
    return compare_sides(load_side(before), load_side(now))


def compare_sides(before: Side, now: Side) -> Comparison:
    """As `compare_runs`, for runs already read."""
    step_time = compare_step_time(before.steps, now.steps)
    changes = graph_changes(before.run, now.run, now.tables)
    causes = cause_changes(before.report, now.report)
    verdict = judge(step_time, before.steps, now.steps, Changes(changes, causes))
    return Comparison(
        before=before.compared,
        now=now.compared,
        verdict=the_same_run(before.compared, now.compared) or verdict,
        step_time=step_time,
        states=_states(before, now),
        graphs=changes,
        causes=causes,
        environment=environment_differences(before.setting, now.setting),
        figures=_figures(before, now),
        notes=_notes(before, now),
    )


def trend(runs: Sequence[Run]) -> Trend:
    """Several open runs in the order given, each against the first and against the one before."""
    sides = [load_side(run) for run in runs]
    rows = []
    for number, side in enumerate(sides):
        earlier = sides[number - 1] if number else None
        rows.append(
            TrendRow(
                run=side.compared,
                figures=_figures(earlier or side, side),
                step_ms=side.steps.mean_ms,
                against_first=_judged(sides[0], side) if number else None,
                against_previous=_judged(earlier, side) if earlier is not None else None,
            )
        )
    return Trend(tuple(rows))


def _judged(before: Side, now: Side) -> Judgement:
    same = the_same_run(before.compared, now.compared)
    return same or judge(compare_step_time(before.steps, now.steps), before.steps, now.steps)


def _own_steps(tables: RunTables, main: Process | None) -> pd.DataFrame:
    """The step table of the process that speaks for the run, over all the parts it recorded one after the other."""
    table = build_step_table(tables)
    parts = [] if main is None else [part.index for part in tables.parts_of(main)]
    return table[table["process"].isin(parts)].sort_values(["start_ns"], ignore_index=True)


def _states(before: Side, now: Side) -> tuple[StatePart, ...]:
    """Time of a step by host state, largest change first; states that neither run knows are left out."""
    parts = []
    for state in HostState:
        old, new = _state_ms(before, state), _state_ms(now, state)
        if old or new:
            parts.append(StatePart(state, old, new, _idle_ms(before, state), _idle_ms(now, state)))
    return tuple(sorted(parts, key=lambda part: -abs((part.now_ms or 0.0) - (part.before_ms or 0.0))))


def _state_ms(side: Side, state: HostState) -> float | None:
    """Time of a step in one host state; None when there is no step after the warm-up."""
    table = side.steps.table
    return float(table[f"host_{state}_ns"].mean()) / 1e6 if len(table) else None


def _idle_ms(side: Side, state: HostState) -> float | None:
    """Device idle of a step during one host state; None when the device was not observed."""
    known = side.steps.table[f"idle_{state}_ns"].dropna()
    return float(known.mean()) / 1e6 if len(known) else None


def _figures(before: Side, now: Side) -> tuple[Figure, ...]:
    one, two, old, new = before.report, now.report, before.steps, now.steps
    steady: tuple[tuple[str, str, float | None, float | None], ...] = (
        ("steps after warm-up", "count", len(old), len(new)),
        ("step, mean after warm-up", "ms", old.mean_ms, new.mean_ms),
        ("step, median after warm-up", "ms", old.median_ms, new.median_ms),
        ("compiles after warm-up", "count", old.compiles, new.compiles),
        ("value reads per step", "number", _reads(before), _reads(now)),
    )
    whole: tuple[tuple[str, str, float | None, float | None], ...] = (
        ("steps", "count", one.steps.count, two.steps.count),
        ("step, median", "ms", one.steps.median_ms, two.steps.median_ms),
        ("distinct graphs", "count", one.graphs.distinct, two.graphs.distinct),
        ("compiles", "count", one.graphs.compiles, two.graphs.compiles),
        ("compile time", "s", one.graphs.compile_s, two.graphs.compile_s),
        ("device busy", "percent", _busy_pct(one), _busy_pct(two)),
        ("overlap", "percent", one.time.overlap_pct, two.time.overlap_pct),
    )
    return (*(Figure(*row, "steady") for row in steady), *(Figure(*row, "run") for row in whole))


def _reads(side: Side) -> float | None:
    table = side.steps.table
    return float(table["reads"].mean()) if len(table) else None


def _busy_pct(report: Report) -> float | None:
    busy, wall = report.time.device_busy_s, report.time.wall_s
    return None if busy is None or not wall else 100 * busy / wall


def _notes(before: Side, now: Side) -> tuple[str, ...]:
    notes = []
    for which, side in (("first", before), ("second", now)):
        state, data = side.report.run.state, side.report.data
        if state == "recording":
            notes.append(f"The {which} run is still being recorded.")
        if state == "crashed":
            notes.append(f"The {which} run ends without an end mark.")
        if data.dropped or data.skipped_parts:
            notes.append(f"Part of the {which} run is missing; its counts may be too low.")
        damage = side.run.graph_damage()
        if damage:
            notes.append(f"Of the {which} run, {damage}")
    return tuple(notes)
