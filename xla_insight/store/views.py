"""The tables of a run as SQL over its events: what ``xla-insight sql``, exports and the analysis read.

Owns the names and columns of the tables. ``raw_KIND`` holds the events of one kind; everything else is a view.
"""

from __future__ import annotations

import duckdb

from xla_insight.facts.events import Kind

_SITE = "e.site, s.file, s.line, s.function, s.user_file, s.user_line, s.user_function"
_JOIN = "LEFT JOIN sites s ON s.process = e.process AND s.site = e.site"
_WHO = "e.process, e.rank, e.step, e.time_ns"
_HOST_KINDS = ("sync", "read", "input_wait", "device_wait", "checkpoint", "gc", "backward", "compile", "transfer")

TABLES = (
    "events",
    "processes",
    "steps",
    "syncs",
    "compiles",
    "executions",
    "reads",
    "host_spans",
    "transfers",
    "inputs",
    "counters",
    "graphs",
    "sites",
    "loader_errors",
    "faults",
    "losses",
    "marks",
    "threads",
)


def create_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Define every table of ``TABLES`` that is not registered already, over ``raw_*``, ``steps`` and ``processes``."""
    connection.execute(_events())
    connection.execute(_SITES)
    for name, query in _QUERIES.items():
        connection.execute(f"CREATE VIEW {name} AS {query}")
    connection.execute(f"CREATE VIEW executions_busy AS {_BUSY}")
    connection.execute(f"CREATE VIEW graphs AS {_GRAPHS}")


def _events() -> str:
    columns = "process, rank, time_ns, duration_ns, '{kind}' AS kind, step, thread, graph, site, name, value, dims, detail"
    parts = [f"SELECT {columns.format(kind=kind.value)} FROM raw_{kind.value}" for kind in Kind]
    return "CREATE VIEW events AS " + " UNION ALL ".join(parts)


# Materialised: every other view joins it, and parsing JSON again for each of them would be felt.
_SITES = """
CREATE TABLE sites AS
WITH parsed AS (
    SELECT process, site, CASE WHEN json_valid(name) THEN name::JSON END AS j,
           row_number() OVER (PARTITION BY process, site ORDER BY time_ns) AS nth
    FROM raw_site WHERE site IS NOT NULL
)
SELECT process, site,
       j->>'$.site[0]' AS file, try_cast(j->>'$.site[1]' AS INTEGER) AS line, j->>'$.site[2]' AS function,
       j->>'$.user_site[0]' AS user_file, try_cast(j->>'$.user_site[1]' AS INTEGER) AS user_line,
       j->>'$.user_site[2]' AS user_function,
       j->>'$.source' AS source, j->>'$.user_source' AS user_source, j->>'$.stack' AS stack
