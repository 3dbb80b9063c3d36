"""The tables of a run as SQL over its log: what ``xla-insight sql``, exports and the analysis read.

Owns the names and columns of the tables and which step an event belongs to. Each view reads only the rows of its own
kinds. Leaves where the log comes from to ``database``.
"""

from __future__ import annotations

from collections.abc import Iterable

from xla_insight.facts.events import CacheOutcome, Kind, Trigger
from xla_insight.store.step_index import FUNCTION

TABLES = (
    "events",
    "processes",
    "steps",
    "syncs",
    "compiles",
    "executions",
    "reads",
    "host_spans",
    "samples",
    "transfers",
    "inputs",
    "counters",
    "graphs",
    "sites",
    "sources",
    "meshes",
    "shardings",
    "stale_optimizers",
    "loader_errors",
    "faults",
    "losses",
    "marks",
    "threads",
    "windows",
)

HOST_KINDS = (
    Kind.SYNC,
    Kind.READ,
    Kind.INPUT_WAIT,
    Kind.DEVICE_WAIT,
    Kind.CHECKPOINT,
    Kind.GC,
    Kind.BACKWARD,
    Kind.COMPILE,
    Kind.TRANSFER,
)

COMMON_KINDS = (
    Kind.SYNC,
    Kind.READ,
    Kind.EXECUTION,
    Kind.TRANSFER,
    Kind.DEVICE_WAIT,
    Kind.INPUT_WAIT,
    Kind.CHECKPOINT,
    Kind.GC,
    Kind.BACKWARD,
    Kind.STEP,
    Kind.INPUT,
    Kind.COUNTER,
    Kind.SAMPLE,
)
"""Kinds of which there are some in every step; rows of the others are few."""


def _listed(kinds: Iterable[Kind]) -> str:
    return ", ".join(f"'{kind}'" for kind in kinds)


# Many tables hold a handful of rows. To find them among millions takes longer than to keep them once.
RARE = f"CREATE TABLE rare AS SELECT * FROM log WHERE kind NOT IN ({_listed(COMMON_KINDS)})"

SITES = f"""
CREATE TABLE sites AS
WITH defined AS (
    SELECT process, site, any_value(name ORDER BY time_ns) AS name
    FROM rare WHERE kind = '{Kind.SITE}' AND site IS NOT NULL GROUP BY process, site
), parsed AS (
    SELECT process, site, CASE WHEN json_valid(name) THEN name::JSON END AS j FROM defined
)
SELECT process, site,
       j->>'$.site[0]' AS file, try_cast(j->>'$.site[1]' AS INTEGER) AS line, j->>'$.site[2]' AS function,
       j->>'$.user_site[0]' AS user_file, try_cast(j->>'$.user_site[1]' AS INTEGER) AS user_line,
       j->>'$.user_site[2]' AS user_function,
       j->>'$.source' AS source, j->>'$.user_source' AS user_source,
       CASE WHEN json_type(j, '$.stack') = 'ARRAY' THEN j->>'$.stack' END AS stack
FROM parsed ORDER BY process, site
"""

_SITE = "e.site, s.file, s.line, s.function, s.user_file, s.user_line, s.user_function"
_TOLD = "process, rank, time_ns, name AS what, value AS count, detail AS why"
_SITES = "LEFT JOIN sites s ON s.process = e.process AND s.site = e.site"
_STEP = f"{FUNCTION}(e.process, e.time_ns) AS step"
_WHO = f"e.process, e.rank, {_STEP}, e.time_ns"
_CUT_NS = "try(e.dims[1] + e.offset_ns)"
# A graph belongs to the step that cut it: its dispatch may come after the mark that ends the step.
_CUT_STEP = f"{FUNCTION}(e.process, coalesce({_CUT_NS}, e.time_ns)) AS step"
_WHO_CUT = f"e.process, e.rank, {_CUT_STEP}, e.time_ns"


def _of(*kinds: Kind) -> str:
    """The rows of some kinds, as ``e`` of a FROM clause."""
    rows = "log" if set(kinds) & set(COMMON_KINDS) else "rare"
    return f"(SELECT * FROM {rows} WHERE kind IN ({_listed(kinds)})) e"


_CUTS = f"""(
    SELECT * FROM log WHERE kind = '{Kind.SYNC}'
    UNION ALL
    SELECT * FROM log WHERE kind IN ('{Kind.READ}', '{Kind.BACKWARD}') AND value > 0
) e"""
_CUT_TRIGGER = f"""CASE e.kind WHEN '{Kind.READ}' THEN '{Trigger.READ}'
    WHEN '{Kind.BACKWARD}' THEN '{Trigger.AUTOGRAD}' ELSE e.name END"""

