"""Causes that show only in hindsight: graphs that grow without end, modes that alternate, odd members of a series.

Owns the second look at compiles that have a cause each. Pure; works on whole families.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import pandas as pd

from xla_insight.analysis.recompiles.evidence import Explanation, in_optimizer
from xla_insight.analysis.recompiles.explain import Explained
from xla_insight.analysis.recompiles.history import FamilyKey
from xla_insight.analysis.recompiles.library import GraphLibrary
from xla_insight.analysis.tables import RunTables
from xla_insight.graph.differences import DifferenceKind
from xla_insight.graph.model import Frame
from xla_insight.graph.nearest import Signature

_GROWING = frozenset({
    "control_flow", "warm_up", "live_outputs", "baked_value", "python_shape", "special_scalar", "unknown",
    "first_graph",
})  # fmt: skip
MIN_GROWTH = 3
ALIKE_GROWTH = 0.5
"""Share of what one graph added that the next one adds again."""
GROWING_SHARE = 0.5
"""Share of a family's graphs that must be part of a growth for any to be called so."""
MIN_FOLLOWING = 3
"""Graphs in which a size must follow a number that was read; fewer may do so by chance."""
CONTAINED_SHARE = 0.95
_MODES = frozenset({"control_flow", "unknown", "live_outputs"})
MAX_BLOCKS = 3
MAX_LEADING = 2
MAX_PERIOD = 64
_SERIES = frozenset({"input_shape", "python_shape", "baked_value", "data_dependent_shape"})
_LONE = frozenset({"control_flow", "special_scalar", "unknown", "live_outputs"})


def in_hindsight(explained: Sequence[Explained], tables: RunTables, library: GraphLibrary) -> tuple[Explained, ...]:
    """The same compiles in the same order, some with another cause."""
    if not explained:
        return ()
    found = list(explained)
    families: dict[FamilyKey, list[int]] = defaultdict(list)
    for index, item in enumerate(found):
        families[item.compile.family].append(index)
    sequences = _sequences(tables)
    for indexes in families.values():
        _growth(found, indexes, sequences, library)
        _sisters(found, indexes)
        _rewired(found, indexes)
        _read_sizes(found, indexes)
        _modes(found, indexes, sequences)
    return tuple(found)


# ---- growth ----------------------------------------------------------------------------------------------------------


def _growth(found: list[Explained], indexes: list[int], sequences: dict[int, list[str]], library: GraphLibrary) -> None:
    """Graphs that each contain the one before and never run again: something is carried along."""
    named = [i for i in indexes if found[i].compile.graph is not None]
    runs = Counter(
        graph for process in {found[i].compile.process for i in named} for graph in sequences.get(process, ())
    )
    stretch: list[int] = []
    stretches = [stretch]
    last: Signature | None = None
    for index in named:
        item = found[index]
        may_grow = item.explanation.cause in _GROWING and runs[item.compile.graph or ""] <= 1
        if may_grow and item.explanation.repeated:  # neither proof nor disproof: not compared
            stretch.append(index)
            continue
        signature = library.signature(item.compile.graph) if may_grow else None
        if signature is None or not (last is None or _contains(last, signature)):
            stretch = []
            stretches.append(stretch)
        last = signature
        if signature is not None:
            stretch.append(index)
    growing = [members for members in stretches if _is_growth(found, members, library)]
    # Sizes that go up and down rise three times in a row now and then; what is carried along grows nearly always.
    if sum(map(len, growing)) >= GROWING_SHARE * sum(map(len, stretches)):
        for members in growing:
            _relabel_growth(found, members, library)


def _is_growth(found: list[Explained], members: list[int], library: GraphLibrary) -> bool:
    compared = [found[i].compile.graph for i in members if not found[i].explanation.repeated]
    known = [signature for graph in compared if (signature := library.signature(graph)) is not None]
    return len(compared) >= MIN_GROWTH and _grows_alike(known)


def _grows_alike(graphs: Sequence[Signature]) -> bool:
    """Whether about the same is added each time: something is carried along, and not one thing after another."""
    added = [np.maximum(np.subtract(*reversed(x.common(y))), 0) for x, y in pairwise(graphs)]
    shares = [
        int(np.minimum(x, y).sum()) / smaller if (smaller := min(int(x.sum()), int(y.sum()))) else 1.0
        for x, y in pairwise(added)
    ]
    return 2 * sum(share >= ALIKE_GROWTH for share in shares) >= len(shares)


