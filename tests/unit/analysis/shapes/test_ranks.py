"""Several ranks, goals, and sizes at the end of the numbers: one plan for all ranks, and each compiles for itself."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synthetic import build_run
from tests.unit.analysis.shapes.recorded import MS, frames_of, problem_of, text_batch
from xla_insight.analysis.shapes import Goal, Objective, advise, shape_problem
from xla_insight.analysis.shapes.batches import build_batches
from xla_insight.analysis.shapes.plans import evaluate
from xla_insight.analysis.shapes.problem import Problem, build_problem
from xla_insight.analysis.shapes.ranks import joined, with_rank
from xla_insight.analysis.shapes.search import optimal_plans, recorded_plan, rules_of_thumb
from xla_insight.analysis.shapes.tables import shape_rows
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_shapes import size_figure
from xla_insight.store.reader import open_run

lengths_of_a_rank = st.lists(st.sampled_from([8, 16, 24, 40, 64]), min_size=6, max_size=20)


def of_ranks(ranks: Sequence[Sequence[int]]) -> Problem:
    """The problem of a run in which each rank trained on lengths of its own."""
    parts = [
        with_rank(frames_of([text_batch(length) for length in lengths]), 10 * rank)
        for rank, lengths in enumerate(ranks)
    ]
    frames = joined(parts)
    batches = build_batches(frames)
    assert batches is not None
    problem = build_problem(frames, batches)
    assert problem is not None
    return problem


@settings(max_examples=20, deadline=None)
@given(lengths_of_a_rank, lengths_of_a_rank)
def test_a_run_of_two_ranks_is_the_mean_of_both(one: list[int], other: list[int]) -> None:
    problem = of_ranks([one, other])
    alone = [problem_of([text_batch(length) for length in lengths]) for lengths in (one, other)]
    assert (problem.ranks, problem.units) == (2, len(one) + len(other))
    both = [recorded_plan(part) for part in alone]
    plan = recorded_plan(problem)
    assert plan.compiles == sum(part.compiles for part in both)
    assert plan.compile_s == pytest.approx(sum(part.compile_s for part in both) / 2, rel=0.02)
    assert plan.step_s == pytest.approx(sum(part.step_s for part in both) / 2, rel=0.02)
    assert problem.recorded_s == pytest.approx(sum(part.recorded_s for part in alone) / 2)


@settings(max_examples=20, deadline=None)
@given(lengths_of_a_rank, lengths_of_a_rank, st.sampled_from(list(Objective)))
def test_no_rule_beats_the_optimum_of_all_ranks(one: list[int], other: list[int], objective: Objective) -> None:
    problem = of_ranks([one, other])
    if not problem.axes:
        return
    goal = Goal(1_000, objective)
    best = min(goal.cost(plan) for plan in optimal_plans(problem, goal))
    for name, buckets in rules_of_thumb(problem):
        assert best <= goal.cost(evaluate(problem, name, buckets, goal.future_steps)) * (1 + 1e-9), name


def test_each_rank_compiles_for_itself_and_sizes_of_all_count() -> None:
    problem = of_ranks([[16, 32] * 12, [32, 64] * 12])
    assert problem.axes[0].values.tolist() == [16, 32, 64]
    assert problem.axes[0].value_counts.tolist() == [12, 24, 12]
    to_max = evaluate(problem, ("", ""), ((64,),))
    # On each rank: one graph before training, one of the first step, and the read's and the step's of the one size.
    assert to_max.compiles == 2 * (1 + 1 + 2)
    assert evaluate(problem, ("", ""), ((32, 64),)).compiles == 2 * (1 + 1) + 2 + 4
    sizes = problem.axes[0].sizes[problem.batch_combination]
    assert sizes[:4].tolist() == [16, 32, 32, 64], "first batches of both, then second ones"
    advice = advise(problem, 500)
    assert problem.steps == 24
    assert "over 524 steps on each of 2 ranks" in advice.summary
    assert any("each of which compiles for itself" in note for note in advice.notes)
    assert [row["batches"] for row in shape_rows(problem)] == [24, 12, 12]


def test_a_rank_without_batches_takes_no_part() -> None:
    idle = with_rank(frames_of([]), 1)
    frames = joined([with_rank(frames_of([text_batch(16), text_batch(32)] * 12), 0), idle])
    batches = build_batches(frames)
    assert batches is not None
    problem = build_problem(frames, batches)
    assert problem is not None
    assert (problem.ranks, problem.units) == (1, 24)


def test_what_a_process_does_before_its_first_batch_counts_to_no_other(tmp_path: Path) -> None:
    with open_run(str(build_run(tmp_path / "run", steps=40, ranks=2, step_ms=40))) as run:
        problem = shape_problem(run)
    with open_run(str(build_run(tmp_path / "alone", steps=40, step_ms=40))) as run:
        alone = shape_problem(run)
    assert problem is not None and alone is not None
    assert (problem.ranks, problem.steps) == (2, 40)
    assert problem.recorded_s == pytest.approx(alone.recorded_s, rel=0.01)
    assert recorded_plan(problem).compiles == 2 * recorded_plan(alone).compiles


@pytest.mark.parametrize("largest", [2**62 + 1, 2**63 - 1])
def test_sizes_at_the_end_of_the_numbers(largest: int) -> None:
    batches = [(("input_ids", (8, length)), ("ids", (length, 2))) for length in (3, largest - 9, largest) * 8]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = problem_of(batches, device_ms=lambda batch: 5.0)
        advice = advise(problem, 10)
        for plan in (advice.recorded, *advice.plans):
            assert plan.buckets is None or max(plan.buckets[0]) == largest
            assert np.isfinite(plan.total_s) and plan.waste >= 0
        shape_rows(problem)
        axis = problem.axes[0]
        size_figure(axis.sizes[problem.batch_combination], (largest,), Canvas(900))


def test_the_objective_decides() -> None:
    problem = problem_of([text_batch(length) for length in [8, 16, 32, 64] * 12], compile_ms=50)
    fewest = advise(problem, 100_000, objective=Objective.COMPILES)
    assert fewest.chosen is not None and fewest.chosen.buckets == ((64,),)
    assert "of compiling over" in fewest.summary
    steps = advise(problem, objective=Objective.STEPS)
    assert steps.chosen is None and "of device and host" in steps.summary
    two = advise(problem, buckets=2, objective=Objective.STEPS)
    assert two.chosen is not None and two.chosen.buckets is not None
    tried = [evaluate(problem, ("", ""), ((end, 64),)).step_s for end in (8, 16, 32)]
    assert two.chosen.step_s == pytest.approx(min(tried))


def test_memory_of_a_size_that_no_graph_had_is_inferred() -> None:
    pairs = [(16, 8), (32, 4), (64, 2), (16, 2), (32, 8), (48, 4), (48, 2)]
    frames = frames_of([(("input_ids", (8, source)), ("labels", (8, target))) for source, target in pairs * 6])
    sizes = frames.graphs["graph"].str.extract(r"\(8, (\d+)\).*\(8, (\d+)\)").astype(float)
    frames.graphs["temporary_bytes"] = (1000 * sizes[0] * sizes[1]).fillna(100)
    batches = build_batches(frames)
    assert batches is not None
    problem = build_problem(frames, batches)
    assert problem is not None
    seen, unseen = (evaluate(problem, ("", ""), ends) for ends in (((16, 32), (8,)), ((64,), (8,))))
    assert unseen.memory_inferred and unseen.memory_bytes == pytest.approx(1000 * 64 * 8, rel=0.1)
    assert not recorded_plan(problem).memory_inferred
    assert seen.memory_bytes is not None


def test_times_of_a_process_stay_in_order() -> None:
    frames = joined([with_rank(frames_of([text_batch(16)] * 3), rank) for rank in (1, 0)])
    assert frames.inputs["time_ns"].is_monotonic_increasing and frames.executions["time_ns"].is_monotonic_increasing
    assert frames.inputs["rank"].unique().tolist() == [1, 0]
    assert frames.executions["time_ns"].iloc[-1] < 3000 * MS
