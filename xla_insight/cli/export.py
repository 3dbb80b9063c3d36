"""Verb `export`: the tables of a run, its report and its trace as files. Leaves the formats to ``report``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from xla_insight.cli.output import standard_output, tell_damage
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
    perfetto: Annotated[
        Path | None, typer.Option("--perfetto", metavar="FILE", help="Write a trace to open at ui.perfetto.dev.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="FIRST-LAST", help="Only these steps, in the trace.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also write to a folder that holds other files.")
    ] = False,
) -> None:
    """Write the tables of a run, its recompiles and its findings for a spreadsheet or another tool."""
    if csv is None and parquet is None and perfetto is None:
        raise UsageError("say what to export and where: --csv DIR, --parquet DIR or --perfetto FILE")
    chosen = _steps(steps, perfetto)
    if csv is not None and parquet is not None and os.path.realpath(csv) == os.path.realpath(parquet):
        raise UsageError(f"--csv and --parquet name the same folder, {csv}; give each its own")
    from xla_insight.analysis import analyze, load_tables
    from xla_insight.report.csv import export_csv
    from xla_insight.report.parquet import export_parquet
    from xla_insight.store.reader import open_run

    with open_run(run) as opened, standard_output() as stream:
        tell_damage(opened.log_damage())
        tables = load_tables(opened)
        if perfetto is not None:
            from xla_insight.report.perfetto import export_perfetto

            if os.path.exists(perfetto) and not overwrite:
                raise UsageError(f"{perfetto} exists already; choose another file, or say --overwrite")
            events = export_perfetto(tables, perfetto, chosen)
            stream.write(f"{events} events written to {perfetto}; open it at ui.perfetto.dev\n")
        if csv is None and parquet is None:
            return
        report = analyze(opened, tables)
        for folder, export in ((csv, export_csv), (parquet, export_parquet)):
            if folder is not None:
                files = export(opened, report, folder, overwrite, tables)
                stream.write(f"{len(files)} files written to {folder}\n")


def _steps(text: str | None, perfetto: Path | None) -> tuple[int, int] | None:
    if text is None:
        return None
    if perfetto is None:
        raise UsageError("--steps narrows a trace: give it with --perfetto FILE")
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text.strip())
    if match is None:
        raise UsageError(f"--steps wants one step or two, as in 100-120, not {text!r}")
    first, last = int(match[1]), int(match[2] or match[1])
    return min(first, last), max(first, last)
