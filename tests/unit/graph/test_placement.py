"""A sharding is read as HLO means it: pieces, copies, the bytes of a piece, and the axis of the mesh that cuts."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_insight.graph.placement import Placement, cutting_axes, placement


@pytest.mark.parametrize(
    ("text", "kind", "tiles", "copies"),
    [
        ("{replicated}", "replicated", (), None),
        ("{maximal device=2}", "maximal", (), 1),
        ("{manual}", "other", (), None),
        ("{devices=[4,1]0,1,2,3}", "sharded", (4, 1), 1),
        ("{devices=[4,1]<=[4]}", "sharded", (4, 1), 1),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "sharded", (2, 1), 2),
        ("{devices=[1,1,4]<=[4] last_tile_dim_replicate}", "replicated", (), 4),
        ("{devices=[2,1,2]<=[4] last_tile_dims={manual}}", "sharded", (2, 1), 2),
        ("{devices=[0]}", "other", (), None),
    ],
)
def test_kinds(text: str, kind: str, tiles: tuple[int, ...], copies: int | None) -> None:
    found = placement(text)
    assert found is not None
    assert (found.kind, found.tiles, found.copies) == (kind, tiles, copies)


def test_no_sharding_is_none() -> None:
    assert placement("") is None


def test_a_piece_that_does_not_fit_evenly_is_rounded_up() -> None:
    found = placement("{devices=[4,1]<=[4]}")
    assert found is not None
    assert found.bytes_per_device((10, 6), 240) == 3 * 6 * 4
    assert Placement("replicated", copies=4).bytes_per_device((10, 6), 240) == 240


def test_axes_of_a_mesh() -> None:
    sizes, devices = (2, 4), tuple(range(8))
    by_rows, by_columns = (
        placement("{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
        placement("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"),
    )
    assert by_rows is not None and cutting_axes(by_rows, sizes, devices) == (0, None)
    assert by_columns is not None and cutting_axes(by_columns, sizes, devices) == (None, 1)
    both = placement("{devices=[2,4]<=[8]}")
    assert both is not None and cutting_axes(both, sizes, devices) == (0, 1)
    whole = placement("{devices=[8,1]<=[8]}")
    assert whole is not None and cutting_axes(whole, sizes, devices) == (None, None)
    assert cutting_axes(by_rows, (4,), (0, 1, 2, 3)) == (None, None)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_pieces_together_hold_the_whole(tiles: list[int], dims: list[int]) -> None:
    tiles, dims = tiles[: len(dims)], dims[: len(tiles)]
    found = placement(f"{{devices=[{','.join(map(str, tiles))}]<=[{math.prod(tiles)}]}}")
    assert found is not None
    size = 4 * math.prod(dims)
    assert found.bytes_per_device(dims, size) * found.pieces >= size >= found.bytes_per_device(dims, size)


@given(st.text(max_size=60))
def test_any_text_is_taken(text: str) -> None:
    with contextlib.suppress(ValueError):  # digits of other scripts are no numbers
        placement(text)
