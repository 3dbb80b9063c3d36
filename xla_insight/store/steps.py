"""The table ``steps``: which marks count, what stands for them where there are none, and their numbers.

A step covers (end of the one before, its own end]; the first begins with the recording. Numbers are the recorder's own
while they rise, so that a lost mark does not shift those after it. Marks are read as columns: a run has a million of
them, and a query over windows of rows takes most of the time of opening it. Leaves which step an instant belongs to to
``step_index``.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from xla_insight.facts.events import Kind, StepSource, Trigger
from xla_insight.store.columns import ProcessColumns, Wanted, read_columns

_SCHEMA = pa.schema(
    [
        ("process", pa.int32()),
        ("rank", pa.int32()),
        ("step", pa.int32()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("duration_ns", pa.int64()),
        ("source", pa.string()),
        ("inferred", pa.bool_()),
    ]
)
_LARGEST_NUMBER = 1e9
_WANTED = {"marks": Wanted((Kind.STEP,), ("name", "value"))}
_NO_STEP_SYNCS = ", ".join(f"'{trigger}'" for trigger in (
    Trigger.FORCED, Trigger.READ, Trigger.AUTOGRAD, Trigger.DYNAMO_COMPILE,
))  # fmt: skip


# A compiled function cuts twice at the line that calls it, before and after its body: one of the two ends the step.
# Where dynamo runs graphs, a sync at the end of the step may have nothing left to run, and still ends it; without one,
# the call of the compiled function does.
_INFERRED = f"""
WITH dynamo AS (
    SELECT DISTINCT process FROM log WHERE kind = '{Kind.SYNC}' AND name = '{Trigger.DYNAMO_EXECUTE}'
), cuts AS (
    SELECT e.process, e.time_ns + coalesce(e.duration_ns, 0) AS end_ns,
           e.value > 0 OR e.process IN (SELECT process FROM dynamo) AS ran,
           e.name = '{Trigger.DYNAMO_EXECUTE}' AS called,
           coalesce(s.user_file, s.file) AS file, coalesce(s.user_line, s.line) AS line,
           CASE WHEN e.name = '{Trigger.COMPILED_FUNCTION}' THEN e.site ELSE -1 END AS part
    FROM log e JOIN sites s ON s.process = e.process AND s.site = e.site
    WHERE e.kind = '{Kind.SYNC}' AND (e.duration_ns IS NOT NULL OR e.name = '{Trigger.DYNAMO_EXECUTE}')
      AND e.name NOT IN ({_NO_STEP_SYNCS})
      AND NOT list_contains([{{marked}}]::INTEGER[], e.process)
), lines AS (
    SELECT process, file, line, part, row_number() OVER (
        PARTITION BY process
        ORDER BY count(*) FILTER (ran) DESC, bool_and(called), count(*) DESC, max(end_ns) DESC, file, line
    ) AS place
    FROM cuts WHERE file IS NOT NULL AND line IS NOT NULL GROUP BY process, file, line, part
)
SELECT c.process, c.end_ns FROM cuts c JOIN lines USING (process, file, line, part) WHERE lines.place = 1
ORDER BY c.process, c.end_ns
"""


def create_steps(
    connection: duckdb.DuckDBPyConnection, parts: Sequence[ProcessColumns], beginnings: Sequence[tuple[int, int]]
) -> pa.Table:
    """Make the table of all processes, each given with its rank and when it began (ns of the run). Returns its rows, in
    order of process and end."""
    marks = read_columns(parts, _WANTED)["marks"]
    owners = marks["process"].to_numpy()
    edges = np.searchsorted(owners, np.arange(len(parts) + 1))
    found = {n: _best(marks.slice(edges[n], edges[n + 1] - edges[n])) for n in range(len(parts))}
    ends = {process: best for process, best in found.items() if best is not None}
    tables = [_table(process, beginnings[process], *best, inferred=False) for process, best in ends.items()]
    if len(ends) < len(parts):
        rows = connection.sql(_INFERRED.format(marked=", ".join(map(str, ends)))).to_arrow_table()
        owners, cuts = rows["process"].to_numpy(), rows["end_ns"].to_numpy()
        for process in np.unique(owners).tolist():
            mine = cuts[owners == process]
            unknown = np.full(len(mine), np.nan)
            tables.append(_table(process, beginnings[process], StepSource.SYNC_SITE, mine, unknown, inferred=True))
    tables.sort(key=lambda table: table["process"][0].as_py() if table.num_rows else -1)
    steps = pa.concat_tables([_SCHEMA.empty_table(), *tables])
    connection.register("arriving", steps)
    connection.execute("CREATE TABLE steps AS SELECT * FROM arriving")
    connection.unregister("arriving")
    return steps


def _best(marks: pa.Table) -> tuple[str, NDArray[np.int64], NDArray[np.float64]] | None:
    """The source of the marks of a process that count, their times and numbers; None when it has none."""
    names = marks["name"].combine_chunks()
    codes, words = names.indices.fill_null(-1).to_numpy(zero_copy_only=False), names.dictionary.to_pylist()
    for source in StepSource:
        if source in words and (mine := codes == words.index(source)).any():
            values = marks["value"].to_numpy().astype(np.float64)
            return source, marks["time_ns"].to_numpy()[mine], values[mine]
    return None


def _table(
    process: int,
    beginning: tuple[int, int],
    source: str,
    ends: NDArray[np.int64],
    numbers: NDArray[np.float64],
    *,
    inferred: bool,
) -> pa.Table:
    rank, begin_ns = beginning
    after = ends > begin_ns
    ends, numbers = ends[after], numbers[after]
    whole = (numbers == np.trunc(numbers)) & (numbers >= 0) & (numbers <= _LARGEST_NUMBER)
    rising = bool(len(ends)) and bool(whole.all()) and bool((numbers[1:] > numbers[:-1]).all())
    starts = np.concatenate([[begin_ns], ends[:-1]])[: len(ends)].astype(np.int64)
    columns = [
        np.full(len(ends), process, np.int32),
        np.full(len(ends), rank, np.int32),
        (numbers if rising else np.arange(len(ends))).astype(np.int32),
        starts,
        ends,
        ends - starts,
        pa.repeat(str(source), len(ends)),
        np.full(len(ends), inferred),
    ]
    return pa.table([pa.array(column) for column in columns], schema=_SCHEMA)
