"""Page Shapes: which dimensions change, what padding to a few sizes would do, and the lines that do it.

Owns the layout, the what-if control and its state in the address. Every number and sentence comes from
``analysis.shapes``; figures from ``report.figures_shapes``; rows of the table of shapes from ``shapes_table``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

import dash_mantine_components as dmc
from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from xla_insight.analysis.shapes import Advice, Plan, Problem, advise, bucket_text, what_if, with_plan
from xla_insight.errors import InsightError
from xla_insight.facts.shapes import Objective
from xla_insight.report import numbers
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_shapes import bucket_lines, moved_ends, size_figure

from .. import parts, strip
from ..address import Address
from ..data import Library
from ..ids import Route, Shapes, Shell
from ..scope import Shown, shown
from .page import Page
from .shapes_table import grid, rows_of

MOST_BUCKETS, MOST_STEPS = 16, 100_000_000
_LARGEST = 2**63 - 1
"""The largest size that a tensor can have."""
_CONFIG = {"displayModeBar": False, "responsive": False, "showTips": False, "edits": {"shapePosition": True}}
"""``shapePosition``: a line moves at once; one that is merely editable wants a click first."""
_PLAN_COLUMNS = (
    "Plan",
    "Padded to",
    "Compiles",
    "Compiling",
    "Steps",
    "In all",
    "90 % likely",
    "Padding",
    "Largest graph",
)
_OBJECTIVES = {
    Objective.TIME: "time in all",
    Objective.STEPS: "time of steps",
    Objective.COMPILES: "time of compiling",
}
_NOTHING = (
    "No batch was recorded on its way to the device, or no step that used one was timed, so there is nothing to plan."
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What someone tries: so many buckets (0: as many as pay), or ends of their own, and steps still to come."""

    buckets: int = 0
    own: str = ""
    future_steps: int = 0
    objective: Objective = Objective.TIME

    @classmethod
    def parse(cls, text: str | None) -> Wish:
        """From the address; anything malformed is ignored."""
        try:
            stored = json.loads(text or "{}")
        except ValueError:
            return cls()
        if not isinstance(stored, dict):
            return cls()
        return cls.of(stored.get("buckets"), stored.get("own"), stored.get("steps"), stored.get("least"))

    @classmethod
    def of(cls, buckets: Any, own: Any, future_steps: Any, objective: Any = None) -> Wish:
        """From the values of the controls."""
        number = int(buckets) if isinstance(buckets, int | float) else 0
        steps = int(future_steps) if isinstance(future_steps, int | float) else 0
        return cls(
            min(max(number, 0), MOST_BUCKETS),
            own.strip() if isinstance(own, str) else "",
            min(max(steps, 0), MOST_STEPS),
            Objective(objective) if objective in list(Objective) else Objective.TIME,
        )

    @property
    def text(self) -> str | None:
        """For the address; None when nothing is tried."""
        given: dict[str, Any] = {"buckets": self.buckets, "own": self.own, "steps": self.future_steps}
        given["least"] = None if self.objective is Objective.TIME else self.objective.value
        kept = {key: value for key, value in given.items() if value}
        return json.dumps(kept) if kept else None

    def own_ends(self, axes: int) -> tuple[tuple[int, ...], ...] | None:
        """The own ends of each axis; None when the text is not that many lists of sizes."""
        lists = re.split(r"[x×;]", self.own)
        if len(lists) != axes or re.search(r"[^\d\s,\[\]x×;]", self.own):
            return None
        found = tuple(tuple(int(size) for size in re.findall(r"\d{1,99}", part)) for part in lists)
        return found if all(found) and all(0 < size <= _LARGEST for ends in found for size in ends) else None


def layout(address: Address) -> html.Div:
    """The page, to be filled by its callbacks; the controls start as the address says."""
    export = html.Button("Export CSV", id=Shapes.EXPORT, className="quiet-button", n_clicks=0)
    return html.Div(
        [
            html.Div(parts.skeleton(112), id=Shapes.HEAD),
            strip.layout(Route.SHAPES),
            parts.section(
                "What if",
                html.Div([_controls(Wish.parse(address.filter)), html.Div(id=Shapes.OUTCOME)]),
                html.Div(parts.skeleton(364), id=Shapes.FIGURES),
                html.Div(id=Shapes.CODE),
            ),
            parts.section("All plans", html.Div(id=Shapes.PLANS)),
            parts.section("All shapes", grid(), tools=export),
        ]
    )


