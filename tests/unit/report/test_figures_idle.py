"""The figure of idle time: nothing looks like a value that is none, and words stay off the ticks at any width."""

from __future__ import annotations

import numpy as np
import pandas as pd

from xla_insight.report.figures import Canvas
from xla_insight.report.figures_bins import sum_steps
from xla_insight.report.figures_colours import Scheme
from xla_insight.report.figures_idle import NEEDED, height_px, idle_figure


def steps(known: bool) -> pd.DataFrame:
    """Ten steps of 20 ms, half of it idle while tracing, or never observed."""
    rows = pd.DataFrame({name: np.zeros(10) for name in NEEDED})
    rows["step"], rows["duration_ns"] = np.arange(10), 20e6
    rows["host_trace_ns"], rows["idle_trace_ns"] = 20e6, 10e6
    if not known:
        idle = [name for name in NEEDED if name.startswith("idle_")]
        rows[idle] = rows[idle].astype("Float64").mask(np.ones((10, len(idle)), np.bool_))
    return rows


def test_what_is_not_known_has_no_axis() -> None:
    figure = idle_figure(sum_steps(steps(known=False), NEEDED, columns=300), Canvas(390, Scheme.DARK))
    assert not figure.data and figure.layout.height < height_px()
    assert not any(axis.visible for axis in (figure.layout.xaxis, figure.layout.yaxis, figure.layout.yaxis2))
    assert [note.text[:4] for note in figure.layout.annotations] == ["n/a:"]


def test_words_of_rows_stand_upright_where_they_would_run_into_the_ticks() -> None:
    columns = sum_steps(steps(known=True), NEEDED, columns=300)
    wide, narrow = (idle_figure(columns, Canvas(390, Scheme.LIGHT, left_px=left)) for left in (88, 64))
    assert {note.textangle for note in wide.layout.annotations if note.text in ("idle", "overlap")} == {0}
    assert {note.textangle for note in narrow.layout.annotations if note.text in ("idle", "overlap")} == {-90}
