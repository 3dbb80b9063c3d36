"""Finding `slow_compile`: one graph is so large that compiling it takes longer than all its work.

Owns what "large" means (number of instructions, so that a busy machine does not decide) and what repeats in it.
"""

from __future__ import annotations

from collections import Counter

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.recompiles import Explained
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding
from xla_insight.graph.model import Frame, Graph
from xla_insight.graph.roots import site_of

LARGE = 4_000
"""Instructions, in all computations of the graph."""
LONGER = 3
REPEATS = 20


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
    if prepared is None or prepared.graph.instruction_count < LARGE:
        return None
    compile_s = (item.compile.compile_ns or 0) / 1e9
    run_s = _run_s(context, item)
    if compile_s <= LONGER * run_s:
        return None
    place, count = item.compile.place, prepared.graph.instruction_count
    repeated = _repeated(prepared.graph)
    text = (
        f"The graph cut at {numbers.where(place.site, place.user_site)} has {numbers.count(count)} instructions:"
        f" compiling it took {numbers.duration(compile_s)}, all its executions {numbers.duration(run_s)}"
    )
    details: dict[str, object] = {"instructions": count, "execute_s": run_s}
    if repeated is not None:
        copies, operation, frame = repeated
        text += f"; {operation} at {numbers.place(frame.file, frame.line)} is in it {numbers.count(copies)} times"
        details["repeated"] = {"operation": operation, "file": frame.file, "line": frame.line, "copies": copies}
    return Finding(
        id="slow_compile",
        severity=context.severity(compile_s),
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


def _run_s(context: Context, item: Explained) -> float:
    executions = context.tables.of("executions", item.compile.process)
    own = executions[(executions["graph"] == item.compile.graph).to_numpy(dtype=bool)]
    return float(own["duration_ns"].sum()) / 1e9


def _repeated(graph: Graph) -> tuple[int, str, Frame] | None:
    """(copies, operation, line) of what is written once in the source and stands in the graph most often."""
    counts: Counter[tuple[str, Frame]] = Counter()
    for instruction in graph.instructions:
        frame = site_of(instruction.metadata.stack)
        if frame is not None and instruction.opcode in ("dot", "convolution", "custom-call"):
            counts[instruction.metadata.op_type, frame] += 1
    if not counts:
        for instruction in graph.instructions:
            frame = site_of(instruction.metadata.stack)
            if frame is not None and instruction.metadata.op_type.startswith("aten__"):
                counts[instruction.metadata.op_type, frame] += 1
    if not counts:
        return None
    (op_type, frame), copies = counts.most_common(1)[0]
    return (copies, op_type.removeprefix("aten__"), frame) if copies >= REPEATS else None