def _controls(wish: Wish) -> html.Div:
    marks = [{"value": number, "label": "auto" if number == 0 else str(number)} for number in (0, 1, 2, 4, 8, 12, 16)]
    slider = dmc.Slider(
        id=Shapes.BUCKETS, min=0, max=MOST_BUCKETS, step=1, value=wish.buckets, marks=marks, size="sm", color="accent",
        updatemode="drag", thumbLabel="Number of buckets; 0 is as many as pay", className="what-if-slider",
    )  # fmt: skip
    own = dmc.TextInput(
        id=Shapes.OWN, value=wish.own, size="xs", debounce=300, placeholder="48, 96", w=220,
        **{"aria-label": "Bucket sizes of your own, for example 48, 96"},
    )  # fmt: skip
    horizon = dmc.NumberInput(
        id=Shapes.HORIZON, value=wish.future_steps, min=0, max=MOST_STEPS, step=1000, size="xs", w=160, debounce=300,
        thousandSeparator="\u2009", allowDecimal=False, allowNegative=False, **{"aria-label": "Steps still to come"},
    )  # fmt: skip
    objective = dmc.Select(
        id=Shapes.OBJECTIVE, value=wish.objective.value, size="xs", w=180, allowDeselect=False,
        data=[{"value": key.value, "label": word} for key, word in _OBJECTIVES.items()],
        **{"aria-label": "What the best plan has least of"},
    )  # fmt: skip
    return html.Div(
        [
            html.Div([html.Span("buckets", className="what-if-word"), slider], className="what-if-buckets"),
            html.Label([html.Span("or your own sizes", className="what-if-word"), own]),
            html.Label([html.Span("steps still to come", className="what-if-word"), horizon]),
            html.Label([html.Span("have least of", className="what-if-word"), objective]),
            html.P(id=Shapes.PROBLEM, className="quiet what-if-problem"),
        ],
        className="what-if",
    )


def answer(problem: Problem, wish: Wish) -> tuple[Advice, Plan, str]:
    """The advice, the plan to show for a wish, and what was wrong with the wish (empty: nothing)."""
    if wish.own and problem.axes:
        advice = advise(problem, wish.future_steps, objective=wish.objective)
        ends = wish.own_ends(len(problem.axes))
        if ends is not None:
            plan = what_if(problem, ends, wish.future_steps)
            return with_plan(advice, problem, plan), plan, ""
        wanted = "48, 96" if len(problem.axes) == 1 else "48, 96 × 16, 32"
        return advice, advice.best, f"Sizes are numbers with commas, as in {wanted}."
    advice = advise(problem, wish.future_steps, wish.buckets or None, wish.objective)
    return advice, advice.chosen or advice.best, ""


def head(advice: Advice) -> list[Any]:
    """The sentence that leads the page, and what qualifies it."""
    notes = [parts.notice(note, "warning" if note.startswith("Thin") else "info") for note in advice.notes]
    return [parts.headline(advice.summary), *notes]


def outcome(problem: Problem, advice: Advice, plan: Plan) -> html.Dl:
    """What the plan would do, in figures."""
    saves = advice.recorded.total_s - plan.total_s
    low_high = "range not known"
    if plan.range_s is not None:
        low_high = f"90 %: {numbers.duration(plan.range_s[0])} to {numbers.duration(plan.range_s[1])}"
    steps = numbers.plural(problem.steps + advice.future_steps, "step")
    inferred = "Worked out from the times that this run took"
    before = numbers.duration(advice.recorded.total_s, inferred=True)
    buckets = bucket_text(plan.buckets)
    memory = "Memory of the graph that ran at the largest size"
    if plan.memory_inferred:
        memory = "No graph ran at the largest size: worked out from the memory of the others"
    elif plan.memory_bytes is None:
        memory = "Not measured: no graph's memory is known"
    figure = parts.key_figure
    return parts.key_figures(
        [
            figure("padded to", parts.middle(buckets, 18), _number_of(plan), buckets),
            figure("compiles", numbers.count(plan.compiles), f"as recorded {numbers.count(advice.recorded.compiles)}"),
            figure("padding", padding_text(plan), "added to the recorded batches"),
            figure("time", numbers.duration(plan.total_s, inferred=True), low_high, inferred),
            figure(
                "saves" if saves >= 0 else "costs more",
                numbers.duration(abs(saves), inferred=True),
                f"of {before} for {steps}",
                inferred,
            ),
            figure("largest graph", memory_text(plan), "inputs, outputs, temporaries", memory),
        ]
    )


