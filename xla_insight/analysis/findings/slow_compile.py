"""Finding `slow_compile`: one graph is so large that compiling it takes longer than all its work.

Owns what "large" means (number of instructions, so that a busy machine does not decide) and what repeats in it.
"""

from __future__ import annotations

import re
from collections import Counter

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.recompiles import Explained
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity
from xla_insight.graph.model import Frame, Graph, Instruction
from xla_insight.graph.roots import site_of

LARGE = 4_000
"""Instructions, in all computations of the graph, but for those of an optimizer: it has some for each parameter, which
no loop of the program asked for."""
UNROLLED = 2_000
"""From so many on a loop is told, as information, that the graph repeats and that a notable part of the run waited for.
"""
NOTABLE_SHARE = 0.2
LONGER = 3
REPEATS = 20
_OPTIMIZER = re.compile(r"[/\\]torch[/\\]optim[/\\]")


def slow_compile(context: Context) -> tuple[Finding, ...]:
    """One finding for each place where a large graph was compiled, for the largest of its graphs."""
    largest: dict[object, tuple[int, Explained]] = {}
    for item in context.explained:
        if item.explanation.repeated:  # as large as the graph it was taken for the like of, which is among the others
            continue
        signature = context.library.signature(item.compile.graph) if context.library else None
        if signature is None or not item.compile.compile_ns:
            continue
        count = max(signature.instructions, largest.get(item.compile.place, (0, item))[0])
        if count == signature.instructions:
            largest[item.compile.place] = (count, item)
    return tuple(found for _, item in largest.values() if (found := _finding(context, item)) is not None)


def _finding(context: Context, item: Explained) -> Finding | None:
    prepared = context.library.prepared(item.compile.graph) if context.library else None
    if prepared is None or prepared.graph.instruction_count < UNROLLED:
        return None
    compile_s, (variants, all_s, run_s) = (item.compile.compile_ns or 0) / 1e9, _at_this_place(context, item)
    if all_s <= LONGER * run_s:
        return None
    own, repeated = _own_instructions(prepared.graph), _repeated(prepared.graph)
    notable = own >= UNROLLED and repeated is not None and context.share_of_wall(compile_s) >= NOTABLE_SHARE
    if own < LARGE and not notable:
        return None
    place, count = item.compile.place, prepared.graph.instruction_count
    took = numbers.duration(compile_s)
    if variants > 1:
        took += f" ({numbers.duration(all_s)} with {numbers.plural(variants - 1, 'variant')} of it)"
    text = (
        f"The graph cut at {numbers.where(place.site, place.user_site)} has {numbers.count(count)} instructions:"
        f" compiling it took {took}, all its executions {numbers.duration(run_s)}"
    )
    details: dict[str, object] = {"instructions": count, "execute_s": run_s}
    if repeated is not None:
        copies, operation, frame = repeated
        text += f"; {operation} at {numbers.place(frame.file, frame.line)} is in it {numbers.count(copies)} times"
        details["repeated"] = {"operation": operation, "file": frame.file, "line": frame.line, "copies": copies}
    return Finding(
        id="slow_compile",
        severity=context.severity(compile_s) if own >= LARGE else Severity.INFO,
        site=place.site,
        user_site=place.user_site,
        count=1,
        cost_s=compile_s,
        summary=text + ".",
        advice=(
            "Python unrolled a loop into the graph. Use torch_xla's scan (or scan_layers for equal layers), unroll"
            " fewer"
            " steps, or cut the graph inside the loop."
        ),
        details=details,
    )


def _at_this_place(context: Context, item: Explained) -> tuple[int, float, float]:
    """How many graphs the family has, and the seconds of their first compiles and of their executions.

    The graph of the first step runs once by nature: what it did for the run shows in the one that took its place.
    """
    compiled: dict[str | None, int] = {}
    for other in context.explained:
        if other.compile.family == item.compile.family and not other.explanation.repeated:
            compiled.setdefault(other.compile.graph, other.compile.compile_ns or 0)
    executions = context.tables.of("executions", item.compile.process)
    run_ns = executions["duration_ns"][executions["graph"].isin(list(compiled)).to_numpy(dtype=bool)].sum()
    return len(compiled), sum(compiled.values()) / 1e9, float(run_ns) / 1e9


def _in_optimizer(instruction: Instruction) -> bool:
    return any(_OPTIMIZER.search(frame.file) for frame in instruction.metadata.stack)


def _own_instructions(graph: Graph) -> int:
    """Instructions but for those of an optimizer."""
    return graph.instruction_count - sum(_in_optimizer(instruction) for instruction in graph.instructions)


def _repeated(graph: Graph) -> tuple[int, str, Frame] | None:
    """(copies, operation, line) of what is written once in the source and stands in the graph most often."""
    counts: Counter[tuple[str, Frame]] = Counter()
    written = [instruction for instruction in graph.instructions if not _in_optimizer(instruction)]
    for instruction in written:
        frame = site_of(instruction.metadata.stack)
        if frame is not None and instruction.opcode in ("dot", "convolution", "custom-call"):
            counts[instruction.metadata.op_type, frame] += 1
    if not counts:
        for instruction in written:
            frame = site_of(instruction.metadata.stack)
            if frame is not None and instruction.metadata.op_type.startswith("aten__"):
                counts[instruction.metadata.op_type, frame] += 1
    if not counts:
        return None
    (op_type, frame), copies = counts.most_common(1)[0]
    return (copies, op_type.removeprefix("aten__"), frame) if copies >= REPEATS else None
