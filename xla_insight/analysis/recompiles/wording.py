"""The sentence and the advice of each cause, over all compiles that have it at one place.

Owns words only: one sentence that says now and before and only what differs, and the change to make in the user's own
framework. Leaves deciding to ``rules``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from xla_insight.analysis.recompiles.advice import shown as example_of
from xla_insight.analysis.recompiles.evidence import (
    OTHER_ROOTS,
    SAME_COMPUTATION,
    SAME_ROOTS,
    SAME_SIMPLIFIED,
    Explanation,
    slice_word,
)
from xla_insight.analysis.recompiles.explain import Explained
from xla_insight.facts import numbers

Words = Callable[[Sequence[Explained]], str]


def summary(members: Sequence[Explained]) -> str:
    """One sentence over all ``members``, which have one cause at one place."""
    sentence = _SUMMARIES[members[0].explanation.cause](members)
    taken = sum(member.explanation.repeated for member in members)
    if not taken:
        return sentence
    if len(members) == 1:
        return f"{sentence.removesuffix('.')} (not compared in full, but in what varies in graphs like it)."
    compared = f"{numbers.count(len(members) - taken)} of {_times(members)}"
    return f"{sentence.removesuffix('.')} ({compared} compared in full, the others only in what varied there)."


# ---- parts of sentences ----------------------------------------------------------------------------------------------


def cut_at(members: Sequence[Explained]) -> str:
    """Where the graphs were cut."""
    place = members[0].compile.place
    return numbers.where(place.site, place.user_site)


def root_at(explanation: Explanation) -> str:
    """The line of the earliest difference."""
    frame = explanation.frame
    if frame is None:
        return "a place without a known line"
    return numbers.place(frame.file, frame.line)


def _operation(explanation: Explanation) -> str:
    name = explanation.operation.removeprefix("aten::").removeprefix("xla::")
    of_slice = slice_word(explanation.operation, explanation.opcode)
    if of_slice:
        return of_slice
    return "a constant" if name == "prim::Constant" else name or explanation.opcode


def _now_before(explanation: Explanation) -> str:
    """What differs, as the end of a sentence; nothing when its values were not looked at."""
    if explanation.now and explanation.before:
        return f": now {explanation.now}, before {explanation.before}"
    if explanation.now:
        return f": new: {explanation.now}"
    return f": no longer: {explanation.before}" if explanation.before else ""


def _times(members: Sequence[Explained], noun: str = "recompile") -> str:
    return numbers.plural(len(members), noun)


# ---- inputs ----------------------------------------------------------------------------------------------------------


def _input(members: Sequence[Explained]) -> str:
    shown = example_of(members)
    if shown.note == "state":
        at = root_at(shown)
        return f"A tensor that lives on the device has another dtype, first used at {at}{_now_before(shown)}."
    return f"At {_input_name(shown)}{_now_before(shown)}{_which_dimension(members)}."


def _input_name(explanation: Explanation) -> str:
    frame = explanation.frame
    at = numbers.place(frame.file, frame.line) if frame is not None else ""
    if not explanation.inputs:
        return f"the tensor that enters the device at {at}" if at else "an input"
    first, *others = explanation.inputs
    made = f"{frame.function}, {at}" if frame is not None and explanation.note == "loader" else at
    also = f", and {', '.join(others)} with it" if others else ""
    return f"{first} ({made}){also}" if made else f"{first}{also}"


def _which_dimension(members: Sequence[Explained]) -> str:
    counts = Counter(d for m in members for d in {d for _, d in m.explanation.dims})
    only = Counter(
        next(iter(dims)) for m in members if len(dims := {d for _, d in m.explanation.dims}) == 1
    )  # fmt: skip
    if not counts:
        return ""
    if not only:
        listed = numbers.listed([str(d) for d in sorted(counts)])
        return f"; dimensions {listed} differ"
    dimension, number = only.most_common(1)[0]
    if len(members) == 1:
        return f"; only dimension {dimension} differs"
    return f"; only dimension {dimension} differs (in {numbers.count(number)} of {_times(members)})"


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _data_dependent(members: Sequence[Explained]) -> str:
    shown = example_of(members)
    if shown.note == "read":
        how = "a size is a number that was read from a tensor"
    else:
        how = f"the size comes from the values of a tensor ({shown.note})"
    return f"At {root_at(shown)} {how}{_now_before(shown)}."


def _python_shape(members: Sequence[Explained]) -> str:
    shown = example_of(members)
    name = _operation(shown)
    if shown.note == "state":
        return (
            f"A tensor that lives on the device has another size, made by {name} at {root_at(shown)}"
            f"{_now_before(shown)}."
        )
    return f"Python computed another size for {name} at {root_at(shown)}{_now_before(shown)}."


# ---- values ----------------------------------------------------------------------------------------------------------


def _baked(members: Sequence[Explained]) -> str:
    shown = example_of(members)
    return f"A Python number is part of {_operation(shown)} at {root_at(shown)}{_now_before(shown)}."


def _special(members: Sequence[Explained]) -> str:
    shown = example_of(members)
    if shown.note == "simplified":
        return (
            f"A number used at {root_at(shown)} is 0, 1 or -1 in one graph and another in the next (the framework makes"
            " these values constants, and the compiler leaves out what they do not change)."
        )
    return (
        f"The value of a scalar used by {_operation(shown)} at {root_at(shown)} decides how it enters the graph (0, 1"
        f" and -1 as constants, all others as an input){_now_before(shown)}."
    )


def _shared(members: Sequence[Explained]) -> str:
    shown = example_of(members)
    return (
        f"Two scalars that were different are equal now, or the other way round, near {root_at(shown)}: equal scalars"
        " share one input, so the list of inputs changed; the operations are the same."
    )


# ---- structure -------------------------------------------------------------------------------------------------------


def _control_flow(members: Sequence[Explained]) -> str:
    shown = members[0].explanation
    if shown.note == "weights":
        return f"Python used another module's weights at {root_at(shown)}{_now_before(shown)}."
    details = dict(shown.details)
    name = _operation(shown)
    before, now = details.get("runs_before", 0), details.get("runs_now", 0)
    if before and now and before != now:
        often = f"in the graph {numbers.plural(now, 'time')}, before {numbers.plural(before, 'time')}"
        return f"Python branched or looped differently at {root_at(shown)}: {name} is {often}."
    words = {"inserted": "added", "removed": "removed"}
    changes = [
        f"{numbers.plural(n, 'operation')} {word}" for key, word in words.items() if (n := int(details.get(key, 0)))
    ]
    what = " and ".join(changes) or "operations differ"
    return f"Python took another branch at {root_at(shown)} ({name}): {what}."


def _growth(members: Sequence[Explained]) -> str:
    first, last = members[0].explanation.note.split()
    return (
        f"Each graph contains the one before: {numbers.count(int(first))} operations in the first,"
        f" {numbers.count(int(last))} in the last; what grows is at {root_at(_rooted(members))}."
    )


def _rooted(members: Sequence[Explained]) -> Explanation:
    return next((m.explanation for m in members if m.explanation.frame is not None), members[0].explanation)


def _live_outputs(members: Sequence[Explained]) -> str:
    shown = members[0].explanation
    if shown.note == "leftover":
        return (
            f"Operations left pending by an earlier read became part of this graph; the first is at {root_at(shown)}."
        )
    what = f" ({shown.note})" if shown.note else ""
    return f"Other tensors were alive at the cut{_now_before(shown)}{what}; made at {root_at(shown)}."


_PLACED = frozenset({"optimizer", "averages", "accumulator", "sharding", "gradients", "table"})
"""Notes of warm-up whose words hold the place, or need none."""


def _warm_up(members: Sequence[Explained]) -> str:
    shown = members[0].explanation
    what = {
        "optimizer": f"the optimizer's state was created in the first step ({shown.now}, from {root_at(shown)})",
        "averages": f"the averaged weights were made in an earlier step ({shown.now}, from {root_at(shown)})",
        "accumulator": f"a value that began as a constant at {root_at(shown)} is an input now",
        "sharding": "the sharding of the outputs is known now",
        "table": f"what was made in the graph at {root_at(shown)} was made once more, in another size, and is an input"
        f" now{_now_before(shown)}",
        "gradients": f"gradients that did not exist before are set to zero now, at {root_at(shown)}",
    }.get(shown.note, "state that the first pass created is an input now")
    if shown.note not in _PLACED and shown.frame is not None:
        what = f"{what} ({root_at(shown)})"
    processes = len({m.compile.process for m in members})
    if len(members) > processes:
        often = "Once for each size of batch" if shown.note == "table" else "Once for each part of the state"
        return f"{numbers.plural(len(members), 'graph')} at {cut_at(members)}: {what}. {often}."
    return f"Second graph at {cut_at(members)}: {what}. Once per run."


def _mode_switch(members: Sequence[Explained]) -> str:
    shown = members[0].explanation
    first = f" differs first at {root_at(shown)}," if shown.frame is not None else ""
    return (
        f"Another mode at {cut_at(members)} (train and eval, an accumulation phase, a branch taken in a pattern):"
        f" it{first} is compiled once and then used again."
    )


def _first(members: Sequence[Explained]) -> str:
    if members[0].explanation.note == "eager":
        return f"{numbers.plural(len(members), 'single operation')} compiled one at a time (eager mode)."
    where = cut_at(members)
    processes = len({m.compile.process for m in members})
    parts = len(members) // processes
    each = "" if processes == 1 else f" in each of {processes} processes"
    if members[0].compile.late:
        first = "First graph" if parts <= 1 else f"First graphs of {parts} different kinds"
        return (
            f"{first} recorded at {where}{each}. Other graphs had run before the recording began, so this may have been"
            " compiled because it differs from one of them."
        )
    if parts <= 1:
        return f"First graph cut at {where}{each}; compiled once."
    return f"First graphs of {parts} different kinds cut at {where}{each}; each compiled once."


def _evicted(members: Sequence[Explained]) -> str:
    distinct = len({m.compile.graph for m in members})
    return (
        f"{numbers.plural(distinct, 'graph')} cut at {cut_at(members)} had been compiled before and dropped from"
        " the cache"
        f" in memory: compiled again {numbers.plural(len(members), 'time')}."
    )


def _unknown(members: Sequence[Explained]) -> str:
    shown, times = members[0].explanation, numbers.plural(len(members), "more graph")
    if members[0].compile.place.site is None:
        return f"{numbers.plural(len(members), 'graph')} compiled at a place that was not recorded."
    if shown.note in _SAME:
        return (
            f"{times} compiled at {cut_at(members)} with the same operations and inputs as an earlier one:"
            f" {_SAME[shown.note]}."
        )
    if shown.note:
        return f"{times} compiled at {cut_at(members)} after the first: {shown.note}."
    return f"{times} compiled at {cut_at(members)} after the first; {_what_moved(members)}."


def _what_moved(members: Sequence[Explained]) -> str:
    pairs = [(m.compile.earlier, m.compile) for m in members if m.compile.earlier is not None]
    inputs = [(earlier.inputs, now.inputs) for earlier, now in pairs]
    outputs = [(earlier.outputs, now.outputs) for earlier, now in pairs]
    same = [_unmoved("input", inputs), _unmoved("output", outputs)]
    if all(same):
        return f"{same[0]} and {same[1]}, as before"
    parts = [moved for name, counts in (("inputs", inputs), ("outputs", outputs)) if (moved := _moved(name, counts))]
    return " and ".join(parts) or "how it differs is not known"


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


def _donation(members: Sequence[Explained]) -> str:
    return (
        f"The same computation at {cut_at(members)} with other buffers given away ({members[0].explanation.note}):"
        " a tensor"
        " was still referenced at one cut and not at the other."
    )


def _sharding(members: Sequence[Explained]) -> str:
    shown = members[0].explanation
    if shown.site is not None:
        return f"The sharding of {_input_name(shown)} differs{_now_before(shown)}."
    at = f" at {root_at(shown)}" if shown.frame is not None else ""
    return f"Sharding annotations differ{at}{_now_before(shown)}."


def _replaced(members: Sequence[Explained]) -> str:
    shown = members[0].explanation
    return (
        f"The module's parameters were replaced by new tensors at {root_at(shown)}; the optimizer still holds the"
        " old ones."
    )


_SAME = {
    SAME_COMPUTATION: "only which values share a node or a buffer differs (a run at level full says which)",
    SAME_ROOTS: "the hashes of its outputs are equal too, so the order of its inputs or the buffers given away moved",
    SAME_SIMPLIFIED: "the compiler simplified both to one program, so what differs is in nothing that it kept: a factor"
    " that became 1, a number or a branch without effect (`xla-insight run` keeps graphs as they were before that)",
    OTHER_ROOTS: "the hashes of its outputs differ, so an attribute differs that the graph does not show",
}

_SUMMARIES: dict[str, Words] = {
    "first_graph": _first,
    "warm_up": _warm_up,
    "mode_switch": _mode_switch,
    "input_shape": _input,
    "input_dtype": _input,
    "data_dependent_shape": _data_dependent,
    "python_shape": _python_shape,
    "baked_value": _baked,
    "special_scalar": _special,
    "shared_scalar": _shared,
    "control_flow": _control_flow,
    "graph_growth": _growth,
    "live_outputs": _live_outputs,
    "parameters_replaced": _replaced,
    "donation": _donation,
    "sharding": _sharding,
    "evicted": _evicted,
    "unknown": _unknown,
}