def _number_of(plan: Plan) -> str:
    if plan.buckets is None:
        return "sizes stay as they are"
    marked = ", beyond what was timed" if plan.extrapolated else ""
    return numbers.plural(max((len(ends) for ends in plan.buckets), default=0), "bucket") + marked


def padding_text(plan: Plan) -> str:
    """Padding in percent; less than nothing where regrouping leaves fewer elements than were recorded."""
    return numbers.percent(100 * plan.waste) if plan.waste >= 0 else f"-{numbers.percent(-100 * plan.waste)}"


def memory_text(plan: Plan) -> str:
    """Memory of the largest graph, marked where it is inferred."""
    return ("~" if plan.memory_inferred else "") + numbers.size(plan.memory_bytes)


def plan_table(advice: Advice, plan: Plan) -> html.Table:
    """Every plan, the best first; the shown one is marked."""
    every = {id(one): one for one in (advice.recorded, *advice.plans, plan)}
    listed = sorted(every.values(), key=lambda one: (advice.goal.cost(one), one is not plan))
    heading = html.Thead(html.Tr([html.Th(column, scope="col") for column in _PLAN_COLUMNS]))
    rows = [_plan_row(one, one is plan) for one in (*listed, *advice.alternatives)]
    return html.Table([heading, html.Tbody(rows)], className="plans")


def _plan_row(plan: Plan, chosen: bool) -> html.Tr:
    likely = numbers.NOT_MEASURED
    if plan.range_s is not None:
        likely = f"{numbers.duration(plan.range_s[0])} – {numbers.duration(plan.range_s[1])}"
    cells = [
        numbers.count(plan.compiles),
        numbers.duration(plan.compile_s, inferred=True),
        numbers.duration(plan.step_s, inferred=True),
        numbers.duration(plan.total_s, inferred=True),
        likely,
        padding_text(plan),
        memory_text(plan),
    ]
    note = html.Span(plan.note, className="summary") if plan.note else None
    extrapolated = html.Span("beyond what was timed", className="summary") if plan.extrapolated else None
    named = [html.Span("→ ", className="shape") if chosen else None, html.Strong(plan.word), note]
    return html.Tr(
        [
            html.Td(named),
            html.Td([parts.long_text(bucket_text(plan.buckets), 40), extrapolated], className="place"),
            *(
                html.Td(cell, className="number", **{"data-word": word})
                for word, cell in zip(_PLAN_COLUMNS[2:], cells, strict=True)
            ),
        ],
        className="chosen" if chosen else None,
    )


def figures(problem: Problem, plan: Plan, canvas: Canvas) -> list[Any]:
    """One figure a dimension."""
    if not problem.axes:
        return [html.P("No dimension changes from batch to batch.", className="lead")]
    drawn = []
    for number, axis in enumerate(problem.axes):
        ends = plan.buckets[number] if plan.buckets else ()
        figure = size_figure(axis.sizes[problem.batch_combination], ends, canvas)
        others = [str(member) for member in axis.members if member != axis.leader]
        along = html.Span(f"moves with {', '.join(others)}", className="quiet") if others else None
        title = html.H3([html.Code(parts.middle(axis.word), className="hash", title=axis.word), along])
        meaning = f"How many batches had each size of {axis.word}, and the sizes in order of time"
        drawn.append(
            html.Figure(
                [title, dcc.Graph(id={"type": Shapes.FIGURE, "axis": number}, figure=figure, config=_CONFIG)],
                **{"aria-label": meaning},
            )
        )
    return drawn


