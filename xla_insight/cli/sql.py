"""Verb `sql`: a query over the tables of a run. Leaves the tables to ``store`` and their text form to ``report``."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xla_insight.cli.output import standard_output
from xla_insight.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

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
        known = dict(_rows(opened.sql(_COLUMNS)))
        with standard_output() as stream:
            stream.writelines(f"{name}({known[name]})\n" for name in TABLES if name in known)
        return
    if not query.strip():
        raise UsageError("the query is empty; leave it out to see the tables")
    frame = opened.sql(query)
    columns = [str(name) for name in frame.columns]
    with standard_output() as stream:
        if output is Format.CSV:
            write_csv(columns, _rows(frame), stream)
        elif output is Format.JSON:
            write_json(columns, _rows(frame), stream)
        else:
            write_table(columns, list(_rows(frame.head(TABLE_ROWS))), stream)
            if len(frame) > TABLE_ROWS:
                stream.write(f"only the first {TABLE_ROWS} of {len(frame)} rows; use --format csv or json for all\n")


def _rows(frame: pd.DataFrame) -> Iterable[tuple[Any, ...]]:
    """Rows as Python values, None for what is missing; whole numbers stay whole beside missing ones."""
    return zip(*(_values(frame.iloc[:, number]) for number in range(frame.shape[1])), strict=True)


def _values(column: pd.Series[Any]) -> list[Any]:
    missing = column.isna()
    if (
        column.dtype.kind == "f"
        and missing.any()
        and (column[~missing] % 1 == 0).all()
        and (column[~missing].abs() < 2**53).all()
    ):
        column = column.astype("Int64")
    values = column.astype(object)
    return values.where(~missing, None).tolist()  # type: ignore[no-any-return]
