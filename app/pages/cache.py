"""Page Cache: what this run had of its caches, how large the one in memory should be, what a warm start would save.

Owns the layout of this page. The numbers come from ``analysis.cache``; which folders are shown is said when the app is
started, never by an address.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, dcc, html

from xla_insight.analysis.cache import cache_status, inspect_cache
from xla_insight.analysis.cache.explain import MOST_EARLIER, explain_misses
from xla_insight.analysis.cache.usage import Usage
from xla_insight.analysis.cache.use import cache_use
from xla_insight.analysis.tables import load_tables
from xla_insight.errors import InsightError
from xla_insight.facts.cache import CacheExplanation, CacheStatus, CacheUse, MissReason
from xla_insight.report import numbers
from xla_insight.report.cache_text import memory_sentence
from xla_insight.report.figures_cache import hit_rate_curve

from .. import parts, strip
from ..address import Address
from ..data import Library
from ..ids import Caches, Route, Shell
from ..scope import shown
from .page import Page

FRESH_S = 30
"""A folder is listed again after this time."""
_REASONS = {
    MissReason.NEVER_BUILT: "never built before",
    MissReason.OTHER_ENVIRONMENT: "built in another environment",
    MissReason.OTHER_GRAPH: "another version of the graph",
    MissReason.UNREADABLE: "entry cannot be loaded",
    MissReason.OTHER_FOLDER: "another folder",
    MissReason.READ_ONLY: "not kept: read only",
    MissReason.NO_CACHE: "no cache used",
    MissReason.GONE: "not there any more",
}
_NAMED_GRAPHS, _LISTED = 6, 20


def layout(_address: Address) -> html.Div:
    """The page, to be filled by its callbacks."""
    config = {"displayModeBar": False, "responsive": False}
    curve = dcc.Graph(id=Caches.CURVE, config=config, className="steps-figure")
    label = {"aria-label": "Hit rate of the cache in memory over the number of graphs it holds"}
    return html.Div(
        [
            html.Div(parts.skeleton(176), id=Caches.HEAD),
            strip.layout(Route.CACHE),
            parts.section("Cache in memory: hit rate over its size", html.Figure(curve, **label)),
            html.Div(html.Div(parts.skeleton(160), className="section"), id=Caches.FOLDERS),
        ]
    )


def register(app: Dash, library: Library) -> None:
    """Callbacks of this page."""

    @app.callback(
        Output(Caches.HEAD, "children"),
        Output(Caches.CURVE, "figure"),
        Input(Shell.SCOPE, "data"),
        Input(Shell.SCREEN, "data"),
    )
    def fill(stored: Any, screen: Any) -> tuple[Any, Any]:
        run_id = shown(library, stored).view.entry.id
        use = library.derived("cache use", [run_id], lambda runs: cache_use(load_tables(runs[0])))
        return head(use), hit_rate_curve(use.memory, strip.canvas_for(screen or {"width": 1200}))

    @app.callback(Output(Caches.FOLDERS, "children"), Input(Shell.SCOPE, "data"))
    def fill_folders(stored: Any) -> Any:
        run_id = shown(library, stored).view.entry.id
        return [folder(library, place, run_id) for place in library.caches] or how_to_show(library)


def head(use: CacheUse) -> list[Any]:
    """The sentence, where the cache is, and the figures."""
    where = []
    if use.folder is not None:
        only = ", read only" if use.read_only else ""
        where = [html.P(["Persistent cache: ", parts.long_text(use.folder, 72, "place"), only], className="lead")]
    return [parts.headline(use.summary), *where, key_figures(use)]


def key_figures(use: CacheUse) -> html.Dl:
    """The six figures of a run's caches."""
    memory = use.memory
    looked = use.loads + use.misses + use.failures
    return parts.key_figures(
        [
            parts.key_figure("compiles", numbers.count(use.compiles), numbers.duration(use.compile_s)),
            parts.key_figure(
                "found in memory", numbers.count(use.hits), numbers.share(use.hits, use.hits + use.compiles + use.loads)
            ),
            parts.key_figure(
                "loaded from disk", numbers.count(use.loads) if looked else numbers.NOT_MEASURED,
                "" if looked else "no cache on disk", "Graphs that came from the persistent cache",
            ),
            parts.key_figure(
                "missed on disk", numbers.count(use.misses) if looked else numbers.NOT_MEASURED,
                "", "Graphs that the persistent cache did not have",
            ),
            parts.key_figure(
                "failed to load", numbers.count(use.failures) if looked else numbers.NOT_MEASURED,
                "", "Entries that were there and could not be loaded",
            ),
            parts.key_figure(
                "dropped from memory", numbers.count(use.evictions),
                f"{numbers.plural(memory.distinct, 'graph')}, room for {numbers.count(memory.recorded_size)}",
                memory_sentence(memory),
            ),
        ]
    )  # fmt: skip


