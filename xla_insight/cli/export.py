"""Verb `export`: the tables of a run and its report as files. Leaves the formats to ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xla_insight.cli.output import standard_output
from xla_insight.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("export")(export_command)


def export_command(
    run: Annotated[str, typer.Argument(help="A recorded run: its folder or URL.")],
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="DIR", help="Write one CSV a table to this folder.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="DIR", help="Write one Parquet file a table to this folder.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also write to a folder that holds other files.")
    ] = False,
) -> None:
    """Write the tables of a run, its recompiles and its findings for a spreadsheet or another tool."""
    if csv is None and parquet is None:
        raise UsageError("say what to export and where: --csv DIR or --parquet DIR")
    if csv is not None and parquet is not None and csv.resolve() == parquet.resolve():
        raise UsageError(f"--csv and --parquet name the same folder, {csv}; give each its own")
    from xla_insight.analysis import analyze
    from xla_insight.report.csv import export_csv
    from xla_insight.report.parquet import export_parquet
    from xla_insight.store.reader import open_run

    with open_run(run) as opened, standard_output() as stream:
        report = analyze(opened)
        for folder, export in ((csv, export_csv), (parquet, export_parquet)):
            if folder is not None:
                files = export(opened, report, folder, overwrite)
                stream.write(f"{len(files)} files written to {folder}\n")
