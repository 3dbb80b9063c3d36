"""Ranks, collectives and shardings of a report as tables of an export, and as a few lines for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from xla_insight.facts import numbers
from xla_insight.facts.devices import CollectiveFacts, MeasuredDevice, RankFacts, ShardingFacts
from xla_insight.facts.report import Report
from xla_insight.report.export_files import report_batch

_RANKS: dict[str, Callable[[RankFacts], Any]] = {
    name: (lambda fact, name=name: getattr(fact, name))  # type: ignore[misc]
    for name in (
        "rank", "process", "host", "device", "devices", "spmd", "steps", "executions", "executions_per_device",
        "wall_s", "device_busy_s", "median_ms", "host_work_ms", "slowest_steps", "behind_s", "straggles",
    )
}  # fmt: skip
_DEVICES: dict[str, Callable[[MeasuredDevice], Any]] = {
    name: (lambda fact, name=name: getattr(fact, name))  # type: ignore[misc]
    for name in ("rank", "process", "device", "executions", "measured_s", "busy_s")
}
_COLLECTIVES: dict[str, Callable[[CollectiveFacts], Any]] = {
    "graph": lambda fact: fact.graph,
    "kind": lambda fact: fact.kind,
    "count": lambda fact: fact.count,
    "at_least": lambda fact: fact.looped,
    "payload_bytes": lambda fact: fact.payload_bytes,
    "graph_bytes": lambda fact: fact.graph_bytes,
    "shape": lambda fact: fact.shape,
    "group_size": lambda fact: fact.group_size,
    "groups": lambda fact: " ".join(",".join(map(str, group)) for group in fact.groups),
    "axes": lambda fact: " ".join(fact.axes),
    "executions": lambda fact: fact.executions,
    "file": lambda fact: fact.file,
    "line": lambda fact: fact.line,
}
_SHARDINGS: dict[str, Callable[[ShardingFacts], Any]] = {
    "process": lambda fact: fact.process,
    "parameter": lambda fact: fact.parameter,
    "dims": lambda fact: ",".join(map(str, fact.dims)),
    "bytes": lambda fact: fact.bytes,
    "bytes_per_device": lambda fact: fact.bytes_per_device,
    "pieces": lambda fact: fact.pieces,
    "placement": lambda fact: fact.placement,
    "axes": lambda fact: ",".join(axis or "" for axis in fact.axes),
    "sharding": lambda fact: fact.sharding,
}
_LISTED_KINDS = 3


def device_batches(report: Report) -> dict[str, pa.RecordBatch]:
    """``ranks``, ``devices`` (measured ones), ``collectives`` and ``shardings``, also when they have no row."""
    devices = report.devices
    listed: tuple[tuple[str, dict[str, Callable[[Any], Any]], tuple[Any, ...]], ...] = (
        ("ranks", _RANKS, devices.ranks if devices else ()),
        ("devices", _DEVICES, devices.measured if devices else ()),
        ("collectives", _COLLECTIVES, devices.collectives if devices else ()),
        ("shardings", _SHARDINGS, devices.shardings if devices else ()),
    )
    return {
        name: report_batch([{key: value(fact) for key, value in columns.items()} for fact in facts], tuple(columns))
        for name, columns, facts in listed
    }


def device_lines(report: Report) -> Iterator[str]:
    """What a terminal says of ranks and devices; nothing for one rank on one device."""
    devices = report.devices
    if devices is None or not (devices.spmd or devices.collectives or len({rank.rank for rank in devices.ranks}) > 1):
        return
    yield devices.summary
    if devices.collectives:
        graph = devices.collectives[0].graph
        totals: dict[str, tuple[int, int]] = {}
        for fact in devices.collectives:
            if fact.graph == graph:
                count, size = totals.get(fact.kind, (0, 0))
                totals[fact.kind] = count + fact.count, size + fact.graph_bytes
        ordered = sorted(totals.items(), key=lambda item: -item[1][1])
        words = [f"{numbers.count(count)} {kind} ({numbers.size(size)})" for kind, (count, size) in ordered]
        more = f" and {numbers.plural(len(words) - _LISTED_KINDS, 'other kind')}" if len(words) > _LISTED_KINDS else ""
        yield f"Exchanged by graph {numbers.short_hash(graph)}: {', '.join(words[:_LISTED_KINDS])}{more}."
    if devices.measured_summary:
        yield devices.measured_summary
    yield from devices.notes


def checkpoint_lines(report: Report) -> Iterator[str]:
    """What a terminal says of saving."""
    if report.checkpoints is not None and report.checkpoints.behind_s:
        yield report.checkpoints.summary
