"""The picture of rows over time: each colour takes its share of the pixels, and others can read the file."""

from __future__ import annotations

import numpy as np

from tests.pictures import pixels_of
from xla_insight.report.figures_raster import MOST_COLOURS, Band, picture


def test_colours_are_stacked_from_the_bottom() -> None:
    shares = np.array([[0.25, 1.0, 0.0], [0.5, 0.0, 0.0]])
    found = pixels_of(picture([Band(2, 8, ("#ff0000", "#00ff00"), shares)], 3, 12))
    assert found.shape == (12, 3)
    assert found[:, 0].tolist() == [None] * 4 + ["#00ff00"] * 4 + ["#ff0000"] * 2 + [None] * 2
    assert found[:, 1].tolist() == [None] * 2 + ["#ff0000"] * 8 + [None] * 2
    assert set(found[:, 2]) == {None}


def test_rows_share_their_colours_and_nothing_is_a_picture_too() -> None:
    full = np.ones((1, 2))
    found = pixels_of(picture([Band(0, 1, ("#000000",), full), Band(1, 1, ("#000000",), full)], 2, 3))
    assert found.tolist() == [["#000000"] * 2, ["#000000"] * 2, [None, None]]
    assert set(pixels_of(picture([Band(0, 4, (), np.zeros((0, 5)))], 5, 4)).ravel()) == {None}


def test_more_colours_than_a_palette_holds_are_drawn() -> None:
    colours = [f"#{number:06x}" for number in range(1, MOST_COLOURS + 20)]
    shares = np.eye(len(colours))
    found = pixels_of(picture([Band(0, 1, colours, shares)], len(colours), 1))[0]
    assert found[:MOST_COLOURS].tolist() == colours[:MOST_COLOURS]
    assert set(found[MOST_COLOURS:]) == {colours[MOST_COLOURS - 1]}
