"""What surrounds every page: run picker, navigation, state of the run, colour scheme; and which page is shown.

Owns the frame of the page and the flow from the address to the stores that pages listen to. A page is rebuilt only when
the run or the page changes; a run that is still recording changes its stores, and each part of a page follows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.errors import InsightError
from xla_insight.report import numbers

from . import messages, parts
from .address import Address
from .data import Library
from .ids import Shell
from .pages.page import Page
from .runs import RunEntry, RunState
from .scope import Scope, resolve

TICK_MS = 2000
CLOCK_MS = 1000
STATE_WORDS = {
    RunState.RECORDING: "recording",
    RunState.ENDED: "ended",
    RunState.CRASHED: "crashed",
    RunState.EMPTY: "empty so far",
    RunState.BROKEN: "cannot be opened",
    RunState.GONE: "not there",
}
_THEME = {
    "fontFamily": "var(--font)",
    "fontFamilyMonospace": "var(--mono)",
    "primaryColor": "accent",
    "primaryShade": {"light": 7, "dark": 4},
    "defaultRadius": "4px",
    "fontSizes": {"xs": "12px", "sm": "14px", "md": "16px", "lg": "20px", "xl": "28px"},
    "colors": {
        "accent": [
            "#eef0fd",
            "#dfe3fb",
            "#bfc6f5",
            "#9aa8ff",
            "#9aa8ff",
            "#6f7ee8",
            "#5364d8",
            "#3f51c7",
            "#3442a6",
            "#283384",
        ]
    },
}


def layout() -> dmc.MantineProvider:
    """The frame of the dashboard."""
    names = (Shell.SCOPE, Shell.STEPS, Shell.GRAPH, Shell.CAUSE, Shell.BODY_KEY, Shell.SCREEN)
    stores = [dcc.Store(id=name) for name in names]
    timers = [
        dcc.Interval(id=Shell.TICK, interval=TICK_MS, disabled=True),
        dcc.Interval(id=Shell.CLOCK, interval=CLOCK_MS, disabled=True),
    ]
    picker = dmc.Select(
        id=Shell.PICKER,
        searchable=True,
        allowDeselect=False,
        size="sm",
        maxDropdownHeight=480,
        placeholder="choose a run",
        renderOption={"function": "renderRun"},
        nothingFoundMessage="no run of that name",
        className="run-picker",
        comboboxProps={"width": "max-content", "position": "bottom-start", "transitionProps": {"duration": 100}},
        **{"aria-label": "Run"},
    )
    theme = dmc.ColorSchemeToggle(
        id=Shell.THEME,
        lightIcon="Dark",
        darkIcon="Light",
        variant="subtle",
        className="theme-toggle",
        **{"aria-label": "Switch between light and dark"},
    )
    header = html.Header(
        [
            dcc.Link(
                [html.Span(className="mark", **{"aria-hidden": "true"}), "xla-insight"], href="/", className="brand"
            ),
            html.Div([picker, html.Span(id=Shell.RUN_STATE), html.Span(id=Shell.AGE)], className="run"),
            html.Nav(id=Shell.NAVIGATION, **{"aria-label": "Pages"}),
            theme,
        ],
        className="header",
    )
    body = html.Main([parts.skeleton(176), parts.skeleton(480)], id=Shell.BODY, className="page")
    return dmc.MantineProvider(
        [dcc.Location(id=Shell.LOCATION, refresh="callback-nav"), *stores, *timers, header, body],
        theme=_THEME,
        defaultColorScheme="auto",
    )


def register(app: Dash, library: Library, pages: Sequence[Page]) -> None:
    """Callbacks of the frame."""
    _register_stores(app, library)
    _register_body(app, library, pages)
    _register_header(app, pages)
    _register_picker(app, library)
    _register_browser(app)


def _register_stores(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Shell.SCOPE, "data"),
        Output(Shell.STEPS, "data"),
        Output(Shell.GRAPH, "data"),
        Output(Shell.CAUSE, "data"),
        Input(Shell.LOCATION, "search"),
        Input(Shell.TICK, "n_intervals"),
        State(Shell.SCOPE, "data"),
        State(Shell.STEPS, "data"),
        State(Shell.GRAPH, "data"),
        State(Shell.CAUSE, "data"),
    )
    def follow_address(search: Any, _tick: Any, *before: Any) -> tuple[Any, ...]:
        address = Address.parse(search)
        steps = None if address.steps is None else list(address.steps)
        after = (resolve(library, address).to_json(), steps, address.graph, address.cause)
        return tuple(no_update if new == old else new for new, old in zip(after, before, strict=True))

    @app.callback(Output(Shell.TICK, "disabled"), Output(Shell.CLOCK, "disabled"), Input(Shell.SCOPE, "data"))
    def follow_recording(stored: Any) -> tuple[bool, bool]:
        scope = Scope.from_json(stored)
        return not scope.live, scope.state != RunState.RECORDING


def _register_body(app: Dash, library: Library, pages: Sequence[Page]) -> None:
    by_route = {page.route.value: page for page in pages}

    @app.callback(
        Output(Shell.BODY, "children"),
        Output(Shell.BODY_KEY, "data"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.LOCATION, "pathname"),
        State(Shell.BODY_KEY, "data"),
        State(Shell.LOCATION, "search"),
    )
    def show_page(stored: Any, path: Any, shown: Any, search: Any) -> tuple[Any, Any]:
        if stored is None:
            raise PreventUpdate
        scope = Scope.from_json(stored)
        message = messages.instead_of_page(scope, library.folder)
        page = by_route.get(path)
        key = [path, scope.run, scope.trouble, message is None]
        if key == shown:
            raise PreventUpdate
        return message or (page.layout(Address.parse(search)) if page else messages.no_such_page()), key


def _register_header(app: Dash, pages: Sequence[Page]) -> None:
    @app.callback(
        Output(Shell.NAVIGATION, "children"),
        Input(Shell.LOCATION, "pathname"),
        Input(Shell.LOCATION, "search"),
    )
    def show_navigation(path: Any, search: Any) -> list[dcc.Link]:
        query = Address.parse(search).for_other_page().search
        return [
            dcc.Link(
                page.word,
                href=f"{page.route}{query}",
                className="nav-link active" if page.route == path else "nav-link",
            )
            for page in pages
        ]

    @app.callback(Output(Shell.RUN_STATE, "children"), Input(Shell.SCOPE, "data"))
    def show_state(stored: Any) -> Any:
        scope = Scope.from_json(stored)
        if scope.state is None:
            return None
        steps = [] if scope.steps is None else [html.Span(numbers.plural(scope.steps, "step"), className="run-steps")]
        word = html.Span(STATE_WORDS[RunState(scope.state)], className=f"run-state run-{scope.state}")
        return [*steps, word]


def _register_picker(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Shell.PICKER, "data"),
        Output(Shell.PICKER, "value"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.PICKER, "dropdownOpened"),
        State(Shell.PICKER, "data"),
        State(Shell.PICKER, "value"),
    )
    def list_runs(stored: Any, _opened: Any, options: Any, value: Any) -> tuple[Any, Any]:
        try:
            fresh = [_option(entry) for entry in library.entries()]
        except InsightError:
            fresh = []
        run = Scope.from_json(stored).run
        return no_update if fresh == options else fresh, no_update if run == value else run

    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Shell.PICKER, "value"),
        State(Shell.SCOPE, "data"),
        State(Shell.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def choose_run(run: Any, stored: Any, search: Any) -> str:
        if not run or run == Scope.from_json(stored).run:
            raise PreventUpdate
        return Address.parse(search).of_other_run(run).search


def _option(entry: RunEntry) -> dict[str, str]:
    """One run in the picker; the browser draws state and start beside its name."""
    started = entry.started_unix_s or entry.modified_unix_s
    return {
        "value": entry.id,
        "label": entry.id,
        "name": parts.middle(entry.id, 44),
        "state": entry.state.value,
        "word": STATE_WORDS[entry.state],
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(started)),
    }


def _register_browser(app: Dash) -> None:
    """What the browser does by itself; see ``assets/view.js``."""
    app.clientside_callback(
        ClientsideFunction("view", "age"),
        Output(Shell.AGE, "children"),
        Input(Shell.CLOCK, "n_intervals"),
        Input(Shell.SCOPE, "data"),
    )
    app.clientside_callback(
        ClientsideFunction("view", "screen"),
        Output(Shell.SCREEN, "data"),
        Input(Shell.LOCATION, "pathname"),
    )
    app.clientside_callback(
        ClientsideFunction("view", "waiting"),
        Output(Shell.BODY, "className"),
        Input(Shell.PICKER, "value"),
        Input(Shell.SCOPE, "data"),
    )
    app.clientside_callback(
        ClientsideFunction("view", "title"),
        Output(Shell.BODY, "title"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.LOCATION, "pathname"),
    )
