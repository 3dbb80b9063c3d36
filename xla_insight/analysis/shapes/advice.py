"""The advice on dynamic shapes: which plan to take, what it saves, the lines to paste, and when to leave things alone.

Owns the choice among judged plans and its sentences. A plan is only advised when it saves more than `LEAST_SAVING` of
the time; what rests on too little data says so in the same breath.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xla_insight.analysis.shapes.alternatives import alternatives
from xla_insight.analysis.shapes.code import padding_code
from xla_insight.analysis.shapes.plans import Buckets, Goal, Plan, evaluate
from xla_insight.analysis.shapes.problem import Problem
from xla_insight.analysis.shapes.search import LISTED, optimal_plans, recorded_plan, rules_of_thumb
from xla_insight.facts import numbers
from xla_insight.facts.shapes import Objective

_UNSTEADY = 0.2
LEAST_SAVING = 0.01
"""Share of the time as recorded; less is not worth a change of code."""


@dataclass(frozen=True)
class Advice:
    """Plans for one run and one goal. ``chosen`` is the plan the code is for; None: leave everything as it is."""

    goal: Goal
    recorded: Plan
    plans: tuple[Plan, ...]
    """Rules of thumb and the best of each number of buckets; `recorded` is not among them."""
    alternatives: tuple[Plan, ...]
    chosen: Plan | None
    saves_s: float
    """Seconds that ``chosen`` saves against `recorded`, inferred; negative when what was asked for loses time."""
    summary: str
    code: str
    notes: tuple[str, ...]

    @property
    def future_steps(self) -> int:
        """Steps still to come, beside the recorded ones."""
        return self.goal.future_steps

    @property
    def best(self) -> Plan:
        """The best of all plans of padding by the goal, `recorded` included."""
        return min((self.recorded, *self.plans), key=lambda plan: _rank(plan, self.goal))


def advise(
    problem: Problem, future_steps: int = 0, buckets: int | None = None, objective: Objective = Objective.TIME
) -> Advice:
    """The plans of a problem, over the recorded steps and ``future_steps`` of a rank.

    ``buckets``: how many an axis may have. ``objective``: what the best plan has least of.
    """
    goal = Goal(future_steps, objective)
    recorded = recorded_plan(problem, future_steps)
    rules = [evaluate(problem, name, ends, future_steps) for name, ends in rules_of_thumb(problem)]
    rules = rules if problem.axes else []
    optimal = optimal_plans(problem, goal, buckets)

    def rank(plan: Plan) -> tuple[float, int, bool]:
        return _rank(plan, goal)

    cheapest = min(optimal, key=rank, default=None)
    listed = [plan for place, plan in enumerate(optimal, 1) if place <= LISTED or plan is cheapest]
    if buckets is not None:
        listed = [plan for place, plan in enumerate(optimal, 1) if place <= max(LISTED, buckets)]
    if buckets is not None and optimal:
        chosen: Plan | None = optimal[-1]
    else:
        best = min((recorded, *rules, *optimal), key=rank)
        saves = goal.cost(recorded) - goal.cost(best)
        chosen = best if best is not recorded and saves >= LEAST_SAVING * goal.cost(recorded) else None
    if chosen is not None and chosen not in listed and chosen not in rules:
        listed.append(chosen)
    saves_s = recorded.total_s - chosen.total_s if chosen else 0.0
    return Advice(
        goal=goal,
        recorded=recorded,
        plans=(*rules, *listed),
        alternatives=tuple(alternatives(problem, goal)),
        chosen=chosen,
        saves_s=saves_s,
        summary=_summary(problem, recorded, chosen, goal),
        code=padding_code(problem, chosen.buckets) if chosen and chosen.buckets is not None else "",
        notes=tuple(_notes(problem, recorded, chosen, future_steps)),
    )


def what_if(problem: Problem, buckets: Buckets, future_steps: int = 0) -> Plan:
    """Judge buckets of someone's own choice: the largest size of each axis is added where they do not reach it."""
    whole = tuple(
        tuple(sorted({*(end for end in ends if end > 0), max((*ends, int(axis.values[-1])))}))
        for axis, ends in zip(problem.axes, buckets, strict=True)
    )
    return evaluate(problem, ("own", "your buckets"), whole, future_steps)


def with_range(plan: Plan) -> str:
    """The predicted time of a plan as text, with its likely range."""
    text = numbers.duration(plan.total_s, inferred=True)
    if plan.range_s is None:
        return text
    return f"{text} ({numbers.duration(plan.range_s[0])} to {numbers.duration(plan.range_s[1])})"


def bucket_text(buckets: Buckets | None) -> str:
    """Buckets as text: ``[48, 96]``, for two axes ``[48, 96] × [16, 32]``."""
    if buckets is None:
        return "as recorded"
    return " × ".join(f"[{', '.join(map(str, ends))}]" for ends in buckets) or "whole batches"


def _rank(plan: Plan, goal: Goal) -> tuple[float, int, bool]:
    """By the goal; of equals the one with fewer buckets, and rather one found than a rule of thumb."""
    number = sum(len(ends) for ends in plan.buckets) if plan.buckets is not None else 10**9
    return round(goal.cost(plan), 9), number, not plan.id.startswith("optimal")


