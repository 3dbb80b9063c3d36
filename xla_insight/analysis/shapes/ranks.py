"""All ranks of a run as one: their processes laid one after another on one line of time.

Every rank pads with the same collator, so a plan is one for all of them, while each rank compiles for itself. What
follows can then take a run for one long process, and tells ranks apart by a column only. Owns reading the tables of
processes and that laying out; leaves batches and units to ``batches``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from xla_insight.analysis.shapes.batches import Frames, batch_inputs

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

QUERIES = {
    "inputs": "select time_ns, name, dims::varchar as dims, dtype, site from inputs"
    " where process = {process} and len(dims) > 0 order by time_ns",
    "executions": "select time_ns, duration_ns, graph, coalesce(cut_ns, time_ns) as cut_ns from executions"
    " where process = {process} order by time_ns",
    "compiles": "select duration_ns, graph, coalesce(cut_ns, time_ns) as cut_ns from compiles"
    " where process = {process} order by time_ns",
    "sites": "select site, file, line from sites where process = {process}",
}
GRAPHS = "select graph, inputs, outputs, input_bytes, output_bytes, aliased_bytes, temporary_bytes from graphs"
_BEFORE_ALL_NS = 10**18
"""How far what a process did before its first batch is moved away, so that it counts to no other's last batch."""


def load_frames(run: Run, processes: Iterable[tuple[int, int]]) -> Frames:
    """Read what the analysis of shapes needs of processes, each given as (index, rank)."""
    graphs = run.sql(GRAPHS, categories=True)
    parts = []
    for index, rank in sorted(processes, key=lambda process: (process[1], process[0])):
        found = {name: run.sql(query.format(process=int(index)), categories=True) for name, query in QUERIES.items()}
        parts.append(with_rank(Frames(**found, graphs=graphs), rank))
    return joined(parts)


def with_rank(frames: Frames, rank: int) -> Frames:
    """The tables of a process with the column that says whose they are."""
    return replace(
        frames,
        inputs=frames.inputs.assign(rank=rank),
        executions=frames.executions.assign(rank=rank),
        compiles=frames.compiles.assign(rank=rank),
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
