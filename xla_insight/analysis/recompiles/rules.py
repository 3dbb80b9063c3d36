"""The ordered rules that give each compile its cause: the first that applies wins.

Owns which cause a compile has and the sentence and advice of each cause. Leaves grouping and severity to ``entries``.
To tell more causes apart, add a rule before `Unexplained`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xla_insight.analysis.recompiles.history import Compile
from xla_insight.facts import numbers


class Rule(Protocol):
    """One cause: when it applies, and what is said of all its compiles at one place."""

    cause: str
    expected: bool

    def applies(self, compile_: Compile) -> bool:
        """Whether this compile has this cause, given that no earlier rule applied."""

    def summary(self, members: Sequence[Compile], where: str) -> str:
        """One sentence over all ``members``, which happened at ``where``."""

    def advice(self, members: Sequence[Compile]) -> str:
        """What to change; empty when nothing should be."""


class Evicted:
    """The same graph was compiled before in this process: it had been dropped from the cache."""

    cause = "evicted"
    expected = False

    def applies(self, compile_: Compile) -> bool:
        """The hash is known as compiled."""
        return compile_.seen_before

    def summary(self, members: Sequence[Compile], where: str) -> str:
        """How many graphs had to be compiled again."""
        distinct = len({m.graph for m in members})
        return (
            f"{numbers.plural(distinct, 'graph')} cut at {where} had been compiled before and dropped from the cache in"
            f" memory: compiled again {numbers.plural(len(members), 'time')}."
        )

    def advice(self, members: Sequence[Compile]) -> str:
        """The cache is too small for the number of graphs in use."""
        return (
            "Raise XLA_COMPILATION_CACHE_SIZE above the number of distinct graphs in use, or reduce that number"
            " (fewer shapes, fewer branches)."
        )


class SingleOperation:
    """Eager mode compiles every operation by itself: each is the first graph of its kind."""

    cause = "first_graph"
    expected = True

    def applies(self, compile_: Compile) -> bool:
        """The collector saw an operation run eagerly."""
        return compile_.eager

    def summary(self, members: Sequence[Compile], where: str) -> str:
        """How many operations were compiled one by one."""
        return f"{numbers.plural(len(members), 'single operation')} compiled one at a time (eager mode)."

    def advice(self, members: Sequence[Compile]) -> str:
        """The finding `eager_mode` has it."""
        return ""


class FirstGraph:
    """No earlier graph of this family: something has to be compiled once."""

    cause = "first_graph"
    expected = True

    def applies(self, compile_: Compile) -> bool:
        """Its place is known and nothing was cut there before."""
        return compile_.earlier is None and compile_.place.site is not None

    def summary(self, members: Sequence[Compile], where: str) -> str:
        """The first graph of a place; several when reads run several parts of a step there."""
        processes = len({m.process for m in members})
        parts = len(members) // processes
        each = "" if processes == 1 else f" in each of {processes} processes"
        if parts == 1:
            return f"First graph cut at {where}{each}; compiled once."
        return f"First graphs of {parts} different kinds cut at {where}{each}; each compiled once."

    def advice(self, members: Sequence[Compile]) -> str:
        """Nothing to change."""
        return ""


class Unexplained:
    """What the recording cannot explain. Says which graph it was and what did or did not change."""

    cause = "unknown"
    expected = False

    def applies(self, compile_: Compile) -> bool:
        """Always."""
        return True

    def summary(self, members: Sequence[Compile], where: str) -> str:
        """How often, where, and whether the number of inputs and outputs moved."""
        if members[0].place.site is None:
            return f"{numbers.plural(len(members), 'graph')} compiled at a place that was not recorded."
        times = numbers.plural(len(members), "more graph")
        return f"{times} compiled at {where} after the first; {_what_moved(members)}."

    def advice(self, members: Sequence[Compile]) -> str:
        """Where to look, since the cause itself is not known."""
        if members[0].place.site is None:
            return ""
        return (
            "Look for what differs between these steps: the size of a batch, a Python number used in the model, a"
            " branch, or a tensor that stays alive."
        )


RULES: tuple[Rule, ...] = (Evicted(), SingleOperation(), FirstGraph(), Unexplained())


def rule_for(compile_: Compile) -> Rule:
    """The first rule that applies. `Unexplained` always does."""
    return next(rule for rule in RULES if rule.applies(compile_))


def _what_moved(members: Sequence[Compile]) -> str:
    pairs = [(m.earlier, m) for m in members if m.earlier is not None]
    inputs = [(earlier.inputs, now.inputs) for earlier, now in pairs]
    outputs = [(earlier.outputs, now.outputs) for earlier, now in pairs]
    same = [_unmoved("input", inputs), _unmoved("output", outputs)]
    if all(same):
        return f"{same[0]} and {same[1]}, as before"
    parts = [moved for name, counts in (("inputs", inputs), ("outputs", outputs)) if (moved := _moved(name, counts))]
    return " and ".join(parts) or "the numbers of inputs and outputs were not recorded"


def _unmoved(noun: str, pairs: Sequence[tuple[int | None, int | None]]) -> str:
    """The one count that all graphs have; empty when there is none."""
    values = {value for pair in pairs for value in pair}
    value = values.pop() if len(values) == 1 else None
    return "" if value is None else numbers.plural(value, noun)


def _moved(name: str, pairs: Sequence[tuple[int | None, int | None]]) -> str:
    """How a count went from the graph before to this one, over all pairs; empty when it is not known for each."""
    if not pairs or any(None in pair for pair in pairs):
        return ""
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    if not changed:
        return f"as many {name} as the graph before"
    times = "" if len(pairs) == 1 else f" (it changed in {len(changed)} of {len(pairs)})"
    return f"now {changed[0][1]} {name}, before {changed[0][0]}{times}"
