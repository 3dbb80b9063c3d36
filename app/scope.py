"""What a page is about right now: the run and process that its address means, and the state of that run's files.

Owns the resolving of an address against the runs there are, and what pages are told when that fails. Travels to the
browser and back as plain JSON, so that callbacks run only when something they show has changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
from dash.exceptions import PreventUpdate

from xla_insight.errors import InsightError, RunNotFoundError
from xla_insight.facts import numbers

from .address import Address
from .causes import steps_of_cause
from .data import Library, RunView
from .runs import RunState


@dataclass(frozen=True, slots=True)
class Scope:
    """``run`` is None when there is none to show; ``trouble`` is the sentence to show instead of a page."""

    run: str | None = None
    process: int | None = None
    state: str | None = None
    revision: str = ""
    modified_unix_s: float | None = None
    steps: int | None = None
    """Steps of the shown process; None when nothing could be read."""
    damage: str = ""
    """Where no process has steps: what could not be read of the log; "" when all could be."""
    trouble: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any] | None) -> Scope:
        """The reverse of `to_json`; nothing stored yet means nothing to show."""
        return cls(**(stored or {}))

    @property
    def live(self) -> bool:
        """Whether what is shown may change soon."""
        return self.run is None or self.state in (RunState.RECORDING, RunState.EMPTY)


def resolve(library: Library, address: Address) -> Scope:
    """The scope of an address: its run, or the newest one when it names none."""
    run_id = address.run
    try:
        run_id = run_id or next((entry.id for entry in library.entries()), None)
        if run_id is None:
            return Scope()
        entry = library.entry(run_id)
        view = library.view(run_id)
    except RunNotFoundError as error:
        return Scope(run=run_id, state=RunState.GONE, trouble=str(error))
    except InsightError as error:
        return Scope(run=run_id, state=RunState.BROKEN, trouble=str(error))
    process = view.process(address.process)
    return Scope(
        run=run_id,
        process=process,
        state=entry.state,
        revision=view.entry.revision,
        modified_unix_s=entry.modified_unix_s,
        steps=0 if process is None else len(view.steps[process]),
        damage=view.damage if process is None else "",
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """What is selected of a run that can be shown: one process, a range of its steps, a graph to point at."""

    view: RunView
    process: int
    steps: tuple[int, int] | None = None
    graph: str | None = None
    cause: str | None = None

    @property
    def lit(self) -> set[int] | None:
        """Steps to point at: those that ran the selected graph, else those that compiled for the selected cause."""
        if self.graph:
            return self.view.steps_of_graph(self.process, self.graph)
        return steps_of_cause(self.view.report, self.cause, self.process) if self.cause else None

    @property
    def rows(self) -> pd.DataFrame:
        """The step table of the selection."""
        return self.view.shown(self.process, self.steps)


def shown(
    library: Library,
    stored: dict[str, Any] | None,
    steps: list[int] | None = None,
    graph: str | None = None,
    cause: str | None = None,
) -> Shown:
    """The selection as the stores of the page hold it.

    Raises PreventUpdate when there is nothing to show: the shell says why in place of the page.
    """
    scope = Scope.from_json(stored)
    if scope.run is None or scope.process is None or scope.trouble:
        raise PreventUpdate
    try:
        view = library.view(scope.run)
    except InsightError as error:
        raise PreventUpdate from error
    process = view.process(scope.process)
    if process is None:
        raise PreventUpdate
    numbers.tell_apart(view.report.run.paths)
    return Shown(view, process, (int(steps[0]), int(steps[1])) if steps else None, graph, cause)
