"""Page Recompilations: why graphs were compiled, dearest cause first, and one of them in detail.

Owns the two tables of the page (causes; all compiles of one cause) and its callbacks. The detail is in
``recompilations_detail``; which cause and which compile are shown is in the address.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dash_ag_grid as dag
from dash import MATCH, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.facts.report import Member, Recompile, Report
from xla_insight.report import numbers

from .. import parts, strip, table
from ..address import Address
from ..causes import Chosen, avoidable, cause_word, choose, named_entries, place_of
from ..data import Library
from ..explanations import Explanations
from ..ids import Recompilations, Route, Shell
from ..listing import rendered
from ..scope import Shown, shown
from . import recompilations_detail as detail
from .page import Page

_GRID_LEAST_PX, _GRID_MOST_PX = 130, 420
_PLACE = 22
CAUSE_COLUMNS = (
    ("cause", "cause", 156, "text", "Why the graph differs from its nearest earlier relative"),
    ("compile_s", "cost", 104, "number", "Time spent compiling"),
    ("share", "share", 80, "number", "Share of the run"),
    ("count", "compiles", 96, "number", "Number of compiles"),
    ("place", "where", 140, "text", "Where the graph was cut"),
    ("severity", "severity", 104, "text", "How much it should disturb you"),
)
MEMBER_COLUMNS = (
    ("step", "step", 80, "number", "The step that waited for this compile"),
    ("graph", "graph", 108, "text", "The graph's hash"),
    ("compile_s", "compile time", 120, "number", "Time this compile took"),
    ("against", "compared with", 136, "text", "Its nearest earlier relative"),
    ("kept", "graphs kept", 116, "text", "Whether both graphs can be shown beside each other"),
    ("process", "process", 96, "number", "The process that compiled"),
)


def layout(_address: Address) -> html.Div:
    """The page, to be filled by its callbacks."""
    causes = _grid(Recompilations.GRID, CAUSE_COLUMNS, "causes.csv", "compile_s")
    members = _grid(Recompilations.MEMBERS, MEMBER_COLUMNS, "compiles.csv", None)
    export = html.Button("Export CSV", id=Recompilations.EXPORT, className="quiet-button", n_clicks=0)
    of_cause = [html.Div(html.H3(id=Recompilations.MEMBERS_HEAD), className="detail-head"), members]
    tables = html.Div([causes, html.Div(of_cause, className="members")])
    told = [
        html.Div(id=Recompilations.DETAIL),
        html.Div(parts.skeleton(160), id=Recompilations.ROOT),
        html.Div(id=Recompilations.CHANGE),
    ]
    beside = html.Div([tables, html.Aside(told)], className="beside beside-cause")
    return html.Div(
        [
            html.Div(parts.skeleton(72), id=Recompilations.HEAD),
            strip.layout(Route.RECOMPILATIONS),
            parts.section("Causes, dearest first", beside, tools=export),
            dcc.Store(id=Recompilations.SHOWN),
            html.Div(parts.skeleton(320), id=Recompilations.DIFFERENCE),
        ]
    )


def _grid(name: str, columns: tuple[tuple[str, str, int, str, str], ...], file: str, sort: str | None) -> dag.AgGrid:
    definitions = table.sorted_by([_definition(*column) for column in columns], sort)
    return table.grid(name, definitions, file, 160, selectable=True)


def _definition(field: str, word: str, width: int, kind: str, hint: str) -> dict[str, Any]:
    look = "cell-hash" if field in ("graph", "against", "place") else f"cell-{kind}"
    more: dict[str, Any] = {"flex": 1, "minWidth": width} if field in ("place", "against") else {}
    numeric = kind == "number"
    return table.column(field, word, width, hint, numeric=numeric, look=look, tooltipField=f"{field}_whole", **more)


def cause_rows(selected: Shown) -> list[dict[str, Any]]:
    """The causes, those of the selected steps only."""
    report, steps = selected.view.report, selected.steps
    wall = report.time.wall_s * max(1, report.run.processes)
    return [
        _cause_row(name, entry, wall)
        for name, entry in named_entries(report).items()
        if steps is None or any(steps[0] <= step <= steps[1] for step in entry.steps)
    ]


def _cause_row(name: str, entry: Recompile, wall_s: float) -> dict[str, Any]:
    site = place_of(entry)
    place = parts.middle(numbers.place(site.file, site.line), _PLACE) if site is not None else numbers.NOT_MEASURED
    word = "expected" if entry.expected else str(entry.severity)
    shape = "" if entry.expected else f"{parts.SEVERITY_SHAPES[entry.severity]} "
    return {
        "id": name,
        "cause": entry.cause,
        "cause_text": cause_word(entry.cause),
        "cause_whole": entry.summary,
        "compile_s": entry.compile_s,
        "compile_s_text": numbers.duration(entry.compile_s),
        "share": entry.compile_s / wall_s if wall_s else None,
        "share_text": numbers.share(entry.compile_s, wall_s),
        "count": entry.count,
        "count_text": numbers.count(entry.count),
        "place": f"{site.file}:{site.line}" if site is not None else None,
        "place_text": place,
        "place_whole": f"{site.file}:{site.line}" if site is not None else "",
        "severity": word,
        "severity_text": shape + word,
    }


def member_rows(selected: Shown, entry: Recompile) -> list[dict[str, Any]]:
    """Every compile of a cause, in the order of the report."""
    kept = selected.view.kept
    return [_member_row(number, member, kept) for number, member in enumerate(entry.members)]


def _member_row(number: int, member: Member, kept: frozenset[str]) -> dict[str, Any]:
    both = member.graph in kept and member.against in kept
    own = member.graph in kept
    return {
        "id": str(number),
        "step": member.step,
        "step_text": numbers.count(member.step),
        "graph": member.graph,
        "graph_text": numbers.short_hash(member.graph),
        "graph_whole": member.graph or "",
        "compile_s": member.compile_s,
        "compile_s_text": numbers.duration(member.compile_s),
        "against": member.against,
        "against_text": numbers.short_hash(member.against) if member.against else "none earlier",
        "against_whole": member.against or "",
        "kept": "both" if both else "this one" if own else "no",
        "kept_text": "both" if both else "this one" if own else "no",
        "process": member.process,
        "process_text": numbers.count(member.process),
    }


def head(selected: Shown) -> list[Any]:
    """The sentence that leads the page."""
    lines: list[Any] = [parts.headline(sentence(selected.view.report))]
    if selected.steps is not None:
        first, last = map(numbers.count, selected.steps)
        text = f"The table lists the causes of steps {first} to {last}; its numbers are of the whole run."
        lines.append(html.P(text, className="lead"))
    return lines


def sentence(report: Report) -> str:
    """What compiling cost, and how much of it can be avoided."""
    compiles = report.graphs.compiles
    wall = report.time.wall_s * max(1, report.run.processes)
    if not compiles:
        return "Nothing was compiled in this run."
    costly = [entry for entry in report.recompiles if avoidable(entry)]
    if not costly:
        spent = report.graphs.compile_s
        all_of_them = "The one compile was" if compiles == 1 else f"All {numbers.count(compiles)} compiles were"
        return f"{all_of_them} expected or paid back by reuse: {_cost(spent, wall)}."
    count, spent = sum(entry.count for entry in costly), sum(entry.compile_s for entry in costly)
    dearest = max(costly, key=lambda entry: entry.compile_s)
    site = place_of(dearest)
    where = "" if site is None else f" at {numbers.place(site.file, site.line)}"
    why = "a cause that is not known" if dearest.cause == "unknown" else cause_word(dearest.cause)
    share_of_it = "all" if len(costly) == 1 else "most"
    graphs = numbers.plural(count, "avoidable recompile")
    return f"{graphs} took {_cost(spent, wall)}: {share_of_it} because of {why}{where}."


def _cost(seconds: float, wall_s: float) -> str:
    return f"{numbers.duration(seconds)}, {numbers.share(seconds, wall_s)} of this run"


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""
    explanations = Explanations()
    _register_tables(app, library)
    _register_detail(app, library, explanations)
    _register_folds(app, library, explanations)
    _register_address(app, library)


def _chosen(selected: Shown, search: Any) -> tuple[Chosen | None, Address]:
    address = Address.parse(search)
    return choose(selected.view.report, address.cause, address.graph, selected.view.kept), address


def _register_tables(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Recompilations.HEAD, "children"),
        Output(Recompilations.GRID, "rowData"),
        Output(Recompilations.GRID, "style"),
        Output(Recompilations.GRID, "selectedRows"),
        Output(Recompilations.MEMBERS, "rowData"),
        Output(Recompilations.MEMBERS, "style"),
        Output(Recompilations.MEMBERS, "selectedRows"),
        Output(Recompilations.MEMBERS_HEAD, "children"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.STEPS, "data"),
        Input(Shell.LOCATION, "search"),
    )
    def fill(scope: Any, steps: Any, search: Any) -> tuple[Any, ...]:
        selected = shown(library, scope, steps)
        chosen, _ = _chosen(selected, search)
        rows = cause_rows(selected)
        members = [] if chosen is None else member_rows(selected, chosen.entry)
        marked = [] if chosen is None or chosen.member is None else [str(chosen.entry.members.index(chosen.member))]
        title = "" if chosen is None else f"All {numbers.plural(len(members), 'compile')} of this cause"
        return (
            head(selected), rows, _height(rows), {"ids": [chosen.name] if chosen else []},
            members, _height(members), {"ids": marked}, title,
        )  # fmt: skip

    @app.callback(
        Output(Recompilations.GRID, "exportDataAsCsv"),
        Input(Recompilations.EXPORT, "n_clicks"),
        prevent_initial_call=True,
    )
    def export(clicks: Any) -> bool:
        return bool(clicks)


def _height(rows: list[Any]) -> dict[str, str]:
    return table.height(table.height_for(len(rows), _GRID_LEAST_PX, _GRID_MOST_PX))


def _register_detail(app: Dash, library: Library, explanations: Explanations) -> None:
    @app.callback(
        Output(Recompilations.DETAIL, "children"),
        Output(Recompilations.CHANGE, "children"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.LOCATION, "search"),
    )
    def tell(scope: Any, search: Any) -> tuple[Any, Any]:
        selected = shown(library, scope)
        chosen, address = _chosen(selected, search)
        if chosen is None:
            return None, None
        return detail.cause(chosen), detail.change(selected.view.report, chosen, address)

    @app.callback(
        Output(Recompilations.ROOT, "children"),
        Output(Recompilations.DIFFERENCE, "children"),
        Output(Recompilations.SHOWN, "data"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.LOCATION, "search"),
        Input(Shell.SCREEN, "data"),
        State(Recompilations.SHOWN, "data"),
    )
    def compare(scope: Any, search: Any, screen: Any, before: Any) -> tuple[Any, ...]:
        if not screen:
            raise PreventUpdate
        selected = shown(library, scope)
        chosen, _ = _chosen(selected, search)
        if chosen is None:
            return None, None, None
        explained = None if chosen.target is None else explanations.of(selected.view, chosen.target)
        root = detail.root(selected.view, chosen.entry, explained)
        member = chosen.member
        key = [selected.view.entry.id, chosen.name, member and member.graph, member and member.against, screen,
               explained is not None and bool(explained.missing)]  # fmt: skip
        if key == before:  # what was unfolded stays unfolded while a run records
            return root, no_update, no_update
        return root, detail.difference(explained, int(screen["width"]), strip.scheme_of(screen)), key


def _register_folds(app: Dash, library: Library, explanations: Explanations) -> None:
    fold = {"type": Recompilations.FOLD.value, "start": MATCH, "stop": MATCH}
    button = {"type": Recompilations.UNFOLD.value, "start": MATCH, "stop": MATCH}

    @app.callback(
        Output(fold, "children"),
        Output(fold, "className"),
        Input(button, "n_clicks"),
        State(Shell.SCOPE, "data"),
        State(Shell.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def unfold(clicks: Any, scope: Any, search: Any) -> tuple[Any, str]:
        if not clicks or not isinstance(ctx.triggered_id, dict):
            raise PreventUpdate
        selected = shown(library, scope)
        chosen, _ = _chosen(selected, search)
        explained = None if chosen is None or chosen.target is None else explanations.of(selected.view, chosen.target)
        if explained is None or explained.comparison is None:
            raise PreventUpdate
        start, stop = int(ctx.triggered_id["start"]), int(ctx.triggered_id["stop"])
        return rendered(explained.comparison.aligned.expand(start, stop)), "unfolded"


def _register_address(app: Dash, library: Library) -> None:
    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Recompilations.GRID, "selectedRows"),
        Input(Recompilations.MEMBERS, "selectedRows"),
        State(Shell.LOCATION, "search"),
        State(Shell.SCOPE, "data"),
        prevent_initial_call=True,
    )
    def select(causes: Any, members: Any, search: Any, scope: Any) -> Any:
        chosen, before = _chosen(shown(library, scope), search)
        if chosen is None:
            raise PreventUpdate
        picked = _first(causes if ctx.triggered_id == Recompilations.GRID else members)
        after = before
        if ctx.triggered_id == Recompilations.GRID and picked and picked["id"] != chosen.name:
            after = replace(before, cause=picked["id"], graph=None)
        if (
            ctx.triggered_id == Recompilations.MEMBERS
            and picked
            and picked["graph"]
            and (chosen.member is None or picked["graph"] != chosen.member.graph)
        ):
            after = replace(before, cause=chosen.name, graph=picked["graph"])
        return no_update if after == before else after.search


def _first(rows: Any) -> dict[str, Any] | None:
    """The selected row as the grid tells it: rows after a click, ids after the server chose."""
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None


PAGE = Page(Route.RECOMPILATIONS, "Recompilations", layout, register)
