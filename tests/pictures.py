"""Reading a picture back: what tests look at instead of a screen."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def pixels_of(source: str) -> NDArray[np.object_]:
    """The pixels of a picture as colours, None where it is clear. Checks the file as it reads it."""
    data = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + content)
        chunks[name] = content
        at += 12 + length
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, kind, chunks[b"tRNS"][0], list(chunks)[-1]) == (8, 3, 0, b"IEND")
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    palette = [None, *(f"#{chunks[b'PLTE'][n : n + 3].hex()}" for n in range(3, len(chunks[b"PLTE"]), 3))]
    return np.array(palette, dtype=object)[rows[:, 1:]]
