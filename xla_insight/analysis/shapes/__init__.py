"""Dynamic shapes of a run: which dimensions change, what each shape costs, and the plan of padding that is best.

`shape_problem` reads a run, `advise` plans. Owns every number and sentence on shapes. Leaves recording batches to
``record``, padding them to ``xla_insight.padding`` and drawing to the surfaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xla_insight.analysis.shapes.advice import (
    Advice,
    advise,
    bucket_text,
    change_text,
    what_if,
    with_plan,
    with_range,
)
from xla_insight.analysis.shapes.batches import build_batches
from xla_insight.analysis.shapes.plans import Buckets, Goal, Plan
from xla_insight.analysis.shapes.problem import Problem, build_problem
from xla_insight.analysis.shapes.ranks import frames_of_processes
from xla_insight.analysis.tables import RunTables, load_tables
from xla_insight.facts.report import ShapeFacts
from xla_insight.facts.shapes import Objective

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

__all__ = [
    "Advice",
    "Buckets",
    "Goal",
    "Objective",
    "Plan",
    "Problem",
    "advise",
    "bucket_text",
    "shape_facts",
    "shape_problem",
    "what_if",
    "with_plan",
    "with_range",
]


def shape_problem(run: Run, tables: RunTables | None = None) -> Problem | None:
    """What is known about the shapes of a run, over all its ranks; ``tables``: its tables, when they are loaded.

    None when no batch tensor was recorded, or none of its steps could be timed.
    """
    if not run.processes:
        return None
    frames = frames_of_processes(load_tables(run) if tables is None else tables)
    batches = build_batches(frames)
    return None if batches is None else build_problem(frames, batches)


def shape_facts(run: Run, tables: RunTables | None = None) -> ShapeFacts | None:
    """The advice in short, for the report; None when nothing changes from batch to batch."""
    problem = shape_problem(run, tables)
    if problem is None or not (problem.axes or problem.rows):
        return None
    advice = advise(problem)
    plan = advice.chosen
    axes = [*problem.axes, *problem.padded_axes, *([problem.rows] if problem.rows is not None else [])]
    return ShapeFacts(
        summary=advice.summary,
        plan=plan.id if plan else None,
        buckets=(plan.buckets if plan else None) or (),
        saves_s=advice.saves_s,
        compiles=(plan or advice.recorded).compiles,
        code=advice.code,
        thin=problem.thin,
        change=change_text(plan) if plan else "",
        dimensions=tuple(str(member) for axis in axes for member in axis.members),
    )
