"""Verb `sql`: a query over the tables of a run. Leaves the tables to ``store`` and their text form to ``report``."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xla_insight.cli.output import standard_output
from xla_insight.errors import QueryError

if TYPE_CHECKING:
    import duckdb

TABLE_ROWS = 500
_TABLES = (
    "select table_name as \"table\", string_agg(column_name, ', ' order by column_index) as columns"
    " from duckdb_columns() where not internal group by table_name order by table_name"
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
    import duckdb

    from xla_insight.report.table import write_csv, write_json
    from xla_insight.store.reader import open_run

    opened = open_run(run)
    try:
        result = opened.connection.execute(query if query is not None else _TABLES)
        columns = [str(column[0]) for column in result.description or ()]
        with standard_output() as stream:
            if output is Format.CSV:
                write_csv(columns, _rows(result), stream)
            elif output is Format.JSON:
                write_json(columns, _rows(result), stream)
            else:
                _write_limited(columns, result, stream, whole=query is None)
    except duckdb.Error as error:
        raise QueryError(str(error)) from error


def _rows(result: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := result.fetchmany(10_000):
        yield from rows


def _write_limited(columns: list[str], result: duckdb.DuckDBPyConnection, stream: Any, *, whole: bool) -> None:
    from xla_insight.report.table import write_table

    if whole:
        for table, names in result.fetchall():
            stream.write(f"{table}({names})\n")
        return
    rows = result.fetchmany(TABLE_ROWS + 1)
    write_table(columns, rows[:TABLE_ROWS], stream)
    if len(rows) > TABLE_ROWS:
        stream.write(f"only the first {TABLE_ROWS} rows; use --format csv or a limit for all\n")
