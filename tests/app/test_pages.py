"""Pages and what is shown instead of them: sentences first, figures with units, recorded texts as texts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dash.development.base_component import Component
from xla_insight_app import legends, messages, parts, shell, strip
from xla_insight_app.address import Address
from xla_insight_app.data import Library
from xla_insight_app.ids import Route, Strip
from xla_insight_app.pages import PAGES, graphs, overview
from xla_insight_app.pages.graphs import COLUMNS
from xla_insight_app.scope import Scope, Shown, resolve

from tests.app.recordings import USUAL, Recording, graph_hash, write_run
from xla_insight.facts.report import Severity
from xla_insight.report import numbers


def text_of(content: Any) -> str:
    """All text of a component tree, in order."""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return " ".join(text_of(part) for part in content)
    return text_of(getattr(content, "children", None) or "") if isinstance(content, Component) else ""


@pytest.fixture(scope="module")
def selected(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """A run of 40 steps with four graphs."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run", 40)
    return Shown(Library(folder).view("run"), 0)


def test_overview_leads_with_the_verdict(selected: Shown) -> None:
    report = selected.view.report
    head = overview.head(report, [])
    assert head[0].children.replace("\u00a0", " ") == report.verdict.summary
    assert type(head[0]).__name__ == "H1"


def test_numbers_stay_with_their_units() -> None:
    text = "38 % of this run (31.9 s of 1 m 23 s, 2 h 5 m, 3 kB): 12 of 18 compiles"
    joined = parts.unbroken(text)
    assert joined.replace("\u00a0", "_") == "38_% of this run (31.9_s of 1_m_23_s, 2_h_5_m, 3_kB): 12 of 18 compiles"


def test_cheap_costs_are_folded(selected: Shown) -> None:
    report = selected.view.report
    cheap = replace(report.findings[0], cost_s=0.001, count=1)
    section = overview.costs(replace(report, findings=(*report.findings, *[cheap] * 4)))
    table, details = section.children[1:]
    assert len(table.children[1].children) == 3
    assert text_of(details.children[0]) == "4 more, each cheaper"
    assert len(details.children[1].children.children) == 4


def test_key_figures_have_units_and_marks(selected: Shown) -> None:
    text = text_of(overview.key_figures(selected.view.report)).replace("\u00a0", " ")
    assert "wall time 5.18 s 40 steps" in text
    assert "compiles 4 2 s" in text
    assert "device busy ~" in text
    assert "value reads 40" in text


def test_what_was_not_measured_is_not_zero(selected: Shown) -> None:
    report = selected.view.report
    unknown = replace(report, time=replace(report.time, device_busy_s=None, overlap_pct=None))
    text = text_of(overview.key_figures(unknown))
    assert "device busy n/a" in text
    assert "overlap n/a" in text


def test_costs_are_ranked_and_named(selected: Shown) -> None:
    table = overview.costs(selected.view.report)
    rows = table.children[1].children[1].children
    cost = [text_of(row.children[2]) for row in rows]
    # Three compiles more than needed, and then the time for which each read left the device without work.
    assert cost[:2] == [numbers.duration(1.5), numbers.duration(39 * 0.02)]
    assert "value read" in text_of(rows[1].children[1]).lower()
    assert "transformers/masking_utils.py:354" in text_of(rows[1].children[5])
    assert rows[-1].className == "expected"


def test_critical_without_a_cost_comes_first(selected: Shown) -> None:
    report = selected.view.report
    stopped = replace(report.findings[0], id="loader_error", cost_s=None, severity=Severity.CRITICAL)
    table = overview.costs(replace(report, findings=(*report.findings, stopped)))
    assert "loader error" in text_of(table.children[1].children[1].children[0])


def test_graph_rows_hold_values_and_their_texts(selected: Shown) -> None:
    rows = {row["graph"]: row for row in graphs.rows_of(selected)}
    usual = rows[USUAL]
    assert usual["executions"] == 36
    assert (usual["compile_s"], usual["compile_s_text"]) == (0.5, "500 ms")
    assert usual["device_s_text"].startswith("~")
    assert (usual["temporary_bytes"], usual["temporary_bytes_text"]) == (None, "n/a")
    assert usual["place_text"] == "train.py:31"
    json.dumps(list(rows.values()))
    for column in COLUMNS:
        assert f"{column.field}_text" in usual