FROM parsed WHERE nth = 1
"""

_QUERIES = {
    "syncs": f"""
        SELECT {_WHO}, e.duration_ns, e.thread, e.name AS trigger, e.value::INTEGER AS executions,
               e.dims[1]::INTEGER AS compiles, e.graph, {_SITE}
        FROM (
            SELECT process, rank, step, time_ns, duration_ns, thread, name, value, dims, graph, site FROM raw_sync
            UNION ALL
            SELECT process, rank, step, time_ns, duration_ns, thread, 'read', value, dims, graph, site
            FROM raw_read WHERE value > 0
            UNION ALL
            SELECT process, rank, step, time_ns, duration_ns, thread, 'autograd', value, dims, graph, site
            FROM raw_backward WHERE value > 0
        ) e {_JOIN}""",
    "compiles": f"""
        SELECT {_WHO}, e.duration_ns, e.thread, e.graph, e.name AS trigger, e.detail AS sentence,
               e.dims[1] + p.offset_ns AS cut_ns, {_SITE}
        FROM raw_compile e JOIN processes p USING (process) {_JOIN}""",
    "executions": f"""
        SELECT {_WHO}, e.duration_ns, e.graph, e.name AS trigger, e.detail AS outcome,
               e.dims[1] + p.offset_ns AS cut_ns, {_SITE}
        FROM raw_execution e JOIN processes p USING (process) {_JOIN}""",
    "reads": f"""
        SELECT {_WHO}, e.duration_ns, e.thread, e.name AS method, e.value::INTEGER AS executions,
               e.dims[1]::INTEGER AS compiles, e.detail AS scalar, {_SITE}
        FROM raw_read e {_JOIN}""",
    "host_spans": f"""
        SELECT {_WHO}, e.duration_ns, e.thread, e.kind, e.name, e.value, {_SITE}
        FROM ({" UNION ALL ".join(
            f"SELECT process, rank, step, time_ns, duration_ns, thread, '{kind}' AS kind, name, value, site FROM raw_{kind}"
            for kind in _HOST_KINDS
        )}) e {_JOIN}""",
    "transfers": f"""
        SELECT {_WHO}, e.duration_ns, e.name AS direction, e.value AS bytes FROM raw_transfer e""",
    "inputs": f"""
        SELECT {_WHO}, e.thread, e.name, e.dims, e.detail AS dtype, {_SITE} FROM raw_input e {_JOIN}""",
    "counters": f"""
        SELECT {_WHO}, e.name, e.value AS delta, e.duration_ns FROM raw_counter e""",
    "loader_errors": f"""
        SELECT {_WHO}, e.thread, e.name AS exception, e.detail AS message, {_SITE} FROM raw_loader_error e {_JOIN}""",
    "faults": "SELECT process, rank, time_ns, name AS what, value AS count, detail AS why FROM raw_fault",
    "losses": "SELECT process, rank, time_ns, name AS what, value AS count, detail AS why FROM raw_lost",
    "marks": "SELECT process, rank, time_ns, name, detail FROM raw_mark",
    "threads": "SELECT process, rank, thread, name FROM raw_thread",
}

# An execution is busy from its start, or from when the one before it was ready: sums of raw times count twice.
_BUSY = """
SELECT process, step, graph, time_ns, duration_ns, detail,
       greatest(0, time_ns + duration_ns - greatest(time_ns, coalesce(
           max(time_ns + duration_ns) OVER (
               PARTITION BY process ORDER BY time_ns, duration_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ), time_ns))) AS busy_ns
FROM raw_execution
"""

_GRAPHS = """
WITH defined AS (
    SELECT graph, max(dims[1]) AS inputs, max(dims[2]) AS outputs, max(dims[3]) AS input_bytes,
           max(dims[4]) AS output_bytes, max(dims[5]) AS aliased_bytes, max(dims[6]) AS temporary_bytes,
           max(dims[7]) AS program_bytes, arg_min(name, time_ns) AS trigger, arg_min(process, time_ns) AS process,
           arg_min(site, time_ns) AS site
    FROM raw_graph WHERE graph IS NOT NULL GROUP BY graph
), ran AS (
    SELECT graph, count(*) AS executions, count(*) FILTER (detail = 'hit') AS hits, sum(busy_ns) AS device_ns,
           min(step) AS first_step, max(step) AS last_step, min(time_ns) AS first_time_ns,
           count(DISTINCT process) AS processes
    FROM executions_busy WHERE graph IS NOT NULL GROUP BY graph
), built AS (
    SELECT graph, count(*) AS compiles, sum(duration_ns) AS compile_ns, min(step) AS first_step,
           min(time_ns) AS first_time_ns, max(step) AS last_step
    FROM raw_compile WHERE graph IS NOT NULL GROUP BY graph
), named AS (
    SELECT graph FROM defined UNION SELECT graph FROM ran UNION SELECT graph FROM built
)
SELECT named.graph,
       nullif(inputs, -1) AS inputs, nullif(outputs, -1) AS outputs, nullif(input_bytes, -1) AS input_bytes,
       nullif(output_bytes, -1) AS output_bytes, nullif(aliased_bytes, -1) AS aliased_bytes,
       nullif(temporary_bytes, -1) AS temporary_bytes, nullif(program_bytes, -1) AS program_bytes,
       coalesce(compiles, 0) AS compiles, compile_ns::BIGINT AS compile_ns, coalesce(executions, 0) AS executions,
       coalesce(hits, 0) AS hits, device_ns::BIGINT AS device_ns,
       least(built.first_step, ran.first_step) AS first_step, greatest(built.last_step, ran.last_step) AS last_step,
       least(built.first_time_ns, ran.first_time_ns) AS first_time_ns, trigger,
       s.site, s.file, s.line, s.function, s.user_file, s.user_line, s.user_function,
       coalesce(processes, 1) AS processes
FROM named LEFT JOIN defined USING (graph) LEFT JOIN ran USING (graph) LEFT JOIN built USING (graph)
LEFT JOIN sites s ON s.process = defined.process AND s.site = defined.site
ORDER BY first_time_ns NULLS LAST
"""