def _contains(smaller: Signature | None, larger: Signature) -> bool:
    """Whether nearly all operations of the smaller graph are in the larger one, which has more of them."""
    if smaller is None or larger.instructions <= smaller.instructions:
        return False
    ours, theirs = smaller.common(larger)
    return int(np.minimum(ours, theirs).sum()) >= CONTAINED_SHARE * int(ours.sum())


def _relabel_growth(found: list[Explained], members: list[int], library: GraphLibrary) -> None:
    compared = [found[i].compile.graph for i in members if not found[i].explanation.repeated]
    sizes = [s.instructions for graph in compared if (s := library.signature(graph)) is not None]
    note = f"{sizes[0]} {sizes[-1]}"
    reads = all(found[i].compile.is_read for i in members)
    roots = [found[i].explanation for i in members[1:] if found[i].explanation.frame is not None]
    root = roots[0] if roots else Explanation("graph_growth")
    for index in members:
        old = found[index].explanation
        if old.cause == "first_graph":
            continue
        source = old if old.frame is not None else root
        growth = replace(
            source, cause="graph_growth", expected=False, note=note, group=None, before="", now="",
            details=(("reads", int(reads)),),
        )  # fmt: skip
        found[index] = replace(found[index], explanation=growth)


# ---- modes -----------------------------------------------------------------------------------------------------------


def _modes(found: list[Explained], indexes: list[int], sequences: dict[int, list[str]]) -> None:
    """Variants that alternate in a pattern, or follow one another in a few blocks, and are used again."""
    graphs = {item.compile.graph for item in (found[i] for i in indexes) if item.compile.graph is not None}
    process = found[indexes[0]].compile.process
    executed = [graph for graph in sequences.get(process, ()) if graph in graphs]
    starts = _starts(found, indexes, Counter(executed))
    sequence = [starts.get(graph, graph) for graph in executed]
    if not _is_pattern(sequence):
        return
    used = Counter(sequence)
    for index in indexes:
        item = found[index]
        graph = item.compile.graph or ""
        compared = item.against is not None and item.explanation.note != "leftover"
        if compared and item.explanation.cause in _MODES and used[starts.get(graph, graph)] >= 2:
            mode = replace(item.explanation, cause="mode_switch", expected=True)
            found[index] = replace(item, explanation=mode)


def _starts(found: list[Explained], indexes: list[int], runs: Counter[str]) -> dict[str, str]:
    """Graph that ran once, to create state -> the graph that has this state as input and stands for both."""
    pairs = [
        (item.against, item.compile.graph)
        for item in (found[i] for i in indexes)
        if item.explanation.cause == "warm_up" and item.against is not None and item.compile.graph is not None
    ]
    starts: dict[str, str] = {}
    for first, then in reversed(pairs):
        if runs[first] == 1 and first != then:
            starts[first] = starts.get(then, then)
    return starts


def _is_pattern(sequence: Sequence[str]) -> bool:
    blocks = [(graph, len(list(run))) for graph, run in groupby(sequence)]
    if len(blocks) < 2:
        return False
    variants = len({graph for graph, _ in blocks})
    if len(blocks) <= MAX_BLOCKS + MAX_LEADING:
        for lead in range(MAX_LEADING + 1):
            rest = blocks[lead:]
            few = sum(n for _, n in blocks[:lead]) <= MAX_LEADING and 0 < len(rest) <= MAX_BLOCKS
            if few and len({graph for graph, _ in rest}) == len(rest) and all(n >= 2 for _, n in rest):
                return True
    return any(_is_periodic(blocks[lead:], variants) for lead in range(MAX_LEADING + 1))