def test_a_range_of_steps_narrows_the_graphs(selected: Shown) -> None:
    within = replace(selected, steps=(0, 9))
    assert {row["graph"] for row in graphs.rows_of(within)} == {USUAL, graph_hash(1)}
    assert "2 graphs that ran in steps 0 to 9" in text_of(graphs.head(within))


def test_detail_of_a_graph(selected: Shown) -> None:
    text = text_of(graphs.detail(selected, USUAL))
    assert "loss = step(batch)" in text
    assert "executions 36" in text
    assert "This run has no graph nothing" in text_of(graphs.detail(selected, "nothing"))


def test_table_state_comes_from_the_address() -> None:
    address = Address(sort="hits:asc", filter='{"hits": {"type": "equals", "filter": 1}, "evil": {}}')
    grid = graphs._grid(address)
    assert {column["field"]: column["sort"] for column in grid.columnDefs if "sort" in column} == {"hits": "asc"}
    assert grid.filterModel == {"hits": {"type": "equals", "filter": 1}}
    for nonsense in ("[1]", "{", "3", None):
        assert graphs._filter_model(nonsense) == {}


def test_graphs_never_use_markup_for_cells() -> None:
    definitions = json.dumps(graphs._grid(Address()).columnDefs)
    assert "markdown" not in definitions
    assert "cellRenderer" not in definitions
    assert not getattr(graphs._grid(Address()), "dangerously_allow_code", False)


def test_state_legend_accounts_for_all_time(selected: Shown) -> None:
    text = text_of(legends.state_legend(selected, strip.scheme_of({})))
    assert "time of all steps" in text
    assert "compile 2 s, 38 %" in text
    assert "device busy ~2.4 s" in text
    one = text_of(legends.state_legend(replace(selected, steps=(3, 3)), strip.scheme_of({"scheme": "dark"})))
    assert "time of these steps" in one
    assert "compile" not in one


def test_graph_legend_links_select_and_release(selected: Shown) -> None:
    address = Address(run="run", graph=graph_hash(2))
    legend = legends.graph_legend(selected, strip.scheme_of({}), address, Route.OVERVIEW)
    links = legend.children[1].children
    assert links[0].href == f"/?run=run&graph={USUAL}"
    chosen = next(link for link in links if "chosen" in link.className)
    assert chosen.href == "/?run=run"


@pytest.mark.parametrize(
    ("trigger", "dragged", "typed", "steps"),
    [
        (Strip.DRAGGED, {"xaxis.range[0]": 99.6, "xaxis.range[1]": 200.4}, None, (100, 200)),
        (Strip.DRAGGED, {"xaxis.range[0]": -3.0, "xaxis.range[1]": 4.0}, None, (0, 4)),
        (Strip.DRAGGED, {"xaxis.autorange": True}, None, None),
        (Strip.DRAGGED, {"autosize": True}, None, (1, 2)),
        (Strip.RANGE, None, "7-9", (7, 9)),
        (Strip.RANGE, None, "", None),
        (Strip.RANGE, None, "nonsense", (1, 2)),
        (Strip.RESET, None, "7-9", None),
    ],
)
def test_ways_to_select_steps(trigger: str, dragged: Any, typed: Any, steps: Any) -> None:
    assert strip._selection(trigger, Address(steps=(1, 2)), dragged, typed) == Address(steps=steps)


def test_a_field_filled_from_the_address_keeps_the_stretch_of_time() -> None:
    for address, typed in ((Address(steps=(7, 9), time=(10, 20)), "7-9"), (Address(time=(10, 20)), "")):
        assert strip._selection(Strip.RANGE, address, None, typed) == address


