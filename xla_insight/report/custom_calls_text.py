"""The custom calls of graphs for a terminal. Leaves finding them to ``analysis``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import RenderableType
from rich.text import Text

from xla_insight.analysis.custom_calls import CustomCall, GraphCalls
from xla_insight.facts import numbers
from xla_insight.report.text import hanging, plain_line, write_parts


def print_custom_calls(graphs: Sequence[GraphCalls], looked_at: int, stream: TextIO) -> None:
    """Write the list, one graph after the other. ``looked_at``: graphs that could be read, with or without calls."""
    write_parts(_parts(graphs, looked_at), stream)


def _parts(graphs: Sequence[GraphCalls], looked_at: int) -> Iterator[RenderableType]:
    looked = numbers.plural(looked_at, "graph")
    if not graphs:
        unknown = "No graph was kept, so custom calls are not known."
        yield Text(f"No custom calls in {looked}." if looked_at else unknown)
        return
    yield Text(f"Custom calls in {numbers.count(len(graphs))} of {looked}", style="bold")
    for graph in graphs:
        yield Text("")
        yield Text(_headline(graph))
        for call in graph.calls:
            yield hanging("  ", Text(_sentence(call)))
    if any(call.device_pct is None and not call.replaced for graph in graphs for call in graph.calls):
        yield Text(
            "\n~ share of the bytes that instructions read and write: only device windows time single instructions."
        )


def _headline(graph: GraphCalls) -> str:
    if graph.executions is None:
        parts = [plain_line(numbers.short_path(graph.graph))]
    else:
        parts = [f"graph {numbers.short_hash(graph.graph)}"]
        parts.append(f"ran {numbers.plural(graph.executions, 'time')}")
    if graph.device_s is not None:
        parts.append(f"{numbers.duration(graph.device_s, inferred=True)} on the device")
    calls = sum(call.count for call in graph.calls)
    parts.append(f"{numbers.plural(calls, 'call')} in {numbers.plural(graph.instructions, 'instruction')}")
    return " · ".join(parts)


def _sentence(call: CustomCall) -> str:
    times = f"{numbers.count(call.count)} x " if call.count > 1 else ""
    shapes = f"({', '.join(call.operands)}) -> {call.result}"
    where = "" if call.site is None else f", from {numbers.place(call.site.file, call.site.line)}"
    timed = f"{numbers.percent(call.device_pct)} of its device time, measured"
    if call.replaced:
        timed = timed if call.device_pct is not None else "time n/a"
        share = f"{timed} (the compiler put instructions of its own in its place)"
    elif call.device_pct is None:
        share = f"{numbers.percent(call.bytes_pct, inferred=True)} of its bytes"
    else:
        share = timed
    return plain_line(f"{times}{call.target or 'without a target'} {shapes}: {share}{where}")
