"""Plans: counts and padding follow from the raw lengths, and nothing beats the optimum under the same model."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.shapes.recorded import Sizes, frames_of, problem_of, step_ms, text_batch
from xla_insight.analysis.shapes.advice import advise, what_if, with_plan
from xla_insight.analysis.shapes.alternatives import sample_lengths
from xla_insight.analysis.shapes.batches import build_batches
from xla_insight.analysis.shapes.plans import Goal, Plan, evaluate
from xla_insight.analysis.shapes.problem import Problem, build_problem
from xla_insight.analysis.shapes.search import optimal_plans, recorded_plan, rules_of_thumb

lengths_of_a_run = st.lists(st.integers(1, 90), min_size=3, max_size=60)


def judged(problem: Problem, future_steps: int = 0) -> list[Plan]:
    """Every listed plan that is not found by search."""
    rules = [evaluate(problem, name, buckets, future_steps) for name, buckets in rules_of_thumb(problem)]
    return [recorded_plan(problem, future_steps), *rules]


def smallest_that_holds(length: int, ends: tuple[int, ...]) -> int:
    return min(end for end in ends if end >= length)


@settings(max_examples=30, deadline=None)
@given(lengths_of_a_run, st.integers(0, 100_000))
def test_no_rule_of_thumb_beats_the_optimum(lengths: list[int], future_steps: int) -> None:
    problem = problem_of([text_batch(length) for length in lengths])
    if not problem.axes:
        return
    best = min(plan.total_s for plan in optimal_plans(problem, Goal(future_steps)))
    for plan in judged(problem, future_steps)[1:]:
        assert best <= plan.total_s * (1 + 1e-9), plan


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=3, max_size=25), st.sampled_from([0, 500, 50_000]))
def test_trying_all_buckets_agrees(lengths: list[int], future_steps: int) -> None:
    values = sorted(set(lengths))[:6]
    problem = problem_of([text_batch(length) for length in lengths if length in values])
    if not problem.axes:
        return
    plans = optimal_plans(problem, Goal(future_steps))
    for number in range(1, len(values) + 1):
        tried = [
            evaluate(problem, ("", ""), ((*chosen, values[-1]),), future_steps).total_s
            for chosen in combinations(values[:-1], number - 1)
        ]
        found = [plan for plan in plans if plan.buckets and len(plan.buckets[0]) == number]
        if found:
            assert found[0].total_s <= min(tried) * (1 + 1e-9)
    everything = min(
        evaluate(problem, ("", ""), ((*chosen, values[-1]),), future_steps).total_s
        for number in range(len(values))
        for chosen in combinations(values[:-1], number)
    )
    assert min(plan.total_s for plan in plans) <= everything * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(lengths_of_a_run)
def test_padding_and_compiles_follow_from_the_raw_lengths(lengths: list[int]) -> None:
    problem = problem_of([text_batch(length) for length in lengths])
    if not problem.axes:
        return
    for plan in [*judged(problem)[1:], *optimal_plans(problem)]:
        assert plan.buckets
        raised = [smallest_that_holds(length, plan.buckets[0]) for length in lengths]
        assert plan.waste == pytest.approx(1 - sum(lengths) / sum(raised))
        # One graph before training, the first step's own, and for each shape the read's and the step's.
        steady = set(raised[1:]) | ({raised[0]} if lengths[0] not in lengths[1:] else set())
        warm_up = 1 if lengths[0] in lengths[1:] else 0
        assert plan.compiles in (1 + warm_up + 2 * len(set(raised)), 1 + 1 + len(set(raised)) + len(steady))
        assert set(plan.buckets[0]) <= {*raised}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(range(8, 96, 8)), min_size=30, max_size=80), st.integers(0, 2**32 - 1))
def test_a_run_of_the_plan_takes_what_was_predicted(lengths: list[int], seed: int) -> None:
    """The advised plan is run under the same costs, which scatter by a tenth as on a quiet machine."""
    chance = np.random.default_rng(seed)

    def device_ms(batch: Sizes) -> float:
        return step_ms(batch) * float(chance.uniform(0.9, 1.1))

    problem = problem_of([text_batch(length) for length in lengths], device_ms=device_ms)
    if not problem.axes:
        return
    for plan in optimal_plans(problem)[:3]:
        assert plan.buckets
        padded = [text_batch(smallest_that_holds(length, plan.buckets[0])) for length in lengths]
        again = problem_of(padded, device_ms=device_ms)
        took = again.recorded_s + again.compiles.fixed_s
        assert plan.compiles == recorded_plan(again).compiles
        assert plan.total_s == pytest.approx(took, rel=0.15)


def test_as_recorded_is_what_was_recorded() -> None:
    lengths = [48, 16, 32, 48, 16, 24, 32, 48] * 6
    problem = problem_of([text_batch(length) for length in lengths])
    plan = recorded_plan(problem)
    assert plan.compiles == 1 + 1 + 2 * 4
    assert plan.compile_s == pytest.approx(0.02 + 0.4 + 4 * 0.41)
    assert plan.waste == 0
    assert plan.total_s == pytest.approx(problem.recorded_s + 0.02, rel=0.01)
    assert not problem.thin


def test_steps_to_come_make_padding_dearer() -> None:
    problem = problem_of([text_batch(length) for length in [90, *[8] * 60, 90, *[8] * 60]], compile_ms=8000)
    now, later = advise(problem), advise(problem, 100_000)
    assert now.chosen is not None and now.chosen.buckets == ((90,),)
    assert later.chosen is None
    assert later.recorded.step_s > 100 * now.recorded.step_s


def test_nothing_is_advised_when_nothing_changes() -> None:
    advice = advise(problem_of([text_batch(64)] * 30))
    assert advice.chosen is None
    assert advice.code == ""
    assert "same shape: nothing to pad" in advice.summary


def test_a_smaller_last_batch_is_filled_up() -> None:
    problem = problem_of([*[text_batch(64)] * 30, text_batch(64, rows=3)])
    assert problem.axes == ()
    assert problem.rows is not None and problem.rows.word == "input_ids[0]"
    advice = advise(problem)
    assert advice.chosen is not None and advice.chosen.id == "fill_rows"
    assert "rows=8" in advice.code
    assert advice.chosen.compiles == advice.recorded.compiles - 2


def test_the_asked_number_of_buckets_is_given() -> None:
    lengths = list(range(10, 90, 2)) * 3
    advice = advise(problem_of([text_batch(length) for length in lengths]), 500, buckets=5)
    assert advice.chosen is not None and advice.chosen.buckets is not None
    assert len(advice.chosen.buckets[0]) == 5
    assert str(list(advice.chosen.buckets[0])) in advice.code
    assert '("input_ids", "attention_mask", "labels")' in advice.code


def two_lengths(seed: int, count: int = 80) -> list[Sizes]:
    chance = np.random.default_rng(seed)
    pairs = [(int(chance.integers(1, 9)) * 8, int(chance.integers(1, 7)) * 4) for _ in range(count)]
    return [(("input_ids", (8, source)), ("labels", (8, target))) for source, target in pairs]


@pytest.mark.parametrize("seed", range(4))
def test_two_axes_are_never_worse_than_rules_of_thumb(seed: int) -> None:
    problem = problem_of(two_lengths(seed))
    assert [axis.word for axis in problem.axes] == ["input_ids[1]", "labels[1]"]
    for future_steps in (0, 2_000):
        best = min(plan.total_s for plan in optimal_plans(problem, Goal(future_steps)))
        assert best <= min(plan.total_s for plan in judged(problem, future_steps)) * (1 + 1e-9)


def test_own_buckets_are_judged_and_reach_the_largest_size() -> None:
    problem = problem_of([text_batch(length) for length in [16, 32, 48, 64] * 10])
    plan = what_if(problem, ((40,),))
    assert plan.buckets == ((40, 64),)
    assert not plan.extrapolated
    assert what_if(problem, ((128,),)).extrapolated


def test_the_root_of_the_largest_of_many_gives_one_sample_back() -> None:
    values = np.arange(1, 101)
    share_of_one = values / 100
    counts = np.diff(np.concatenate(([0.0], share_of_one**16)))
    assert sample_lengths(values, counts, 16) == pytest.approx(share_of_one)


def test_thin_data_says_so() -> None:
    problem = problem_of([text_batch(length) for length in (8, 16, 8, 16)])
    assert any("timed steps" in reason for reason in problem.thin)
    assert any("2 shapes" in reason for reason in problem.thin)
    assert "Little was recorded" in advise(problem).summary


def test_compiles_that_were_not_seen_are_said() -> None:
    frames = frames_of([text_batch(length) for length in (8, 16, 24) * 20])
    batches = build_batches(replace(frames, compiles=frames.compiles[:0]))
    assert batches is not None
    problem = build_problem(replace(frames, compiles=frames.compiles[:0]), batches)
    assert problem is not None
    assert any("not seen compiling" in reason for reason in problem.thin)
    assert any("missing from the totals" in reason for reason in problem.thin)


def test_own_buckets_that_lose_say_so() -> None:
    problem = problem_of([text_batch(length) for length in [90, *[8] * 60, 90, *[8] * 60]])
    plan = what_if(problem, ((90,),), 100_000)
    assert "adds about" in with_plan(advise(problem, 100_000), problem, plan).summary