def test_scope_of_an_address(tmp_path: Path) -> None:
    library = Library(tmp_path)
    assert resolve(library, Address()) == Scope()
    write_run(tmp_path / "run", 3)
    scope = resolve(library, Address())
    assert (scope.run, scope.process, scope.steps, scope.state) == ("run", 0, 3, "ended")
    assert Scope.from_json(json.loads(json.dumps(scope.to_json()))) == scope
    assert not scope.live
    gone = resolve(library, Address(run="../run"))
    assert gone.state == "gone"
    assert gone.trouble


def test_instead_of_a_page(tmp_path: Path) -> None:
    assert "xla-insight run" in text_of(messages.instead_of_page(Scope(), tmp_path))
    trouble = Scope(run="a", state="broken", trouble="It broke. Record again.")
    assert "It broke. Record again." in text_of(messages.instead_of_page(trouble, tmp_path))
    begun = Scope(run="a", process=None, state="recording", steps=0)
    assert "no step has ended yet" in text_of(messages.instead_of_page(begun, tmp_path))
    assert "prof.step()" in text_of(messages.instead_of_page(replace(begun, state="ended"), tmp_path))
    assert messages.instead_of_page(replace(begun, steps=1), tmp_path) is None


def test_a_log_that_cannot_be_read_is_not_blamed_on_the_user(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", 3)
    (part,) = run.rglob("part-*.parquet")
    part.write_text("a,b")
    told = text_of(messages.instead_of_page(resolve(Library(tmp_path), Address()), tmp_path))
    assert "1 part of the log could not be read" in told and part.name in told and "from a copy" in told
    assert "prof.step()" not in told
    newer = Scope(run="a", state="ended", steps=0, damage="process.json was written by a newer one; upgrade it")
    assert "from a copy" not in text_of(messages.instead_of_page(newer, tmp_path))
    assert "no log" in text_of(messages.instead_of_page(Scope(run="a", state="empty", steps=0), tmp_path))


def test_a_crash_is_said(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "run")
    recording.step()
    recording.step()
    recording.flush()
    view = Library(tmp_path).view("run")
    crashed = replace(view, entry=replace(view.entry, state="crashed"), exceptions=("ValueError: no",))
    text = text_of(messages.notices(crashed))
    assert "after step 1" in text
    assert "ValueError: no" in text


def test_navigation_lists_pages_that_exist() -> None:
    words = [
        "Overview",
        "Recompilations",
        "Timeline",
        "Idle",
        "Shapes",
        "Ranks & devices",
        "Cache",
        "Graphs",
        "Compare",
    ]
    assert [page.word for page in PAGES] == words
    assert len({page.route for page in PAGES}) == len(PAGES)
    for page in PAGES:
        json.dumps(page.layout(Address()).to_plotly_json(), default=lambda part: part.to_plotly_json())


def test_every_state_has_a_word() -> None:
    assert all(shell.STATE_WORDS[state] for state in shell.RunState)


def test_a_size_that_rounds_to_nothing_is_not_shown_as_zero() -> None:
    from xla_insight_app.pages import graphs

    assert [graphs._WORDING["bytes"](n_bytes) for n_bytes in (None, 0, 1074)] == ["n/a", "<1 kB", "1.07 kB"]


def test_code_in_advice_is_shown_as_code() -> None:
    told = parts.with_code("Pad to 96, and `xla-insight shapes` has the lines.")
    assert [type(piece).__name__ for piece in told] == ["str", "Code", "str"] and "`" not in text_of(told)
    assert parts.with_code("a ` alone") == "a ` alone" and parts.with_code("none") == "none"


def test_long_names_in_a_headline_break_at_their_seams() -> None:
    head = parts.headline("At train (DataCollatorForLanguageModeling.torch_call, x.py:3) it changed")
    words = [piece for piece in head.children if isinstance(piece, str)]
    assert words[1:6] == ["(Data", "Collator", "For", "Language", "Modeling."]
    assert "".join(words) == "At train (DataCollatorForLanguageModeling.torch_call, x.py:3) it changed"
    assert parts.headline("Nothing at train.py:40.").children == "Nothing at train.py:40."
