"""Figures over steps: what is drawn, how little of it, and that recorded texts stay texts."""

from __future__ import annotations

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from tests.unit.report.test_figures_bins import step_frame
from xla_insight.report.figures import Canvas, step_strip, steps_over_time, typical_top_s
from xla_insight.report.figures_bins import StepBins, bin_steps, rank_graphs
from xla_insight.report.figures_colours import Scheme, colours

CANVAS = Canvas(width_px=1300)


def bins_of(graphs: list[str | None], *, columns: int = CANVAS.columns, busy: bool = True) -> StepBins:
    frame = step_frame(graphs, 200_000_000, busy=busy)
    return bin_steps(frame, rank_graphs(frame), columns=columns)


def traces(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data}


def test_strip_has_one_cell_a_step() -> None:
    figure = step_strip(bins_of(["a", "a", "b", "a"]), CANVAS)
    strip = traces(figure)["graph"]
    assert [int(shade) for shade in strip.z[0]] == [0, 0, 1, 0]
    assert strip.x.tolist() == [-0.5, 0.5, 1.5, 2.5, 3.5]


def test_a_hundred_thousand_steps_stay_small() -> None:
    graphs: list[str | None] = ["a" if step % 7 else "b" for step in range(100_000)]
    figure = steps_over_time(bins_of(graphs), CANVAS)
    assert len(traces(figure)["graph"].z[0]) <= CANVAS.columns + 1
    assert len(figure.to_json()) < 600_000


def test_pointed_at_steps_stand_out() -> None:
    frame = step_frame(["a", "b", "a"])
    bins = bin_steps(frame, ("a", "b"), columns=50, lit={1})
    shades = traces(step_strip(bins, CANVAS))["graph"].z[0]
    count = len(colours(Scheme.LIGHT).deviants) + 1
    assert [int(shade) for shade in shades] == [count, 1, count]


def test_a_triangle_is_as_tall_as_its_compile() -> None:
    bins = bins_of(["a", "b", "a"])
    bins.compile_ns[:] = [2e9, 6e9, 0]
    figure = step_strip(bins, CANVAS)
    heights = np.asarray(traces(figure)["compile"].y).reshape(-1, 5)
    assert heights[:, 1].tolist() == [2.0, 6.0]
    assert list(figure.layout.yaxis2.ticktext) == ["0", "6 s"]


def test_no_compile_draws_no_triangle() -> None:
    bins = bins_of(["a"])
    bins.compiles[:] = 0
    bins.compile_ns[:] = 0
    assert "compile" not in traces(step_strip(bins, CANVAS))


def test_host_states_stand_above_the_line_and_device_below() -> None:
    figure = steps_over_time(bins_of(["a"] * 10), CANVAS)
    drawn = traces(figure)
    assert min(drawn["trace"].y) >= 0
    assert max(drawn["device busy"].y) <= 0
    assert "checkpoint" not in drawn
    assert drawn["trace"].fillcolor != drawn["device busy"].fillcolor
    low, high = figure.layout.yaxis3.range
    assert low < 0 < high


def test_unknown_device_time_is_said_not_drawn() -> None:
    figure = steps_over_time(bins_of(["a"] * 10, busy=False), CANVAS)
    assert "device busy" not in traces(figure)
    assert any("n/a" in note.text for note in figure.layout.annotations)


def test_axis_is_cut_only_when_few_steps_flatten_the_others() -> None:
    bins = bins_of(["a"] * 20)
    assert typical_top_s(bins) is None
    bins.mean_ns[0] = 60e9
    assert typical_top_s(bins) == pytest.approx(0.4)
    figure = steps_over_time(bins, CANVAS, top_s=typical_top_s(bins))
    assert figure.layout.yaxis3.range[1] == pytest.approx(0.4)
    assert any(note.text == "1 m 0 s" for note in figure.layout.annotations)
    assert steps_over_time(bins, CANVAS).layout.yaxis3.range[1] > 60


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "<b>x</b>", "a&b"])
def test_recorded_names_are_text(name: str) -> None:
    figure = steps_over_time(bins_of([name] * 3), CANVAS)
    text = traces(figure)["probe"].text[0]
    assert name[:6].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in text
    assert "<script" not in json.dumps(figure.to_plotly_json(), default=str)
    assert "<b>x" not in text


def test_hover_says_what_a_column_of_several_steps_holds() -> None:
    frame = step_frame(["a"] * 90 + ["b"] + ["a"] * 9, 200_000_000)
    bins = bin_steps(frame, ("a", "b"), columns=10)
    text = traces(step_strip(bins, CANVAS))["probe"].text[9]
    assert "steps 90–99" in text
    assert "rarest graph b" in text
    assert "1 compile" in text


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("graphs", [[], ["a"], [None, None]])
def test_any_run_can_be_drawn(scheme: Scheme, graphs: list[str | None]) -> None:
    canvas = Canvas(width_px=360, scheme=scheme)
    for figure in (step_strip(bins_of(graphs), canvas), steps_over_time(bins_of(graphs), canvas)):
        assert json.loads(figure.to_json())["layout"]["font"]["color"] == colours(scheme).muted