def _summary(problem: Problem, recorded: Plan, chosen: Plan | None, goal: Goal) -> str:
    if not problem.axes and problem.rows is None:
        batches = problem.batch_combination.size
        if batches == 1:
            return "Only one batch was recorded: there is nothing to compare it with, and nothing to pad."
        return f"All {numbers.count(batches)} batches have the same shape: nothing to pad."
    moving = " and ".join(f"{axis.word} ({numbers.plural(len(axis.values), 'size')})" for axis in problem.axes)
    moving = moving or f"{problem.rows.word if problem.rows else ''} (the last batch is smaller)"
    change = "change" if len(problem.axes) > 1 else "changes"
    if chosen is None:
        least = numbers.percent(100 * LEAST_SAVING)
        return (
            f"Leave the shapes as they are: {moving} {change}, but no padding saves more than {least}"
            f" of {_whole(problem, recorded, goal)}."
        )
    saved = _seconds(recorded, goal.objective) - _seconds(chosen, goal.objective)
    effect = f"saves about {numbers.duration(saved)} of" if saved >= 0 else f"adds about {numbers.duration(-saved)} to"
    thin = f" Little was recorded to say that: {', '.join(problem.thin)}." if problem.thin else ""
    return (
        f"{moving} {change} from batch to batch: {change_text(chosen)} {effect} {_whole(problem, recorded, goal)}"
        f" ({numbers.plural(chosen.compiles, 'compile')} instead of {numbers.count(recorded.compiles)})."
    ) + thin


def _seconds(plan: Plan, objective: Objective) -> float:
    """What the objective looks at."""
    parts = {Objective.TIME: plan.total_s, Objective.STEPS: plan.step_s, Objective.COMPILES: plan.compile_s}
    return parts[objective]


def _whole(problem: Problem, recorded: Plan, goal: Goal) -> str:
    """What a saving is a part of: ``~20 s over 60 steps``."""
    what = {Objective.TIME: "", Objective.STEPS: " of device and host", Objective.COMPILES: " of compiling"}
    steps = numbers.plural(problem.steps + goal.future_steps, "step")
    on_ranks = f" on each of {numbers.count(problem.ranks)} ranks" if problem.ranks > 1 else ""
    time = numbers.duration(_seconds(recorded, goal.objective), inferred=True)
    return f"{time}{what[goal.objective]} over {steps}{on_ranks}"


def change_text(plan: Plan) -> str:
    """What a plan does, in words: ``padding all to 96``, ``padding to 2 buckets [72, 96]``."""
    if not plan.buckets:
        return "filling up the last batch"
    if all(len(ends) == 1 for ends in plan.buckets):
        return (
            f"padding all to {bucket_text(plan.buckets)[1:-1] if len(plan.buckets) == 1 else bucket_text(plan.buckets)}"
        )
    if len(plan.buckets) == 1:
        return f"padding to {len(plan.buckets[0])} buckets {bucket_text(plan.buckets)}"
    return f"padding to buckets {bucket_text(plan.buckets)}"


def _notes(problem: Problem, recorded: Plan, chosen: Plan | None, future_steps: int) -> list[str]:
    notes = []
    if future_steps and chosen is None and problem.axes:
        notes.append("Sizes that no recorded batch had would compile once more each.")
    if chosen is not None and chosen.buckets:
        notes.append("A batch larger than the largest bucket is left as it is, and compiles once more.")
    if problem.rows is not None:
        notes.append(
            f"{problem.rows.word} is smaller now and then, as in a last batch: every plan fills it up."
            " Dropping it does as well (drop_last of a loader, dataloader_drop_last of a Trainer) and needs no rows=."
        )
    if problem.ranks > 1:
        notes.append(_ranks_note(problem, chosen or recorded))
    if problem.padded_axes:
        words = ", ".join(axis.word for axis in problem.padded_axes)
        notes.append(
            f"More than two dimensions change by themselves: {words} is padded to its largest size in every plan."
        )
    if problem.batches_a_unit > 1:
        notes.append(
            "Several batches share a graph here: the search takes them one by one, the judging takes them together."
        )
    if problem.left_out:
        notes.append(
            f"{numbers.plural(problem.left_out, 'batch', 'batches')} of another kind (an evaluation, say) left out."
        )
    if abs(problem.drift) > _UNSTEADY:
        slower = "slower" if problem.drift > 0 else "faster"
        notes.append(
            f"Steps of the recording's second half are {numbers.percent(100 * abs(problem.drift))} of a step {slower}"
            " than those of the first, whatever their shape: predictions can be no surer than that."
        )
    if problem.thin:
        notes.append(f"Thin data: {'; '.join(problem.thin)}.")
    drift = _drift(problem, recorded, future_steps)
    if drift is not None and drift > 0.1:
        notes.append(f"The model misses the recorded time by {drift:.0%}: something else took time.".replace("%", " %"))
    return notes


def _ranks_note(problem: Problem, plan: Plan) -> str:
    more = numbers.duration((problem.ranks - 1) * plan.compile_s)
    return (
        f"Compiles are those of all {numbers.count(problem.ranks)} ranks, each of which compiles for itself; seconds"
        f" are those of a rank on average. Where ranks wait for each other and compile at different steps, up to {more}"
        " more of compiling stand still."
    )


def _drift(problem: Problem, recorded: Plan, future_steps: int) -> float | None:
    """How far the model is off on the run it was fitted to."""
    if problem.recorded_s <= 0:
        return None
    inside = recorded.compile_s + recorded.step_s / problem.scale(future_steps)
    return abs(inside - problem.compiles.fixed_s / problem.ranks - problem.recorded_s) / problem.recorded_s


def with_plan(advice: Advice, problem: Problem, plan: Plan) -> Advice:
    """The advice with another plan chosen, as someone does who tries buckets of their own."""
    return replace(
        advice,
        chosen=plan,
        saves_s=advice.recorded.total_s - plan.total_s,
        summary=_summary(problem, advice.recorded, plan, advice.goal),
        code=padding_code(problem, plan.buckets or ()),
    )