VIEWS = {
    "events": f"""
        SELECT {_WHO}, e.duration_ns, e.kind, e.thread, e.graph, e.site, e.name, e.value, e.dims, e.detail
        FROM log e""",
    "syncs": f"""
        SELECT {_WHO}, e.duration_ns, e.thread, {_CUT_TRIGGER} AS trigger, try_cast(e.value AS INTEGER) AS executions,
               try_cast(e.dims[1] AS INTEGER) AS compiles, e.graph, {_SITE}
        FROM {_CUTS} {_SITES}""",
    "compiles": f"""
        SELECT {_WHO_CUT}, e.duration_ns, e.thread, e.graph, e.name AS trigger, e.detail AS sentence,
               {_CUT_NS} AS cut_ns, {_SITE}
        FROM {_of(Kind.COMPILE)} {_SITES}""",
    "executions": f"""
        SELECT {_WHO_CUT}, e.duration_ns, e.graph, e.name AS trigger, e.detail AS outcome,
               {_CUT_NS} AS cut_ns, {_SITE}
        FROM {_of(Kind.EXECUTION)} {_SITES}""",
    "reads": f"""
        SELECT {_WHO}, e.duration_ns, e.thread, e.name AS method, try_cast(e.value AS INTEGER) AS executions,
               try_cast(e.dims[1] AS INTEGER) AS compiles, e.detail AS scalar, {_SITE}
        FROM {_of(Kind.READ)} {_SITES}""",
    "host_spans": f"""
        SELECT {_WHO}, e.duration_ns, e.thread, e.kind, e.name, e.value, {_SITE}
        FROM {_of(*HOST_KINDS)} {_SITES}""",
    "samples": f"""
        SELECT {_WHO}, e.thread, {_SITE} FROM {_of(Kind.SAMPLE)} {_SITES}""",
    "transfers": f"""
        SELECT {_WHO}, e.duration_ns, e.thread, e.name AS direction, e.value AS bytes FROM {_of(Kind.TRANSFER)}""",
    "inputs": f"""
        SELECT {_WHO}, e.thread, e.name, e.dims, e.detail AS dtype, try_cast(e.value AS INTEGER) AS maker, {_SITE}
        FROM {_of(Kind.INPUT)} {_SITES}""",
    "counters": f"""
        SELECT {_WHO}, e.thread, e.name, e.value AS delta, e.duration_ns FROM {_of(Kind.COUNTER)}""",
    "loader_errors": f"""
        SELECT {_WHO}, e.thread, e.name AS exception, e.detail AS message, {_SITE}
        FROM {_of(Kind.LOADER_ERROR)} {_SITES}""",
    "stale_optimizers": f"""
        SELECT {_WHO}, e.thread, e.name AS optimizer, try_cast(e.value AS INTEGER) AS parameters, {_SITE}
        FROM {_of(Kind.STALE)} {_SITES}""",
    "meshes": f"""
        SELECT {_WHO}, e.name AS mesh, try_cast(e.value AS INTEGER) AS devices, e.dims, e.detail
        FROM {_of(Kind.MESH)}""",
    "shardings": f"""
        SELECT {_WHO}, e.name AS parameter, e.dims, try_cast(e.value AS BIGINT) AS bytes, e.detail AS sharding
        FROM {_of(Kind.SHARDING)}""",
    "faults": f"SELECT {_TOLD} FROM rare WHERE kind = '{Kind.FAULT}'",
    "losses": f"SELECT {_TOLD} FROM rare WHERE kind = '{Kind.LOST}'",
    "marks": f"SELECT process, rank, time_ns, name, detail FROM rare WHERE kind = '{Kind.MARK}'",
    "windows": f"""
        SELECT process, rank, time_ns, duration_ns, name, try_cast(value AS BIGINT) AS stop_ns,
               try_cast(dims[2] AS INTEGER) AS first_step, try_cast(dims[3] AS INTEGER) AS last_step,
               dims[1] AS wall_ns, dims[4] AS bytes, detail AS note
        FROM rare WHERE kind = '{Kind.WINDOW}' AND duration_ns IS NOT NULL""",
    "sources": f"""
        SELECT file, line, any_value(text ORDER BY process, time_ns) AS text FROM (
            SELECT process, time_ns, name AS file,
                   try_cast(dims[1] AS INTEGER) + generate_subscripts(string_split(detail, chr(10)), 1) - 1 AS line,
                   unnest(string_split(detail, chr(10))) AS text
            FROM rare WHERE kind = '{Kind.SOURCE}' AND name IS NOT NULL AND detail IS NOT NULL
        ) WHERE line IS NOT NULL GROUP BY file, line""",
    "threads": f"""
        SELECT process, rank, thread, any_value(name ORDER BY time_ns) AS name FROM rare
        WHERE kind = '{Kind.THREAD}' AND thread IS NOT NULL GROUP BY process, rank, thread""",
}

