"""Page Recompilations: the dearest avoidable cause is shown at once, its root marked, the rest folded, all as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dash.development.base_component import Component
from xla_insight_app import listing
from xla_insight_app.address import Address
from xla_insight_app.causes import Chosen, cause_of_graph, choose, named_entries, place_of, steps_of_cause
from xla_insight_app.data import Library
from xla_insight_app.explanations import KEPT, Explanations
from xla_insight_app.pages import graph_text, graphs, recompilations
from xla_insight_app.pages import recompilations_detail as detail
from xla_insight_app.scope import Shown

from tests.app.test_pages import text_of
from tests.kept_graphs import build_explained_run
from tests.synthetic import HOSTILE_FORMULA, graph_hash
from xla_insight.facts.report import Member, Recompile, Report, Severity, ShapeFacts
from xla_insight.report.figures_colours import Scheme

ROOT = {
    "site": {"file": "/home/me/collate.py", "line": 7, "function": "collate", "source": "ids = pad(batch)"},
    "inferred": False, "kind": "shape", "operation": "xla::device_data", "opcode": "parameter",
    "before": "s64[4,12]", "now": "s64[4,16]", "input": "input_ids", "dimension": 1, "follows": 79,
}  # fmt: skip


def explained_as(report: Report, cause: str, **changes: Any) -> Report:
    """The report with all that was not expected as one entry of a given cause."""
    expected = tuple(entry for entry in report.recompiles if entry.expected)
    others = [entry for entry in report.recompiles if not entry.expected]
    members = sorted((member for entry in others for member in entry.members), key=lambda member: member.step or 0)
    root = changes.get("root", {})
    own = {**root, "before": "s64[4,16]", "now": "s64[4,15]"} if root else {}
    members = [replace(members[0], root=root), *(replace(m, root=own, summary="Shorter.") for m in members[1:])]
    one = replace(
        others[0], cause=cause, severity=Severity.WARNING, advice="Pad to a few lengths.", summary="Another length.",
        count=len(members),
        compile_s=sum(entry.compile_s for entry in others), members=tuple(members), steps=(2, 5),
        graphs=tuple(str(member.graph) for member in members), **{"root": {}, **changes},
    )  # fmt: skip
    return replace(report, recompiles=(one, *expected))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    build_explained_run(root / "run")
    build_explained_run(root / "hostile", hostile=True)
    return root


@pytest.fixture(scope="module")
def selected(folder: Path) -> Shown:
    view = Library(folder).view("run")
    return Shown(replace(view, report=explained_as(view.report, "input_shape", root=ROOT)), 0)


def parts_of(content: Any) -> Iterator[Component]:
    """All components of a tree."""
    for part in content if isinstance(content, list | tuple) else [content]:
        if isinstance(part, Component):
            yield part
            yield from parts_of(getattr(part, "children", None) or [])


def of_class(content: Any, name: str) -> list[Component]:
    return [p for p in parts_of(content) if name in str(getattr(p, "className", "") or "").split()]


def the_choice(selected: Shown, cause: str | None = None, graph: str | None = None) -> Chosen:
    chosen = choose(selected.view.report, cause, graph, selected.view.kept)
    assert chosen is not None
    return chosen


def test_it_leads_with_what_can_be_avoided(selected: Shown) -> None:
    assert recompilations.sentence(selected.view.report) == (
        "2 avoidable recompiles took 600 ms, 41 % of this run: all because of input shape at collate.py:7."
    )
    assert "steps 3 to 5" in text_of(recompilations.head(replace(selected, steps=(3, 5))))


def test_a_healthy_run_is_told_so(folder: Path) -> None:
    report = Library(folder).view("run").report
    assert recompilations.sentence(report).startswith("All 4 compiles were expected or paid back by reuse: 1.2 s")
    nothing = replace(report, recompiles=(), graphs=replace(report.graphs, compiles=0))
    assert recompilations.sentence(nothing) == "Nothing was compiled in this run."
    assert choose(nothing, None, None) is None
    unknown = explained_as(report, "unknown")
    assert "because of a cause that is not known at train.py:40" in recompilations.sentence(unknown)


def test_causes_are_rows_of_values_and_texts(selected: Shown) -> None:
    rows = recompilations.cause_rows(selected)
    json.dumps(rows)
    first = rows[0]
    assert (first["id"], first["cause_text"], first["count"]) == ("input_shape@train.py:40", "input shape", 2)
    assert (first["compile_s"], first["compile_s_text"], first["share_text"]) == (0.6, "600 ms", "41 %")
    assert first["place_text"] == "collate.py:7" and "warning" in first["severity_text"]
    for column in recompilations.CAUSE_COLUMNS:
        assert f"{column[0]}_text" in first
    within = recompilations.cause_rows(replace(selected, steps=(3, 8)))
    assert [row["id"] for row in within] == ["input_shape@train.py:40"]


def test_members_say_whether_their_graphs_were_kept(selected: Shown) -> None:
    rows = recompilations.member_rows(selected, the_choice(selected).entry)
    assert [(row["step"], row["graph"], row["kept"]) for row in rows] == [
        (2, graph_hash("B"), "both"), (5, graph_hash("C"), "both")
    ]  # fmt: skip
    for column in recompilations.MEMBER_COLUMNS:
        assert f"{column[0]}_text" in rows[0]


def test_what_is_shown_when_nothing_is_chosen_is_the_dearest_avoidable(selected: Shown) -> None:
    chosen = the_choice(selected)
    assert chosen.name == "input_shape@train.py:40"
    assert chosen.member is not None and chosen.member.graph == graph_hash("B")


def test_an_address_chooses(selected: Shown) -> None:
    name = "first_graph@masking_utils.py:354"
    assert the_choice(selected, cause=name).name == name
    by_graph = the_choice(selected, graph=graph_hash("C"))
    assert by_graph.member is not None and by_graph.member.step == 5
    moved = the_choice(selected, cause=name, graph=graph_hash("C"))
    assert moved.name == "input_shape@train.py:40", "a graph that the cause did not compile wins"
    assert the_choice(selected, cause="nonsense", graph="none").name == "input_shape@train.py:40"


def test_names_of_causes_are_their_own(selected: Shown) -> None:
    report = selected.view.report
    twice = replace(report, recompiles=(*report.recompiles, *report.recompiles))
    assert len(named_entries(twice)) == 6
    assert "input_shape@train.py:40~2" in named_entries(twice)


def test_steps_of_a_cause_are_lit(selected: Shown) -> None:
    name = the_choice(selected).name
    assert steps_of_cause(selected.view.report, name, 0) == {2, 5}
    assert steps_of_cause(selected.view.report, name, 1) == set()
    assert steps_of_cause(selected.view.report, "nonsense", 0) is None
    assert replace(selected, cause=name).lit == {2, 5}
    assert replace(selected, cause=name, graph=graph_hash("C")).lit == {5, 12}
    assert selected.lit is None


def test_the_detail_tells_now_before_the_line_and_the_change(selected: Shown) -> None:
    chosen = the_choice(selected)
    assert chosen.target is not None
    explained = Explanations().of(selected.view, chosen.target)
    shown = [
        *detail.cause(chosen),
        *detail.root(selected.view, chosen.entry, explained),
        *detail.change(selected.view.report, chosen, Address(run="run")),
    ]
    text = text_of(shown)
    order = ["input shape", chosen.entry.summary, "input_ids", "s64[4,16]", "s64[4,12]", "collate.py:7",
             "Pad to a few lengths.", '("input_ids", "attention_mask"): [88]']  # fmt: skip
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)
    assert text_of(of_class(shown, "code-here")[0]) == "7 ids = pad(batch)"


def test_another_compile_than_the_example_is_told_apart(selected: Shown) -> None:
    assert "shown here" not in text_of(detail.cause(the_choice(selected)))
    chosen = the_choice(selected, graph=graph_hash("C"))
    assert text_of(detail.cause(chosen)).endswith("Another length. Step 5, shown here: Shorter.")
    assert chosen.target is not None
    root = detail.root(selected.view, chosen.entry, Explanations().of(selected.view, chosen.target))
    assert "s64[4,15]" in text_of(root) and "s64[4,12]" not in text_of(root)


def test_the_code_to_copy_is_that_of_the_page_shapes(selected: Shown) -> None:
    plan = ShapeFacts("", "optimal-1", ((16,),), 1.0, 2, "BucketCollator([16])", dimensions=("input_ids[1]",))
    report = replace(selected.view.report, shapes=plan)
    text = text_of(detail.change(report, the_choice(selected), Address(run="run")))
    assert "BucketCollator([16])" in text and "functional.pad" not in text


def test_both_graphs_beside_each_other(selected: Shown) -> None:
    chosen = the_choice(selected)
    assert chosen.target is not None
    shown = detail.difference(Explanations().of(selected.view, chosen.target), 1300, Scheme.LIGHT)
    (root,) = of_class(shown, "row-root")
    assert "s64[4,12] parameter(6)" in text_of(root).replace("  ", " ") and "s64[4,16]" in text_of(root)
    assert [text_of(part) for part in of_class(root, "differs")] == ["s64[4,12]", "s64[4,16]"]
    assert of_class(shown, "fold") and len(of_class(shown, "row")) < 30
    assert "79 follow from it" in text_of(shown) and "Around the root" in text_of(shown)
    json.dumps([part.to_plotly_json() for part in shown], default=lambda part: part.to_plotly_json())


def test_a_fold_opens_into_rows_and_a_smaller_fold(selected: Shown) -> None:
    chosen = the_choice(selected)
    assert chosen.target is not None
    comparison = Explanations().of(selected.view, chosen.target).comparison
    assert comparison is not None
    opened = listing.rendered(comparison.aligned.expand(20, 300, 50))
    assert len(of_class(opened, "row")) == 50
    (rest,) = of_class(opened, "fold")
    assert rest.id == {"type": "listing-fold", "start": 70, "stop": 300}


def test_what_was_not_kept_is_said(selected: Shown) -> None:
    view = replace(selected.view, hlo=lambda _graph: None, kept=frozenset())
    chosen = the_choice(replace(selected, view=view))
    assert chosen.target is not None
    explained = Explanations().of(view, chosen.target)
    assert "was not kept" in text_of(detail.difference(explained, 1300, Scheme.LIGHT))
    assert "s64[4,16]" in text_of(detail.root(view, chosen.entry, explained)), "the report knows it"
    assert detail.difference(None, 1300, Scheme.LIGHT) == []


def test_graphs_are_compared_once_and_few_are_kept(selected: Shown) -> None:
    fetched: list[str] = []

    def fetch(graph: str) -> bytes | None:
        fetched.append(graph)
        content: bytes | None = selected.view.hlo(graph)
        return content

    view = replace(selected.view, hlo=fetch)
    explanations = Explanations()
    target = the_choice(selected).target
    assert target is not None
    assert explanations.of(view, target).comparison is explanations.of(view, target).comparison
    assert fetched == [graph_hash("A"), graph_hash("B")]
    assert explanations.graph(view, graph_hash("A")) is explanations.graph(view, graph_hash("A"))
    assert len(fetched) == 3 and explanations.graph(view, "nothing") is None
    assert len(explanations._kept) <= KEPT


def test_a_graph_tells_why_it_was_compiled(selected: Shown) -> None:
    content = graphs.detail(selected, graph_hash("C"), Address(run="run"))
    assert "Compiled: input shape" in text_of(content)
    links = [part.href for part in parts_of(content) if getattr(part, "href", None)]
    assert links == [f"/recompilations?run=run&graph={graph_hash('C')}&cause=input_shape%40train.py%3A40"]
    assert cause_of_graph(selected.view.report, "nothing") is None


def test_the_text_of_a_graph(selected: Shown) -> None:
    view = selected.view
    parsed = Explanations().graph(view, graph_hash("A"))
    assert parsed is not None
    whole = graph_text.content(view, graph_hash("A"), parsed, "")
    assert "by line of code" in text_of(whole) and "s64[4,12] parameter(6)" in text_of(whole)
    found = graph_text.content(view, graph_hash("A"), parsed, "parameter s64[4,12]")
    assert text_of(found[1]).startswith("1 of 4")
    assert "was not kept" in text_of(graph_text.content(view, "nothing", None, ""))
    assert "cannot be read" in text_of(graph_text.content(view, graph_hash("A"), None, ""))


def test_two_thousand_compiles_are_rows_of_one_table(selected: Shown) -> None:
    entry: Recompile = the_choice(selected).entry
    many = tuple(Member(f"{number:032x}", number, 0, 0.1, None) for number in range(2_000))
    rows = recompilations.member_rows(selected, replace(entry, members=many))
    assert len(rows) == len({row["id"] for row in rows}) == 2_000
    assert rows[0]["kept"] == "no" and rows[0]["against_text"] == "none earlier"


def test_hostile_names_are_texts(folder: Path) -> None:
    view = Library(folder).view("hostile")
    selected = Shown(view, 0)
    definitions = json.dumps(recompilations.layout(Address()).to_plotly_json(), default=lambda p: p.to_plotly_json())
    assert "markdown" not in definitions and "cellRenderer" not in definitions
    json.dumps(recompilations.cause_rows(selected))
    for entry in view.report.recompiles:
        site = place_of(entry)
        assert site is not None
        shown = detail.root(view, entry, None)
        json.dumps([part.to_plotly_json() for part in shown], default=lambda part: part.to_plotly_json())
        assert HOSTILE_FORMULA in text_of(shown)


def test_lines_are_known_by_the_name_a_graph_gives(selected: Shown) -> None:
    assert selected.view.snippet("train.py", 40) == [(40, "for batch in loader:")]
    assert selected.view.snippet("/home/me/train.py", 40) == [(40, "for batch in loader:")]
    assert selected.view.snippet("other.py", 40) == []
