"""All ranks of a run as one: their processes laid one after another on one line of time.

Every rank pads with the same collator, so a plan is one for all of them, while each rank compiles for itself. What
follows can then take a run for one long process, and tells ranks apart by a column only. Owns choosing what
of their tables it needs, and that laying out; leaves batches and units to ``batches``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from xla_insight.analysis.intervals import Nanoseconds
from xla_insight.analysis.shapes.batches import Frames, batch_inputs
from xla_insight.analysis.tables import RunTables, integers

_BEFORE_ALL_NS = 10**18
"""How far what a process did before its first batch is moved away, so that it counts to no other's last batch."""


def frames_of_processes(tables: RunTables) -> Frames:
    """What the analysis of shapes needs of all processes of a run."""
    parts = [
        with_rank(_frames(tables, process.index), process.rank)
        for process in sorted(tables.processes, key=lambda process: (process.rank, process.index))
    ]
    return joined(parts)


def _frames(tables: RunTables, process: int) -> Frames:
    inputs, executions, compiles = (tables.of(name, process) for name in ("uploads", "executions", "compiles"))
    sized = ~inputs["dims"].isin(["[]", None]).to_numpy(dtype=np.bool_)
    inputs = inputs if sized.all() else inputs[sized]
    return Frames(
        inputs=_columns(inputs, "time_ns", "name", "dims", "dtype", "site"),
        executions=_columns(executions, "time_ns", "duration_ns", "graph").assign(cut_ns=_cuts(executions)),
        compiles=_columns(compiles, "duration_ns", "graph").assign(cut_ns=_cuts(compiles)),
        graphs=tables["graphs"],
        sites=tables.of("sites", process)[["site", "file", "line"]],
    )


def _columns(rows: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Some columns, in the memory of all of them: a long run has millions of rows."""
    return pd.DataFrame({name: rows[name] for name in names}, copy=False)


def _cuts(rows: pd.DataFrame) -> Nanoseconds:
    """When the cut of each row began; where that is not known, its own time."""
    cuts = rows["cut_ns"]
    return integers(cuts if cuts.notna().all() else cuts.fillna(rows["time_ns"]))


def with_rank(frames: Frames, rank: int) -> Frames:
    """The tables of a process with the column that says whose they are."""
    return replace(
        frames,
        inputs=frames.inputs.assign(rank=np.int32(rank)),
        executions=frames.executions.assign(rank=np.int32(rank)),
        compiles=frames.compiles.assign(rank=np.int32(rank)),
    )


def joined(parts: Sequence[Frames]) -> Frames:
    """The tables of one process that did what all of ``parts`` did, one after another.

    Ranks then count from 0 without gaps.
    """
    if len(parts) == 1:
        return _numbered(parts[0])
    places = pd.concat([part.sites for part in parts], keys=range(len(parts)))
    places["number"] = places["file"].astype(str) + ":" + places["line"].astype(str)
    places["number"] = pd.factorize(places["number"])[0]
    placed, end = [], 0
    for number, part in enumerate(parts):
        moved, end = _placed(part, end)
        # Every process numbers its lines for itself; the same line of all of them is one.
        lines = places.loc[[number]] if len(part.sites) else places[:0]
        site = moved.inputs["site"].map(dict(zip(lines["site"], lines["number"], strict=True)))
        placed.append(replace(moved, inputs=moved.inputs.assign(site=site)))
    tables = {
        name: pd.concat([getattr(part, name) for part in placed], ignore_index=True)
        for name in ("inputs", "executions", "compiles")
    }
    for name, order in (("inputs", "time_ns"), ("executions", "time_ns"), ("compiles", "cut_ns")):
        tables[name] = tables[name].sort_values(order, kind="stable", ignore_index=True)
    sites = places.drop_duplicates("number")[["number", "file", "line"]].rename(columns={"number": "site"})
    return _numbered(Frames(**tables, graphs=parts[0].graphs, sites=sites))


def _placed(part: Frames, begin: int) -> tuple[Frames, int]:
    """A process moved so that its first batch comes at ``begin``, and where its last execution ends then.

    Without any batch, all it did counts as done before the first one.
    """
    batches = batch_inputs(part.inputs)
    first = int(batches["time_ns"].min()) if len(batches) else None
    origin = first if first is not None else _BEFORE_ALL_NS

    def moved(frame: pd.DataFrame, by: str) -> pd.DataFrame:
        early = (frame[by] < origin).to_numpy()
        columns = [name for name in ("time_ns", "cut_ns") if name in frame]
        shift = begin - origin - early * (_BEFORE_ALL_NS + begin)
        return frame.assign(**{name: frame[name] + shift for name in columns})

    executions = moved(part.executions, "cut_ns")
    inputs = moved(part.inputs, "time_ns")
    ends = executions["time_ns"] + executions["duration_ns"].fillna(0)
    end = max([begin, *(int(times.max()) + 1 for times in (ends, inputs["time_ns"]) if len(times))])
    return replace(part, inputs=inputs, executions=executions, compiles=moved(part.compiles, "cut_ns")), end


def _numbered(frames: Frames) -> Frames:
    """With ranks as 0, 1, 2, …: those without a batch are left out of the counting, and what they did with it."""
    known = sorted(frames.inputs["rank"].unique().tolist())
    number = {rank: place for place, rank in enumerate(known)}
    renamed = {
        name: getattr(frames, name)[getattr(frames, name)["rank"].isin(known)].assign(
            rank=lambda frame: frame["rank"].map(number)
        )
        for name in ("inputs", "executions", "compiles")
    }
    return replace(frames, **{name: frame.reset_index(drop=True) for name, frame in renamed.items()})
