"""A picture of rows over time, one pixel a column: what a browser would take long to draw as shapes, it shows at once.

Owns stacking shares to pixels and writing them as a PNG with a palette. Knows nothing of what a row or a colour means.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_COLOURS = 255
_CLEAR = 0


@dataclass(frozen=True, slots=True)
class Band:
    """A row of the picture: ``top_px`` from its upper edge, ``height_px`` high; from the bottom up, for each colour
    (``#rrggbb``) the share (0 to 1) of the height that it takes in each column."""

    top_px: int
    height_px: int
    colours: Sequence[str]
    shares: NDArray[np.float64]


def picture(bands: Sequence[Band], columns: int, height_px: int) -> str:
    """The bands on a clear ground as a ``data:`` address. Colours beyond `MOST_COLOURS` look like the last one."""
    pixels = np.zeros((height_px, columns), np.uint8)
    palette = list(dict.fromkeys(colour for band in bands for colour in band.colours))[:MOST_COLOURS]
    number = {colour: place for place, colour in enumerate(palette, start=1)}
    for band in bands:
        # Of the middle of each pixel: below which share it lies.
        level = (band.height_px - np.arange(band.height_px) - 0.5) / band.height_px
        area = pixels[band.top_px : band.top_px + band.height_px]
        reach = np.cumsum(band.shares, axis=0)
        for place in reversed(range(len(band.colours))):
            area[level[:, None] < reach[place]] = number.get(band.colours[place], MOST_COLOURS)
    return f"data:image/png;base64,{base64.b64encode(png(pixels, palette)).decode()}"


def png(pixels: NDArray[np.uint8], palette: Sequence[str]) -> bytes:
    """A PNG of pixels that are 0 for clear, or the place of their colour in the palette, counted from 1."""
    height, width = pixels.shape
    colours = bytes(3) + b"".join(bytes.fromhex(colour.lstrip("#")) for colour in palette)
    rows = np.zeros((height, width + 1), np.uint8)  # each row begins with the number of its filter: none
    rows[:, 1:] = pixels
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", colours),
        (b"tRNS", bytes([_CLEAR])),
        (b"IDAT", zlib.compress(rows.tobytes(), 1)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
