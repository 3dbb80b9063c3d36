"""Shapes and plans as rows and as JSON-ready values: what the command line, the exports and the page show.

Owns names and units of the fields. Everything predicted is inferred; what was not measured is None.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from xla_insight.analysis.shapes.advice import Advice
from xla_insight.analysis.shapes.axes import Axis
from xla_insight.analysis.shapes.costs import CostModel
from xla_insight.analysis.shapes.plans import Plan
from xla_insight.analysis.shapes.problem import Problem, mean_sizes

SCHEMA = 1
MOST_COMBINATIONS = 2_000
"""In JSON: the most frequent ones; CSV has all."""

SHAPE_COLUMNS = (
    "shape",
    "batches",
    "first_batch",
    "last_batch",
    "execute_ms",
    "model_ms",
    "compiles",
    "compile_s",
    "graphs",
)
PLAN_COLUMNS = (
    "plan",
    "word",
    "buckets",
    "compiles",
    "compile_s",
    "step_s",
    "total_s",
    "total_low_s",
    "total_high_s",
    "padding_pct",
    "memory_bytes",
    "memory_inferred",
    "extrapolated",
    "changes_order",
    "chosen",
    "note",
)


def shape_rows(problem: Problem) -> list[dict[str, Any]]:
    """One row a combination of sizes, most frequent first. Compiles and times are of units of that shape alone."""
    order = np.argsort(-problem.counts, kind="stable")
    first, last = _extent(problem)
    alone = {int(row[0]): shape for shape, row in enumerate(problem.shapes) if (row[1:] < 0).all()}
    predicted = problem.step.seconds(mean_sizes(problem, problem.sizes)) if problem.step else None
    compiled = _compiled(problem)
    rows = []
    for combination in order.tolist():
        shape = alone.get(combination, -1)
        busy = problem.shape_busy_s[shape] if shape >= 0 else np.nan
        count, seconds, graphs = compiled.get(shape, (0, 0.0, []))
        rows.append(
            {
                "shape": shape_text(problem, combination),
                "batches": int(problem.counts[combination]),
                "first_batch": int(first[combination]),
                "last_batch": int(last[combination]),
                "execute_ms": _milliseconds(busy),
                "model_ms": _milliseconds(predicted[shape] if predicted is not None and shape >= 0 else np.nan),
                "compiles": count,
                "compile_s": seconds,
                "graphs": " ".join(dict.fromkeys(graphs)),
            }
        )
    return rows


def shape_text(problem: Problem, combination: int) -> str:
    """The tensors of a combination: ``input_ids, labels 16×96; mask 16×1×96×96``."""
    together: dict[tuple[int, ...], list[str]] = {}
    for entry in problem.combinations[combination]:
        together.setdefault(entry.dims, []).append(entry.name)
    return "; ".join(f"{', '.join(names)} {'×'.join(map(str, dims))}" for dims, names in together.items())


def plan_rows(advice: Advice) -> list[dict[str, Any]]:
    """One row a plan: as recorded, the rules of thumb, the best of each number of buckets, and what regrouping does."""
    return [_plan(plan, advice) for plan in (advice.recorded, *advice.plans, *advice.alternatives)]


def advice_json(problem: Problem, advice: Advice) -> dict[str, Any]:
    """All that is known, JSON-ready. Fields are added, never renamed."""
    return {
        "schema": SCHEMA,
        "steps": problem.steps,
        "ranks": problem.ranks,
        "future_steps": advice.future_steps,
        "objective": advice.goal.objective,
        "summary": advice.summary,
        "saves_s": advice.saves_s if advice.chosen else 0.0,
        "chosen": advice.chosen.id if advice.chosen else None,
        "code": advice.code,
        "batches_from": {"file": problem.kind.file, "line": problem.kind.line},
        "dimensions": [dimension(axis) for axis in _all_axes(problem)],
        "shapes": shape_rows(problem)[:MOST_COMBINATIONS],
        "models": {
            "step": _model(problem.step),
            "overhead_s": problem.overhead_s,
            "compile": [
                {
                    "place": variant.place,
                    "mode": variant.mode,
                    "rank": variant.rank,
                    "shapes": len(variant.shapes),
                    "model": _model(model),
                }
                for variant, model in zip(problem.compiles.variants, problem.compile_models, strict=True)
            ],
            "compile_factor": problem.compile_factor,
            "drift_pct": 100 * problem.drift,
            "fixed_compiles": problem.compiles.fixed,
            "quality": "inferred",
        },
        "plans": plan_rows(advice),
        "notes": list(advice.notes),
        "thin": list(problem.thin),
    }


def dimension(axis: Axis) -> dict[str, Any]:
    """An axis: its dimensions, and how many batches had each size."""
    return {
        "name": axis.word,
        "moves_with": [str(member) for member in axis.members if member != axis.leader],
        "rows": axis.rows,
        "sizes": axis.values.tolist(),
        "batches": axis.value_counts.tolist(),
    }


def _all_axes(problem: Problem) -> list[Axis]:
    return [*problem.axes, *problem.padded_axes, *([problem.rows] if problem.rows else [])]


def _plan(plan: Plan, advice: Advice) -> dict[str, Any]:
    low, high = plan.range_s or (None, None)
    return {
        "plan": plan.id,
        "word": plan.word,
        "buckets": None if plan.buckets is None else [list(ends) for ends in plan.buckets],
        "compiles": plan.compiles,
        "compile_s": plan.compile_s,
        "step_s": plan.step_s,
        "total_s": plan.total_s,
        "total_low_s": low,
        "total_high_s": high,
        "padding_pct": 100 * plan.waste,
        "memory_bytes": plan.memory_bytes,
        "memory_inferred": plan.memory_inferred,
        "extrapolated": plan.extrapolated,
        "changes_order": plan.changes_order,
        "chosen": plan is advice.chosen,
        "note": plan.note,
    }


def _model(model: CostModel | None) -> dict[str, Any] | None:
    if model is None:
        return None
    plain = asdict(model)
    plain.pop("measured")
    return {**plain, "error_pct": None if model.error is None else 100 * model.error}


def _extent(problem: Problem) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """First and last batch of each combination."""
    batches = problem.batch_combination
    number = np.arange(len(batches))
    first, last = np.full(len(problem.counts), len(batches)), np.full(len(problem.counts), -1)
    np.minimum.at(first, batches, number)
    np.maximum.at(last, batches, number)
    return first, last


def _compiled(problem: Problem) -> dict[int, tuple[int, float, list[str]]]:
    """Unit shape -> compiles of graphs of its own, their seconds, and the graphs."""
    found: dict[int, tuple[int, float, list[str]]] = {}
    for variant in problem.compiles.variants:
        for place, shape in enumerate(variant.shapes.tolist()):
            count, seconds, graphs = found.get(shape, (0, 0.0, []))
            own = variant.compile_s[place]
            names = [variant.graphs[place]] if variant.graphs else []
            known = bool(np.isfinite(own))
            found[shape] = (count + known, seconds + (float(own) if known else 0.0), [*graphs, *names])
    return found


def _milliseconds(seconds: float) -> float | None:
    return 1e3 * float(seconds) if np.isfinite(seconds) else None
