"""What is shown instead of a page, and what qualifies a page: no runs yet, a run that cannot be opened, a crash.

Owns these sentences; each says what to do next.
"""

from __future__ import annotations

from pathlib import Path

from dash import dcc, html

from xla_insight.report import numbers

from . import parts
from .data import RunView
from .ids import Route
from .runs import RunState
from .scope import Scope

_TRAINER = """import xla_insight as xi

with xi.profile("{folder}/my-run"):
    trainer.train()"""


def instead_of_page(scope: Scope, folder: Path) -> html.Div | None:
    """The message that takes the place of a page, or None when there is something to show."""
    if scope.trouble:
        title = "This run is not there" if scope.state == RunState.GONE else "This run cannot be opened"
        return parts.message(title, [scope.trouble])
    if scope.run is None:
        return how_to_record(folder)
    if not scope.steps:
        return _no_steps(scope)
    return None


def how_to_record(folder: Path) -> html.Div:
    """For a folder without runs: the ways to record one."""
    return parts.message(
        "Nothing recorded yet",
        [
            [
                "This page watches ",
                parts.long_text(str(folder), class_name="place"),
                " and shows a run as soon as it begins.",
            ]
        ],
        html.Div(
            [
                html.Div(
                    [html.H2("Record a script"), parts.command(f"xla-insight run --out {folder}/my-run train.py")]
                ),
                html.Div([html.H2("Record part of a program"), parts.command(_TRAINER.format(folder=folder))]),
                html.Div([html.H2("See an example"), parts.command("xla-insight demo")]),
            ],
            className="ways",
        ),
    )


def no_such_page() -> html.Div:
    """For a path that no page has."""
    return parts.message(
        "There is no such page", [["Go to the ", dcc.Link("overview", href=Route.OVERVIEW.value), "."]]
    )


def _no_steps(scope: Scope) -> html.Div:
    if scope.state == RunState.RECORDING:
        return parts.message(
            "Recording has begun, no step has ended yet",
            ["The first step compiles its graphs and can take minutes. This page follows by itself."],
        )
    if scope.damage:
        what = f"{scope.damage[0].upper()}{scope.damage[1:]}."
        next_step = [] if "upgrade" in what else ["Restore its files from a copy, or record again."]
        return parts.message("No step of this run can be read", [what, *next_step])
    if scope.state == RunState.EMPTY:
        return parts.message(
            "This run holds no log",
            ["No process wrote to it, or its folders (rank-…) are gone. Restore them from a copy, or record again."],
        )
    return parts.message(
        "This run holds no step",
        [
            "It ended before its first step did, or nothing in it marks one. "
            "Call prof.step() at the end of each step, or cut the graph with torch_xla.sync() in your loop.",
        ],
    )


def notices(view: RunView) -> list[html.P]:
    """What a reader must know before trusting a number: a crash, damaged parts, data that was not kept."""
    lines: list[html.P] = []
    if view.entry.state == RunState.CRASHED:
        lines.append(parts.notice(_crash_sentence(view), "warning"))
    lines += [parts.notice(f"Training ended with {text}", "warning") for text in view.exceptions]
    lines += [parts.notice(text, "warning") for text in view.problems]
    data = view.report.data
    if data.skipped_parts:
        lines.append(
            parts.notice(f"{numbers.plural(data.skipped_parts, 'damaged part')} left out of all numbers.", "warning")
        )
    if data.dropped:
        lines.append(
            parts.notice(f"{numbers.plural(data.dropped, 'event')} not recorded; counts may be too low.", "warning")
        )
    if data.faults:
        where = ", ".join(f"{place} {numbers.count(many)}×" for place, many in data.faults.items())
        lines.append(
            parts.notice(f"The recorder had errors of its own ({where}); training was not affected.", "warning")
        )
    return [*lines, *(parts.notice(text) for text in data.notes if text not in view.problems)]


def _crash_sentence(view: RunView) -> str:
    last = max((int(rows["step"].iloc[-1]) for rows in view.steps.values()), default=None)
    reached = "before its first step ended" if last is None else f"after step {numbers.count(last)}"
    return (
        f"This run stopped without ending its recording, {reached}: it was killed or crashed. "
        "Shown is what it had written."
    )
