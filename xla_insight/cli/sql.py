"""Verb `sql`: a query over the tables of a run. Leaves the tables to ``store`` and their text form to ``report``."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xla_insight.cli.output import standard_output, tell_damage
from xla_insight.errors import QueryError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_ROWS = 500
_COLUMNS = (
    "select table_name, string_agg(column_name, ', ' order by column_index) as columns from duckdb_columns()"
    " where not internal group by table_name"
)


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("sql")(sql_command)


def sql_command(
    run: Annotated[str, typer.Argument(help="A recorded run: its folder or URL.")],
    query: Annotated[str | None, typer.Argument(help="A DuckDB query; without one, the tables are listed.")] = None,
    output: Annotated[Format, typer.Option("--format", "-f", help="How to write the rows.")] = Format.TABLE,
) -> None:
    """Query the tables of a run: steps, syncs, compiles, executions, reads, graphs, inputs, counters, events …"""
    from xla_insight.report.table import write_csv, write_json, write_table
    from xla_insight.store.reader import open_run
    from xla_insight.store.views import TABLES

    opened = open_run(run)
    if query is None:
        known = dict(_rows(opened.arrow(_COLUMNS)))
        with standard_output() as stream:
            stream.writelines(f"{name}({known[name]})\n" for name in TABLES if name in known)
        return
    if not query.strip():
        raise UsageError("the query is empty; leave it out to see the tables")
    tell_damage(opened.log_damage())
    table = opened.arrow(query)
    columns = table.column_names
    with standard_output() as stream:
        if output is Format.CSV:
            write_csv(columns, _rows(table), stream)
        elif output is Format.JSON:
            write_json(columns, _rows(table), stream)
        else:
            write_table(columns, list(_rows(table.slice(0, TABLE_ROWS))), stream)
            if len(table) > TABLE_ROWS:
                stream.write(f"only the first {TABLE_ROWS} of {len(table)} rows; use --format csv or json for all\n")


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as Python values, None for what is missing; a value that Python has no type for is a usage error."""
    try:
        for batch in table.to_batches():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except (ValueError, OverflowError) as error:
        raise QueryError(f"a value of this result cannot be shown ({error})") from error
