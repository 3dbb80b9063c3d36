"""Verb `compare`: two runs against each other, or the trend of several. Leaves the comparison to ``analysis``."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated

import typer

from xla_insight.cli.output import standard_output
from xla_insight.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("compare")(compare_command)


def compare_command(
    runs: Annotated[list[str], typer.Argument(help="Two recorded runs, the earlier first; more for a trend.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON (schema 1).")] = False,
) -> None:
    """Say whether a run got faster or slower than another, what changed, and whether that is more than noise."""
    if len(runs) < 2:
        raise UsageError("give two runs to compare, the earlier first (more than two give a trend)")
    from xla_insight.analysis.compare import compare_runs, trend
    from xla_insight.facts.comparison import Comparison
    from xla_insight.report.compare_text import write_comparison, write_trend
    from xla_insight.store.reader import open_run

    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(open_run(run)) for run in runs]
        result = compare_runs(*opened) if len(opened) == 2 else trend(opened)
    with standard_output() as stream:
        if as_json:
            stream.write(json.dumps(result.to_json(), indent=2, allow_nan=False, default=str) + "\n")
        elif isinstance(result, Comparison):
            write_comparison(result, stream)
        else:
            write_trend(result, stream)
