"""Shapes and plans of a run for a terminal, as JSON, and as tables of an export.

Owns their layout. Shows the sentences of ``analysis.shapes`` unchanged; text from a recording is shown as plain text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pyarrow as pa

from xla_insight.analysis.shapes import Advice, Problem, advise, bucket_text, shape_problem
from xla_insight.analysis.shapes.plans import Plan
from xla_insight.analysis.shapes.tables import (
    PLAN_COLUMNS,
    SHAPE_COLUMNS,
    advice_json,
    dimension,
    plan_rows,
    shape_rows,
)
from xla_insight.facts import numbers
from xla_insight.report.export_files import report_batch
from xla_insight.report.text import encodable

if TYPE_CHECKING:
    from xla_insight.facts.report import Report
    from xla_insight.store.reader import Run

LISTED_SHAPES = 12
_WIDTH = 100
_COLUMNS = (
    "",
    "plan",
    "compiles",
    "compiling",
    "steps",
    "in all",
    "90 % likely",
    "padding",
    "largest graph",
    "buckets",
)
_LEFT = (0, 1, 9)


def print_shapes(problem: Problem, advice: Advice, stream: TextIO, elsewhere: str = "") -> None:
    """The advice, what it rests on, every plan, and the lines to paste; ``elsewhere``: what the advice is not about."""
    text = io.StringIO()
    for line in (*_lines(problem, advice), *(_wrapped(elsewhere) if elsewhere else ())):
        text.write(f"{line.rstrip()}\n")
    stream.write(encodable(_printable(text.getvalue()), stream))


def render_shapes_json(problem: Problem | None, advice: Advice | None) -> str:
    """Everything as one JSON text; with nothing recorded, the sentence that says so."""
    found = {"schema": 1, "summary": NOTHING} if problem is None or advice is None else advice_json(problem, advice)
    return json.dumps(found, indent=2, allow_nan=False)


NOTHING = (
    "No batch was recorded on its way to the device, or no step that used one was timed:"
    " there are no shapes to plan for."
)


def cause_elsewhere(report: Report) -> str:
    """What recompiled in a run whose batches give nothing to plan; empty when nothing did."""
    avoidable = [entry for entry in report.recompiles if not entry.expected and entry.cause != "input_shape"]
    if not avoidable:
        return ""
    worst = max(avoidable, key=lambda entry: entry.compile_s or 0.0)
    return (
        f"What does recompile in this run ({numbers.plural(worst.count, 'time')}, {numbers.duration(worst.compile_s)}):"
        f" {worst.summary} `xla-insight report` says what to change."
    )


def shape_batches(run: Run) -> dict[str, pa.RecordBatch]:
    """``shapes`` and ``plans`` as tables for an export; without rows when there is nothing to plan."""
    problem = shape_problem(run)
    shapes = [] if problem is None else shape_rows(problem)
    plans = [] if problem is None else plan_rows(advise(problem))
    for row in plans:
        row["buckets"] = None if row["buckets"] is None else bucket_text(row["buckets"])
    return {"shapes": report_batch(shapes, SHAPE_COLUMNS), "plans": report_batch(plans, PLAN_COLUMNS)}


def _lines(problem: Problem, advice: Advice) -> Iterator[str]:
    yield from _wrapped(advice.summary)
    yield ""
    axes = [*problem.axes, *problem.padded_axes, *([problem.rows] if problem.rows else [])]
    if axes:
        yield "Dimensions that change"
        for axis in axes:
            yield from _dimension(dimension(axis))
        yield ""
    if problem.step is not None:
        yield "Fitted to this run (all seconds below are inferred from it)"
        yield from _models(problem)
        yield ""
    if advice.plans:
        coming = f" and {numbers.count(advice.future_steps)} to come" if advice.future_steps else ""
        yield f"Plans for the {numbers.plural(problem.steps, 'recorded step')}{coming}"
        plans = sorted((advice.recorded, *advice.plans), key=advice.goal.cost)
        yield from _table([_plan(plan, plan is advice.chosen) for plan in (*plans, *advice.alternatives)])
        if not advice.future_steps:
            yield "  --horizon STEPS adds steps to come; --buckets K asks for K buckets"
        for note in dict.fromkeys(plan.note for plan in advice.alternatives):
            yield from _wrapped(f"~ {note}", "  ")
        yield ""
    if advice.code:
        yield "To paste"
        yield from (f"  {line}" for line in advice.code.splitlines())
        yield ""
    for note in advice.notes:
        yield from _wrapped(note)


def _dimension(facts: dict[str, Any]) -> Iterator[str]:
    sizes, batches = facts["sizes"], facts["batches"]
    whole = sum(batches)
    usual = max(range(len(sizes)), key=lambda place: (batches[place], sizes[place]))
    text = (
        f"{facts['name']}: {numbers.plural(len(sizes), 'size')} from {sizes[0]} to {sizes[-1]};"
        f" {sizes[usual]} in {numbers.share(batches[usual], whole)} of {numbers.plural(whole, 'batch', 'batches')}"
    )
    if facts["moves_with"]:
        text += f"; together with {', '.join(facts['moves_with'])}"
    yield from _wrapped(text, "  ")
    if 2 < len(sizes) <= LISTED_SHAPES:
        yield f"    {', '.join(f'{size} ({numbers.count(count)})' for size, count in zip(sizes, batches, strict=True))}"


def _models(problem: Problem) -> Iterator[str]:
    step = problem.step
    assert step is not None
    error = (
        "error unknown" if step.error is None else f"shapes lie within {numbers.percent(100 * step.error)} of the curve"
    )
    yield (
        f"  device time of a step: from {numbers.plural(step.samples, 'step')} of"
        f" {numbers.plural(step.points, 'shape')};"
        f" {error}; beside it {numbers.duration(problem.overhead_s)} a step"
    )
    variants = [variant for variant in problem.compiles.variants if len(variant.shapes) > 1]
    variants = [variant for variant in variants if np.isfinite(variant.compile_s).any()]
    seconds = sum(float(np.nanmean(variant.compile_s)) for variant in variants) / problem.ranks
    if variants:
        fixed = problem.compiles.fixed
        on_ranks = f" on each of {numbers.count(problem.ranks)} ranks" if problem.ranks > 1 else ""
        others = f"{numbers.plural(fixed, 'compile')} of this run {'has' if fixed == 1 else 'have'}"
        yield (
            f"  a shape more: {numbers.plural(len(variants), 'compile')}, {numbers.duration(seconds)}{on_ranks};"
            f" {others} nothing to do with shapes"
        )


def _plan(plan: Plan, chosen: bool) -> tuple[str, ...]:
    low, high = plan.range_s or (None, None)
    likely = f"{numbers.duration(low)} – {numbers.duration(high)}" if low is not None else numbers.NOT_MEASURED
    mark = "→" if chosen else "~" if plan.changes_order else ""
    return (
        mark,
        plan.word,
        numbers.count(plan.compiles),
        numbers.duration(plan.compile_s),
        numbers.duration(plan.step_s),
        numbers.duration(plan.total_s),
        likely,
        _padding(plan.waste),
        ("~" if plan.memory_inferred else "") + numbers.size(plan.memory_bytes),
        _short(bucket_text(plan.buckets)) + (" (not all timed)" if plan.extrapolated else ""),
    )


def _padding(waste: float) -> str:
    return numbers.percent(100 * waste) if waste >= 0 else f"-{numbers.percent(-100 * waste)}"


def _short(text: str, limit: int = 48) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-limit // 2 + 1 :]}"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    body = [_COLUMNS, *rows]
    widths = [max(len(row[place]) for row in body) for place in range(len(_COLUMNS))]
    for row in body:
        cells = [
            cell.ljust(width) if place in _LEFT else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells)


def _wrapped(text: str, indent: str = "") -> Iterator[str]:
    line = indent
    for word in text.split(" "):
        if len(line) + len(word) >= _WIDTH and line.strip():
            yield line
            line = indent
        line += word if line == indent else f" {word}"
    yield line


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char in "\n\u2009" else "\ufffd" for char in text)
