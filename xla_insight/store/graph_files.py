"""The stored graphs of a process, each written once: ``graphs/HASH.hlo.pb.zst``; of a graph that runs on several
devices ``HASH.optimized.pb.zst``; at level full ``HASH.ir.zst``.

Owns their names and the compression. What a module means is parsed in ``graph``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pyarrow as pa

FOLDER = "graphs"
HLO, OPTIMIZED, IR = ".hlo.pb.zst", ".optimized.pb.zst", ".ir.zst"
"""Suffixes: the module before optimization, the one after it, the framework's own text with the hashes of its roots."""
MAX_MODULE_BYTES = 1 << 30
"""A file that unpacks to more than this is not opened: no graph is that large, and anybody may have written it."""

_LEVEL = 3
_GRAPH = re.compile(r"[0-9a-z][0-9a-z-]{0,79}")


def graph_file(graph: str, suffix: str = HLO) -> str:
    """The file of a graph, relative to the folder of its process. Raises OSError for an id that is no file name."""
    if not _GRAPH.fullmatch(graph):
        raise OSError(f"{graph!r} cannot be the name of a file")
    return f"{FOLDER}/{graph}{suffix}"


def graph_of(name: str, suffix: str = HLO) -> str | None:
    """The graph that a file in the folder ``graphs`` holds in this form; None when it is none of ours."""
    graph = name.removesuffix(suffix)
    return graph if name.endswith(suffix) and _GRAPH.fullmatch(graph) else None


def misfits(known: object, sizes: Mapping[str, int]) -> set[str]:
    """Files of the folder that are not as they were written: gone, empty, or of another size.

    ``known`` is what the facts of the process say: graph -> [bytes on disk, bytes unpacked]; ``sizes`` what is there.
    """
    wrong = {name for name, size in sizes.items() if not size and name.endswith((HLO, OPTIMIZED, IR))}
    for graph, stored in known.items() if isinstance(known, Mapping) else ():
        if isinstance(stored, list) and stored and _GRAPH.fullmatch(str(graph)):
            name = f"{graph}{HLO}"
            if sizes.get(name) != stored[0]:
                wrong.add(name)
    return wrong


def write_compressed(path: str, content: bytes) -> int:
    """Write ``content`` to ``path`` as a Zstandard frame; its size in bytes. Raises OSError."""
    packed: bytes = pa.Codec("zstd", compression_level=_LEVEL).compress(content, asbytes=True)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.tmp"
    with open(temporary, "wb") as file:
        file.write(packed)
    os.replace(temporary, path)
    return len(packed)


def decompress(packed: bytes, limit: int = MAX_MODULE_BYTES) -> bytes | None:
    """The content of a stored graph; None when it is damaged or unpacks to more than ``limit`` bytes."""
    if not packed:  # an empty stream unpacks to nothing, but nothing that was stored is empty
        return None
    try:
        content: bytes = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(limit + 1)
    except (OSError, pa.ArrowException):
        return None
    return content if len(content) <= limit else None
