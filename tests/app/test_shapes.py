"""Page Shapes: the sentence first, what-if answers at once, and what is tried stands in the address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash.exceptions import PreventUpdate
from xla_insight_app.address import Address
from xla_insight_app.data import Library
from xla_insight_app.pages import PAGES, shapes
from xla_insight_app.pages.shapes import Wish
from xla_insight_app.pages.shapes_table import rows_of

from tests.app.recordings import write_run
from tests.app.test_pages import text_of
from tests.synthetic import HOSTILE_FORMULA, build_run
from tests.unit.analysis.shapes.recorded import problem_of
from xla_insight.analysis.shapes import Problem
from xla_insight.facts.shapes import Objective
from xla_insight.report.figures import Canvas
from xla_insight.report.figures_shapes import size_figure

SCREEN = {"width": 1200, "scheme": "light"}


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """140 steps of three widths."""
    folder = tmp_path_factory.mktemp("runs")
    build_run(folder / "run", steps=140, step_ms=40, device_ms=25)
    library = Library(folder)
    found = library.shapes(library.view("run"))
    assert library.shapes(library.view("run")) is found, "read once"
    checked: Problem = found
    assert checked is not None
    return checked


def shown(problem: Problem | None, **wish: Any) -> tuple[Any, ...]:
    content: tuple[Any, ...] = shapes.content(problem, Wish(**wish), SCREEN)
    return content


def test_the_page_is_there() -> None:
    assert [page.word for page in PAGES].index("Shapes") < [page.word for page in PAGES].index("Graphs")


def test_it_leads_with_the_advice(problem: Problem) -> None:
    head, outcome, plans, code, drawn, wrong = shown(problem)
    assert type(head[0]).__name__ == "H1"
    assert head[0].children.startswith("input_ids[1] (3 sizes) changes from batch to batch: padding all to")
    assert "compiles" in text_of(outcome)
    assert "BucketCollator(" in text_of(code)
    assert len(drawn) == 1 and "moves with attention_mask[1]" in text_of(drawn)
    assert wrong == ""
    rows = plans.children[1].children
    assert sum(row.className == "chosen" for row in rows) == 1


def test_a_number_of_buckets_and_steps_to_come(problem: Problem) -> None:
    few = text_of(shown(problem, buckets=1)[1])
    many = text_of(shown(problem, buckets=3)[1])
    later = text_of(shown(problem, buckets=3, future_steps=100_000)[1])
    assert "1 bucket" in few and "3 buckets" in many
    assert few != many != later
    assert "100\u202f140 steps" in later.replace("\u00a0", " ")


def test_an_objective_can_be_chosen(problem: Problem) -> None:
    head, outcome, plans, *_ = shown(problem, future_steps=100_000, objective=Objective.COMPILES)
    assert "of compiling over 100\u202f140 steps" in text_of(head).replace("\u00a0", " ")
    assert "1 bucket" in text_of(outcome)
    assert Wish.parse(Wish(objective=Objective.STEPS).text).objective is Objective.STEPS
    assert Wish.of(0, "", 0, "nonsense").objective is Objective.TIME
    assert "Largest graph" in text_of(plans)


def test_two_dimensions_are_two_figures() -> None:
    pairs = [(8 * (1 + n % 5), 4 * (1 + n % 3)) for n in range(60)]
    two = problem_of([(("input_ids", (8, source)), ("labels", (8, target))) for source, target in pairs])
    head, outcome, _, code, drawn, wrong = shown(two, own="24, 40 × 8, 12")
    assert len(drawn) == 2 and wrong == ""
    assert "input_ids[1] (5 sizes) and labels[1] (3 sizes) change" in text_of(head).replace("\u00a0", " ")
    assert "[24, 40] × [8, 12]" in text_of(outcome)
    assert '"input_ids": [24, 40]' in text_of(code) and '"labels": [8, 12]' in text_of(code)
    assert "48, 96 × 16, 32" in shown(two, own="24, 40")[-1]


def test_sizes_of_any_length_are_taken_or_refused(problem: Problem) -> None:
    largest = 2**63 - 1
    assert Wish(own=f"96, {largest}").own_ends(1) == ((96, largest),)
    assert Wish(own=f"{largest + 1}").own_ends(1) is None
    assert shown(problem, own=str(largest))[-1] == ""
    assert shown(problem, own="9" * 200)[-1]


def test_all_ranks_are_planned_for(tmp_path: Path) -> None:
    build_run(tmp_path / "run", steps=60, step_ms=40, ranks=2)
    library = Library(tmp_path)
    head, *_ = shown(library.shapes(library.view("run")))
    assert "on each of 2 ranks" in text_of(head) and "each of which compiles for itself" in text_of(head)


def test_own_sizes(problem: Problem) -> None:
    largest = int(problem.axes[0].values[-1])
    text = text_of(shown(problem, own=f"{largest - 8}, {largest}"))
    assert f"[{largest - 8}, {largest}]" in text and "your buckets" in text
    assert "beyond what was timed" in text_of(shown(problem, own=str(4 * largest))[1])
    *_, wrong = shown(problem, own="many")
    assert "numbers with commas" in wrong
    *_, wrong = shown(problem, own="1; 2")
    assert wrong


@pytest.mark.parametrize("text", ["[1]", "{", "3", None, '{"buckets": "x", "own": 5, "steps": null}'])
def test_nonsense_in_an_address_is_ignored(text: str | None) -> None:
    assert Wish.parse(text) == Wish()


def test_what_is_tried_is_in_the_address() -> None:
    wish = Wish(3, "48, 96", 5000)
    assert Wish.parse(wish.text) == wish
    assert Wish().text is None
    assert Wish.of(99, None, -3) == Wish(16, "", 0)
    page = json.dumps(
        shapes.layout(Address(filter=wish.text)).to_plotly_json(), default=lambda part: part.to_plotly_json()
    )
    assert '"value": "48, 96"' in page and '"value": 5000' in page


def test_nothing_to_plan_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 8)
    library = Library(tmp_path)
    nothing = library.shapes(library.view("run"))
    assert nothing is None
    assert "no shapes to plan for" in text_of(shown(nothing)[0])
    assert rows_of(nothing)[0] == []
    with pytest.raises(PreventUpdate):
        shapes.content(nothing, Wish(), None)


def test_one_shape_only(tmp_path: Path) -> None:
    build_run(tmp_path / "run", steps=30, pattern="A")
    library = Library(tmp_path)
    head, outcome, _, code, drawn, _ = shown(library.shapes(library.view("run")))
    assert "nothing to pad" in text_of(head)
    assert "as recorded" in text_of(outcome)
    assert code is None
    assert "No dimension changes" in text_of(drawn)


def test_rows_hold_values_and_texts(problem: Problem) -> None:
    rows, _ = rows_of(problem)
    assert sum(row["batches"] for row in rows) == 140
    json.dumps(rows)
    for row in rows:
        assert {f"{name}_text" for name in ("shape", "batches", "execute_ms", "compile_s", "graphs")} <= set(row)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    build_run(tmp_path / "run", hostile=True, steps=60)
    library = Library(tmp_path)
    drawn = shown(library.shapes(library.view("run")))[4]
    assert HOSTILE_FORMULA[:8] in text_of(drawn)
    figure = json.dumps([part.children[1].figure.to_plotly_json() for part in drawn], default=str)
    assert "HYPERLINK" not in figure


def test_figures_stay_small_with_many_batches_and_sizes() -> None:
    sizes = np.random.default_rng(0).integers(1, 20_000, 300_000)
    canvas = Canvas(900)
    figure = size_figure(sizes, range(0, 20_000, 100), canvas)
    bars, over_time = figure.data
    assert len(bars.x) <= 160 and len(over_time.x) <= canvas.columns
    assert int(np.sum(bars.y)) == 300_000
    assert len(figure.layout.annotations) < 40
    assert size_figure(np.array([5]), (), canvas).data[0].y.tolist() == [1]


def test_a_line_can_be_dragged(problem: Problem) -> None:
    drawn = shown(problem, buckets=3)[4]
    figure = json.loads(drawn[0].children[1].figure.to_json())
    small, middle, large = (int(value) for value in problem.axes[0].values)
    lines = enumerate(figure["layout"]["shapes"])
    place = next(number for number, line in lines if line["x0"] == middle and line.get("editable"))
    change = {f"shapes[{place}].x0": middle + 2.4, f"shapes[{place}].x1": middle + 2.4}
    assert shapes.dragged([change], [figure]) == f"{small}, {middle + 2}, {large}"
    one_end = {f"shapes[{place}].x0": middle, f"shapes[{place}].x1": middle + 2.4}
    assert shapes.dragged([one_end], [figure]) == f"{small}, {middle + 2}, {large}"
    assert shapes.dragged([{"autosize": True}], [figure]) is None
    assert shapes.dragged([None], [figure]) is None