def folder(library: Library, place: str, run_id: str) -> html.Section:
    """One cache folder, and what a start of this run would find in it."""
    bucket = int(time.monotonic() / FRESH_S)
    try:
        status, explanation = library.derived(
            ("cache", place, bucket),
            _with_earlier(library, run_id),
            lambda runs: _inspect(place, runs),
        )
    except InsightError as error:
        return parts.section("Cache folder", html.P(str(error), className="lead"))
    title = html.Div([html.Span("Cache folder "), parts.long_text(place, 64, "place")])
    content = [
        html.P(parts.unbroken(explanation.summary), className="lead"),
        _status_line(status),
        misses(explanation),
        *(parts.notice(note) for note in explanation.notes),
    ]
    return html.Section([html.Div([html.H2(title)], className="section-head"), *content], className="section")


def _with_earlier(library: Library, run_id: str) -> list[str]:
    """The run, and those recorded before it, the latest first."""
    names = [entry.id for entry in library.entries() if not entry.problem]
    earlier = names[names.index(run_id) + 1 :] if run_id in names else []
    return [run_id, *earlier[:MOST_EARLIER]]


def _inspect(place: str, runs: Sequence[Any]) -> tuple[CacheStatus, CacheExplanation]:
    usage = Usage()
    for run in reversed(runs):
        usage.add(run)
    cache = inspect_cache(place, usage)
    return cache_status(cache), explain_misses(cache, runs[0], runs[1:])


def _status_line(status: CacheStatus) -> html.P:
    text = f"{numbers.plural(status.entries, 'entry', 'entries')}, {numbers.size(status.size)}"
    if status.newest_unix_s is not None:
        text += f", last written {numbers.ago(time.time() - status.newest_unix_s)}"
    kinds = ", ".join(status.layouts) or "no entry of torch_xla, JAX or Neuron"
    in_use = f" In use: {status.in_use}." if status.in_use else ""
    return html.P(f"{text} ({kinds}).{in_use}", className="quiet")


def misses(explanation: CacheExplanation) -> Any:
    """Why each graph was compiled; graphs with the same reason together."""
    groups: dict[tuple[MissReason, str], list[Any]] = {}
    for miss in explanation.misses:
        groups.setdefault((miss.reason, miss.sentence), []).append(miss)
    if not groups:
        return None
    heading = html.Tr([html.Th(word, scope="col") for word in ("Why compiled", "Graphs", "Cost", "Which")])
    rows = []
    for (reason, sentence), members in list(groups.items())[:_LISTED]:
        cost = sum(member.compile_s or 0.0 for member in members)
        names = ", ".join(numbers.short_hash(member.graph) for member in members[:_NAMED_GRAPHS])
        more = f" and {numbers.count(len(members) - _NAMED_GRAPHS)} more" if len(members) > _NAMED_GRAPHS else ""
        word = [html.Strong(_REASONS[reason]), html.Span(sentence, className="summary")]
        figures = (numbers.count(len(members)), numbers.duration(cost))
        cells = [html.Td(word), *map(html.Td, figures), html.Td(f"{names}{more}", className="place")]
        rows.append(html.Tr(cells))
    table = html.Table([html.Thead(heading), html.Tbody(rows)], className="facts-table wide-first")
    if len(groups) <= _LISTED:
        return table
    left_out = numbers.plural(sum(map(len, list(groups.values())[_LISTED:])), "graph")
    rest = f"{left_out} more for other reasons; xla-insight cache explain --json names all."
    return html.Div([table, html.P(rest, className="quiet")])


def how_to_show(library: Library) -> html.Section:
    """For an app that was started without a cache folder."""
    return parts.section(
        "Cache folder",
        html.P(
            "To see what a warm start of this run would save, name the folder of the compile cache:", className="lead"
        ),
        parts.command(f"xla-insight app {library.folder} --cache /path/to/cache"),
    )


PAGE = Page(Route.CACHE, "Cache", layout, register)
