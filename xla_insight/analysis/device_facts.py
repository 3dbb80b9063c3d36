"""Ranks and devices of a run: what each executed and waited for, who is slower than the others, what they exchange.

Owns the comparison of ranks step by step. Leaves the account of time to ``periods``, programs to ``collective_facts``
and placement to ``sharding_facts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.collective_facts import collective_facts
from xla_insight.analysis.device_busy import measured_devices, measured_sentence
from xla_insight.analysis.periods import rank_periods
from xla_insight.analysis.sharding_facts import mesh_facts, sharding_facts
from xla_insight.analysis.tables import Process, RunTables, integers
from xla_insight.analysis.time_account import process_account
from xla_insight.facts import numbers
from xla_insight.facts.devices import CollectiveFacts, DeviceFacts, MeshFacts, RankFacts, ShardingFacts
from xla_insight.facts.report import HostState, Period

STRAGGLES = 0.1
"""A rank straggles when its median step is longer than that of the middle rank by this share of it,"""
MOSTLY = 0.9
"""and when it is the slowest in this share of the steps."""
FEWEST_STEPS = 10
"""With fewer common steps, of those that compile nothing, nobody is said to straggle."""
_NO_PROGRAM = "What the devices exchange is not known: no program was kept (recording began too late, or was damaged)."


def device_facts(tables: RunTables, main: Process | None) -> DeviceFacts | None:
    """What is known of ranks and devices; None for a run without a process."""
    if main is None:
        return None
    ranks = _compared(tables, [_rank(tables, period) for period in rank_periods(tables)])
    meshes = mesh_facts(tables, main.index)
    found, read, notes = collective_facts(tables, meshes)
    spmd = any(rank.spmd for rank in ranks) or bool(meshes)
    shardings = sharding_facts(tables, main.index, meshes)
    said = (*notes, _NO_PROGRAM) if spmd and not read else notes
    measured = tuple(one for process in tables.processes for one in measured_devices(tables, process))
    return DeviceFacts(
        ranks=tuple(ranks),
        spmd=spmd,
        meshes=meshes,
        collectives=found,
        shardings=shardings,
        graphs_read=read,
        summary=_summary(ranks, meshes, found, shardings),
        notes=said,
        measured=measured,
        measured_summary=measured_sentence(measured),
    )


def _rank(tables: RunTables, period: Period) -> RankFacts:
    process = next(entry for entry in tables.processes if entry.index == period.process)
    listed = process.facts.get("devices")
    devices = len(listed) if isinstance(listed, list | tuple) else None
    # A process that was killed did not say; a mesh is recorded under SPMD only.
    spmd = process.facts.get("spmd") is True or not tables.of("meshes", process.index).empty
    executions = len(tables.of("executions", process.index))
    durations = integers(tables.of("steps", process.index)["duration_ns"])
    waits = process_account(tables, process.index).steps.host[:, STATES.index(HostState.DEVICE_WAIT)]
    host, device = process.facts.get("host"), process.facts.get("device")
    return RankFacts(
        rank=period.rank,
        process=period.process,
        host=str(host) if host else None,
        device=str(device) if device else None,
        devices=devices,
        spmd=spmd,
        steps=period.steps,
        executions=executions,
        executions_per_device=executions if spmd or devices == 1 else None,
        wall_s=period.wall_s,
        device_busy_s=period.device_busy_s,
        median_ms=float(np.median(durations)) / 1e6,
        host_work_ms=float(np.median(durations - waits)) / 1e6,
    )


def _compared(tables: RunTables, ranks: Sequence[RankFacts]) -> list[RankFacts]:
    """The ranks with how they did in the steps that all of them have."""
    if len({rank.rank for rank in ranks}) < 2:
        return list(ranks)
    durations = _wide(ranks, _durations(tables)).dropna()
    if durations.empty:
        return list(ranks)
    least = durations.min(axis=1)
    longest = durations.eq(durations.max(axis=1), axis=0)
    alone = longest[longest.sum(axis=1) == 1].sum()
    compiled = set(tables["compiles"]["step"].dropna().astype(int))
    usual = durations[~durations.index.isin(compiled)]
    work = _wide(ranks, _host_work(tables, ranks)).reindex(usual.index)
    step_ns = float(usual.median().median()) if len(usual) >= FEWEST_STEPS else 0.0
    return [
        replace(
            rank,
            slowest_steps=int(alone[rank.process]),
            behind_s=float((durations[rank.process] - least).sum()) / 1e9,
            # Where ranks wait for each other all steps are equally long: then the one is late whose host works longer.
            straggles=step_ns > 0 and any(_is_late(wide, rank.process, step_ns) for wide in (usual, work)),
        )
        for rank in ranks
    ]


def _is_late(wide: pd.DataFrame, process: int, step_ns: float) -> bool:
    """Whether one column is larger than the middle of the others, by much and nearly always."""
    others = wide.drop(columns=process)
    more_ns = float(wide[process].median()) - float(others.median().median())
    return more_ns > STRAGGLES * step_ns and float((wide[process] > others.max(axis=1)).mean()) >= MOSTLY


def _durations(tables: RunTables) -> pd.DataFrame:
    return tables["steps"][["process", "step", "duration_ns"]]


def _host_work(tables: RunTables, ranks: Sequence[RankFacts]) -> pd.DataFrame:
    """As `_durations`, without the time in which the host waited for the device."""
    waiting = STATES.index(HostState.DEVICE_WAIT)
    parts = []
    for rank in ranks:
        steps = tables.of("steps", rank.process)[["process", "step", "duration_ns"]]
        waits = process_account(tables, rank.process).steps.host[:, waiting]
        parts.append(steps.assign(duration_ns=steps["duration_ns"] - waits))
    return pd.concat(parts)


def _wide(ranks: Sequence[RankFacts], steps: pd.DataFrame) -> pd.DataFrame:
    """A row a step, a column a process; missing where a rank has no such step."""
    wide = steps.pivot_table(index="step", columns="process", values="duration_ns", aggfunc="sum")
    return wide.reindex(columns=[rank.process for rank in ranks])


def _summary(
    ranks: Sequence[RankFacts],
    meshes: Sequence[MeshFacts],
    found: Sequence[CollectiveFacts],
    shardings: Sequence[ShardingFacts],
) -> str:
    """The one sentence of the page."""
    sentences = [_size(ranks, meshes)]
    late = [rank for rank in ranks if rank.straggles]
    if late:
        worst = max(late, key=lambda rank: rank.behind_s or 0.0)
        behind = numbers.duration(worst.behind_s)
        sentences.append(f"Rank {worst.rank} is behind: its steps took {behind} longer than the fastest rank's.")
    if found:
        graph = found[0].graph
        own = [fact for fact in found if fact.graph == graph]
        count, size = sum(fact.count for fact in own), sum(fact.graph_bytes for fact in own)
        sentences.append(
            f"The graph {numbers.short_hash(graph)} runs {numbers.plural(count, 'collective')} of"
            f" {numbers.size(size)} on each device."
        )
    if len(ranks) == 1 and not found and not shardings and not meshes:
        sentences.append("There is nothing to compare it with, and nothing that devices exchange was recorded.")
    cut = [fact for fact in shardings if (fact.pieces or 1) > 1]
    if shardings:
        sentences.append(f"{len(cut)} of {numbers.plural(len(shardings), 'parameter')} are cut into pieces.")
    return " ".join(sentences)


def _size(ranks: Sequence[RankFacts], meshes: Sequence[MeshFacts]) -> str:
    distinct = len({rank.rank for rank in ranks})
    devices = [rank.devices for rank in ranks if rank.devices]
    parts = [numbers.plural(distinct, "rank")] if distinct != 1 else ["One rank"]
    if len(devices) == len(ranks) and devices:
        parts.append(numbers.plural(sum(devices), "device"))
    text = " with ".join(parts)
    if meshes:
        axes = ", ".join(f"{name}={size}" for name, size in meshes[0].axes)
        text += f", arranged as {axes}"
    return f"{text}."


def steps_by_rank(tables: RunTables, ranks: Sequence[RankFacts]) -> pd.DataFrame:
    """How long each step took on each rank, in ms: a row a step, a column a process; missing where a rank has none."""
    return _wide(ranks, _durations(tables)) / 1e6
