"""Verb `report`: what a recorded run says. Leaves conclusions to ``analysis`` and layout to ``report``."""

from __future__ import annotations

from typing import Annotated

import typer

from xla_insight.cli.output import standard_output


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("report")(report_command)


def report_command(
    run: Annotated[str, typer.Argument(help="A recorded run: its folder or URL. It may still be recording.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON (schema 1).")] = False,
) -> None:
    """Say what limits a run, what it costs, and what to change."""
    from xla_insight.analysis import analyze
    from xla_insight.report.json import render_json
    from xla_insight.report.text import print_report

    report = analyze(run)
    with standard_output() as stream:
        if as_json:
            stream.write(render_json(report) + "\n")
        else:
            print_report(report, stream)