def _is_periodic(blocks: list[tuple[str, int]], variants: int) -> bool:
    """Two full periods of blocks of equal graph and length; the first and the last block may be cut short."""
    for period in range(2, min(MAX_PERIOD, len(blocks) // 2) + 1):
        pairs = list(zip(blocks, blocks[period:], strict=False))
        if any(x[0] != y[0] for x, y in pairs):
            continue
        whole = [(x, y) for n, (x, y) in enumerate(pairs) if (n > 0 and n < len(pairs) - 1) or len(pairs) <= 2]
        if all(x[1] == y[1] for x, y in whole) and len(blocks) >= 2 * period and period >= min(variants, 2):
            return True
    return False


def _sequences(tables: RunTables) -> dict[int, list[str]]:
    """Process -> the graphs it executed, in order. Long stretches of one graph are kept as they are."""
    executions: pd.DataFrame = tables["executions"][["process", "time_ns", "graph"]]
    known = executions[executions["graph"].notna()]
    found = {}
    for process, rows in known.groupby("process"):
        ordered = rows if rows["time_ns"].is_monotonic_increasing else rows.sort_values("time_ns", kind="stable")
        graphs = ordered["graph"].astype("category").cat
        words = np.array([str(graph) for graph in graphs.categories], dtype=object)
        found[int(process)] = words[graphs.codes.to_numpy()].tolist()
    return found


# ---- sisters ---------------------------------------------------------------------------------------------------------


def _sisters(found: list[Explained], indexes: list[int]) -> None:
    """A lone graph whose earliest difference is where two others have theirs differs for the same reason: where a slice
    has full length it disappears, and looks like an operation removed; two halves of equal length share operations.
    """
    series: dict[object, list[Explanation]] = defaultdict(list)
    for index in indexes:
        explanation = found[index].explanation
        if explanation.cause in _SERIES and explanation.frame is not None:
            series[explanation.frame].append(explanation)
    for index in indexes:
        explanation = found[index].explanation
        if explanation.cause not in _LONE or explanation.frame is None:
            continue
        places = (explanation.frame, *dict(explanation.details).get("sized", ()))
        sisters = max((series.get(place, []) for place in places), key=len)
        if len(sisters) >= 2:
            cause, number = Counter(sister.cause for sister in sisters).most_common(1)[0]
            if number >= 2:
                model = next(sister for sister in sisters if sister.cause == cause)
                changed = replace(explanation, cause=cause, group=model.group, note=model.note)
                if explanation.frame != model.frame:
                    changed = replace(model, before="", now="", follows=explanation.follows, details=())
                found[index] = replace(found[index], explanation=changed)


def _rewired(found: list[Explained], indexes: list[int]) -> None:
    """The same operations on other tensors show first where the optimizer uses the gradients; where other graphs of the
    family branched is where this one did: another of several equal layers was left out.
    """
    branches: Counter[Frame] = Counter()
    for index in indexes:
        explanation = found[index].explanation
        if (
            explanation.cause == "control_flow"
            and explanation.frame is not None
            and not in_optimizer(explanation.stack)
        ):
            branches[explanation.frame] += 1
    for index in indexes:
        explanation = found[index].explanation
        if explanation.cause != "control_flow" or explanation.kind != DifferenceKind.OPERANDS or not branches:
            continue
        if in_optimizer(explanation.stack):
            frame = branches.most_common(1)[0][0]
            model = next(e for i in indexes if (e := found[i].explanation).frame == frame)
            changed = replace(explanation, stack=model.stack, operation=model.operation, group=model.group)
            found[index] = replace(found[index], explanation=replace(changed, before="", now="", inferred=True))


# ---- sizes that follow a value ---------------------------------------------------------------------------------------


def _read_sizes(found: list[Explained], indexes: list[int]) -> None:
    """A size that Python computed from a number it had read: in several graphs it is that number plus a constant."""
    places: dict[object, list[int]] = defaultdict(list)
    for index in indexes:
        explanation = found[index].explanation
        if explanation.cause == "python_shape" and (explanation.repeated or dict(explanation.details).get("reads")):
            places[explanation.frame].append(index)
    for members in places.values():
        compared = [dict(e.details) for i in members if not (e := found[i].explanation).repeated]
        if len(compared) >= MIN_FOLLOWING and _follow_reads(compared):
            for index in members:
                changed = replace(found[index].explanation, cause="data_dependent_shape", note="read")
                found[index] = replace(found[index], explanation=changed)


def _follow_reads(details: Sequence[dict[str, tuple[int, ...]]]) -> bool:
    rests = [{size - number for size in d["sizes"] for number in d["reads"]} for d in details]
    sizes = {d["sizes"] for d in details}
    reads = {d["reads"] for d in details}
    return len(sizes) >= MIN_FOLLOWING and len(reads) >= MIN_FOLLOWING and bool(set.intersection(*rests))