def code(advice: Advice) -> Any:
    """The lines to paste."""
    if not advice.code:
        return None
    return html.Div(
        [html.H3("To paste where your collator is made"), parts.command(advice.code)], className="what-if-code"
    )


def problem_of(library: Library, selected: Shown) -> Problem | None:
    """The shapes of what is selected. Raises PreventUpdate when the run is gone."""
    try:
        return library.shapes(selected.view)
    except InsightError as error:
        raise PreventUpdate from error


def dragged(changes: list[Any], drawn: list[Any]) -> str | None:
    """The own sizes after a line of a figure was dragged; None when none was."""
    moves = [moved_ends(figure["layout"], change or {}) for figure, change in zip(drawn, changes, strict=True)]
    if not any(moves):
        return None
    stood = [sorted(round(end) for end in bucket_lines(figure["layout"]).values()) for figure in drawn]
    return " × ".join(", ".join(map(str, move or ends)) for move, ends in zip(moves, stood, strict=True))


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""
    _register_content(app, library)
    _register_controls(app)


def _register_content(app: Dash, library: Library) -> None:

    @app.callback(
        *(
            Output(part, "children")
            for part in (Shapes.HEAD, Shapes.OUTCOME, Shapes.PLANS, Shapes.CODE, Shapes.FIGURES)
        ),
        Output(Shapes.PROBLEM, "children"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.SCREEN, "data"),
        Input(Shapes.BUCKETS, "value"),
        Input(Shapes.OWN, "value"),
        Input(Shapes.HORIZON, "value"),
        Input(Shapes.OBJECTIVE, "value"),
    )
    def fill(scope: Any, screen: Any, *wish: Any) -> tuple[Any, ...]:
        return content(problem_of(library, shown(library, scope)), Wish.of(*wish), screen)

    @app.callback(Output(Shapes.GRID, "rowData"), Output(Shapes.GRID, "style"), Input(Shell.SCOPE, "data"))
    def list_shapes(scope: Any) -> tuple[Any, Any]:
        return rows_of(problem_of(library, shown(library, scope)))


def _register_controls(app: Dash) -> None:
    @app.callback(
        Output(Shell.LOCATION, "search", allow_duplicate=True),
        Input(Shapes.BUCKETS, "value"),
        Input(Shapes.OWN, "value"),
        Input(Shapes.HORIZON, "value"),
        Input(Shapes.OBJECTIVE, "value"),
        State(Shell.LOCATION, "search"),
        prevent_initial_call=True,
    )
    def keep(*wish_and_search: Any) -> Any:
        *wish, search = wish_and_search
        before = Address.parse(search)
        after = replace(before, filter=Wish.of(*wish).text)
        return no_update if after == before else after.search

    @app.callback(
        Output(Shapes.OWN, "value"),
        Input({"type": Shapes.FIGURE, "axis": ALL}, "relayoutData"),
        Input(Shapes.BUCKETS, "value"),
        State({"type": Shapes.FIGURE, "axis": ALL}, "figure"),
        prevent_initial_call=True,
    )
    def drag(changes: Any, _buckets: Any, drawn: Any) -> Any:
        if ctx.triggered_id == Shapes.BUCKETS:
            return ""
        own = dragged(changes, drawn)
        return no_update if own is None else own

    @app.callback(Output(Shapes.GRID, "exportDataAsCsv"), Input(Shapes.EXPORT, "n_clicks"), prevent_initial_call=True)
    def export(clicks: Any) -> bool:
        return bool(clicks)


def content(problem: Problem | None, wish: Wish, screen: dict[str, Any] | None) -> tuple[Any, ...]:
    """Everything that follows the controls: head, outcome, plans, code, figures, and what is wrong with the wish."""
    if not screen:
        raise PreventUpdate
    if problem is None:
        nothing = html.H1("There are no shapes to plan for.", className="verdict")
        return [nothing, html.P(_NOTHING, className="lead")], None, None, None, None, ""
    advice, plan, wrong = answer(problem, wish)
    drawn = figures(problem, plan, strip.canvas_for(screen))
    return head(advice), outcome(problem, advice, plan), plan_table(advice, plan), code(advice), drawn, wrong


PAGE = Page(Route.SHAPES, "Shapes", layout, register)
