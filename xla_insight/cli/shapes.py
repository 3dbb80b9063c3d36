"""Verb `shapes`: dynamic shapes of a run and the plan that ends them. Leaves planning to ``analysis``."""

from __future__ import annotations

from typing import Annotated

import typer

from xla_insight.cli.output import standard_output, tell_damage
from xla_insight.facts.shapes import Objective


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("shapes")(shapes_command)


def shapes_command(
    run: Annotated[str, typer.Argument(help="A recorded run: its folder or URL.")],
    horizon: Annotated[
        int, typer.Option(metavar="STEPS", min=0, help="Steps still to come, like the recorded ones.")
    ] = 0,
    buckets: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Plan for K buckets; without it, for as many as pay.")
    ] = None,
    objective: Annotated[
        Objective,
        typer.Option(
            help="What to have least of: time; steps (compiling is paid by a cache); compiles.", case_sensitive=False
        ),
    ] = Objective.TIME,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON (schema 1).")] = False,
) -> None:
    """Say which dimensions of the batches change, what that costs, and to which sizes to pad them."""
    from xla_insight.analysis import analyze
    from xla_insight.analysis.shapes import advise, shape_problem
    from xla_insight.facts import numbers
    from xla_insight.report.shapes import NOTHING, cause_elsewhere, print_shapes, render_shapes_json
    from xla_insight.store.reader import open_run

    with open_run(run) as opened:
        tell_damage(opened.log_damage())
        problem = shape_problem(opened)
        advice = None if problem is None else advise(problem, horizon, buckets, objective)
        nothing = problem is None or not (problem.axes or problem.rows)
        report = analyze(opened) if nothing and not as_json else None
    names = {} if report is None else report.run.paths
    with numbers.telling_apart(names), standard_output() as stream:
        elsewhere = "" if report is None else cause_elsewhere(report)
        if as_json:
            stream.write(render_shapes_json(problem, advice) + "\n")
        elif problem is None or advice is None:
            stream.write(f"{NOTHING} {elsewhere}".rstrip() + "\n")
        else:
            print_shapes(problem, advice, stream, elsewhere)