# The device runs one graph after the other: an execution is busy from its dispatch, or from when the one before it was
# ready. Without that clip the time in the queue would count once for each graph that waits there.
_BUSY = f"""
    SELECT graph, process, time_ns, detail, step,
           CASE WHEN duration_ns IS NOT NULL THEN greatest(0, time_ns + duration_ns - greatest(time_ns, coalesce(
               max(time_ns + duration_ns) OVER (
                   PARTITION BY process ORDER BY time_ns, duration_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
               ), time_ns))) END AS busy_ns
    FROM (SELECT e.process, e.graph, e.time_ns, e.duration_ns, e.detail, {_CUT_STEP} FROM {_of(Kind.EXECUTION)})"""

# How often a graph without a name ran is not known: its executions cannot be told from those of others.
_UNNAMED = "starts_with(named.graph, 'hlo-')"

GRAPHS = f"""
WITH defined AS (
    SELECT graph, max(dims[1]) AS inputs, max(dims[2]) AS outputs, max(dims[3]) AS input_bytes,
           max(dims[4]) AS output_bytes, max(dims[5]) AS aliased_bytes, max(dims[6]) AS temporary_bytes,
           max(dims[7]) AS program_bytes, arg_min(name, time_ns) AS trigger, arg_min(process, time_ns) AS process,
           arg_min(site, time_ns) AS site, count(DISTINCT process) AS processes, min(time_ns) AS first_time_ns
    FROM rare WHERE kind = '{Kind.GRAPH}' AND graph IS NOT NULL GROUP BY graph
), ran AS (
    SELECT graph, count(*) AS executions, count(*) FILTER (detail = '{CacheOutcome.HIT}') AS hits,
           try_cast(sum(busy_ns) AS BIGINT) AS device_ns, min(step) AS first_step, max(step) AS last_step,
           min(time_ns) AS first_time_ns, count(DISTINCT process) AS processes
    FROM ({_BUSY}) WHERE graph IS NOT NULL GROUP BY graph
), built AS (
    SELECT graph, count(*) AS compiles, try_cast(sum(duration_ns) AS BIGINT) AS compile_ns, min(step) AS first_step,
           max(step) AS last_step, min(time_ns) AS first_time_ns, count(DISTINCT process) AS processes
    FROM compiles WHERE graph IS NOT NULL GROUP BY graph
), named AS (
    SELECT graph FROM defined UNION SELECT graph FROM ran UNION SELECT graph FROM built
)
SELECT named.graph,
       nullif(inputs, -1) AS inputs, nullif(outputs, -1) AS outputs, nullif(input_bytes, -1) AS input_bytes,
       nullif(output_bytes, -1) AS output_bytes, nullif(aliased_bytes, -1) AS aliased_bytes,
       nullif(temporary_bytes, -1) AS temporary_bytes, nullif(program_bytes, -1) AS program_bytes,
       coalesce(compiles, 0) AS compiles, compile_ns,
       CASE WHEN NOT {_UNNAMED} THEN coalesce(executions, 0) END AS executions,
       CASE WHEN NOT {_UNNAMED} THEN coalesce(hits, 0) END AS hits, device_ns,
       least(built.first_step, ran.first_step) AS first_step, greatest(built.last_step, ran.last_step) AS last_step,
       least(built.first_time_ns, ran.first_time_ns, defined.first_time_ns) AS first_time_ns, trigger,
       s.site, s.file, s.line, s.function, s.user_file, s.user_line, s.user_function,
       greatest(coalesce(ran.processes, 0), coalesce(built.processes, 0), coalesce(defined.processes, 0)) AS processes
FROM named LEFT JOIN defined USING (graph) LEFT JOIN ran USING (graph) LEFT JOIN built USING (graph)
LEFT JOIN sites s ON s.process = defined.process AND s.site = defined.site
ORDER BY first_time_ns NULLS LAST, named.graph
"""
