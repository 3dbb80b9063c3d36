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
from xla_insight.analysis.periods import rank_periods
from xla_insight.analysis.sharding_facts import mesh_facts, sharding_facts
from xla_insight.analysis.tables import Process, RunTables, integers
from xla_insight.analysis.time_account import process_account
from xla_insight.facts import numbers
from xla_insight.facts.devices import CollectiveFacts, DeviceFacts, MeshFacts, RankFacts, ShardingFacts
from xla_insight.facts.report import HostState, Period

STRAGGLES = 1.1
"""A rank straggles when its median step is this many times that of the middle rank."""
FEWEST_STEPS = 5
"""With fewer common steps nobody is said to straggle."""
_PER_DEVICE = "When each single device of a process was busy is not recorded: times are of all its devices together."
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
    said = [*notes]
    if spmd:
        said.append(_PER_DEVICE)
        if not read:
            said.append(_NO_PROGRAM)
    return DeviceFacts(
        ranks=tuple(ranks),
        spmd=spmd,
        meshes=meshes,
        collectives=found,
        shardings=shardings,
        graphs_read=read,
        summary=_summary(ranks, meshes, found, shardings),
        notes=tuple(said),
    )


def _rank(tables: RunTables, period: Period) -> RankFacts:
    process = next(entry for entry in tables.processes if entry.index == period.process)
    listed = process.facts.get("devices")
    devices = len(listed) if isinstance(listed, list | tuple) else None
    spmd = process.facts.get("spmd") is True
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
    steps = tables["steps"][["process", "step", "duration_ns"]]
    wide = steps.pivot_table(index="step", columns="process", values="duration_ns", aggfunc="sum")
    wide = wide[[rank.process for rank in ranks]].dropna()
    if wide.empty:
        return list(ranks)
    least = wide.min(axis=1)
    slowest = wide.idxmax(axis=1).value_counts()
    medians = {rank.process: float(wide[rank.process].median()) for rank in ranks}
    work = {rank.process: rank.host_work_ms for rank in ranks}
    enough = len(wide) >= FEWEST_STEPS
    return [
        replace(
            rank,
            slowest_steps=int(slowest.get(rank.process, 0)),
            behind_s=float((wide[rank.process] - least).sum()) / 1e9,
            straggles=enough and (_stands_out(medians, rank.process) or _waited_for(medians, work, rank.process)),
        )
        for rank in ranks
    ]


def _stands_out(values: dict[int, float], process: int) -> bool:
    """Whether one value is much larger than the middle of the others."""
    others = [value for key, value in values.items() if key != process]
    return values[process] > STRAGGLES * float(np.median(others))


def _waited_for(medians: dict[int, float], work: dict[int, float], process: int) -> bool:
    """Whether ranks that take equally long wait for this one: it alone spends the time at work of its host."""
    others = [value for key, value in work.items() if key != process]
    more_ns = (work[process] - float(np.median(others))) * 1e6
    return more_ns > (STRAGGLES - 1) * float(np.median(list(medians.values())))


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
    steps = tables["steps"][["process", "step", "duration_ns"]]
    wide = steps.pivot_table(index="step", columns="process", values="duration_ns", aggfunc="sum") / 1e6
    return wide.reindex(columns=[rank.process for rank in ranks])
