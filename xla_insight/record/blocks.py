"""The debug file of the framework as records: compilations and executions with graph hash, cause and frames.

Owns the text format (torch_xla 2.9, ``PT_XLA_DEBUG_LEVEL=2``). Pure: bytes in, blocks out. Leaves the file itself to
``debug_file`` and the meaning of a block's place in time to ``matching``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xla_insight.record.stacks import Place

COMPILATION = "compilation"
EXECUTION = "execution"
MEMORY = "memory"

_CLOSE = re.compile(
    rb"^(?P<prefix>Post Compilation Analysis|Compilation Analysis|Execution Analysis|Unexpected Execution Analysis): "
    rb"-{20,}\n(?P=prefix): ={20,}\n",
    re.MULTILINE,
)
_FRAME = re.compile(r"^  (?P<function>\S+) \((?P<file>.*):(?P<line>\d+)\)$")
_SIZES = (
    "Graph input size",
    "Graph output size",
    "Aliased Input size",
    "Intermediate tensor size",
    "Compiled program size",
)
_BYTES_PER_GB = 1 << 30


@dataclass(frozen=True, slots=True)
class Block:
    """One block. ``end`` is the offset just after it in its file.

    ``sizes`` are bytes; the framework prints GB with six decimals, so they are exact to about 1 kB.
    """

    kind: str
    end: int
    sentence: str = ""
    graph: str | None = None
    inputs: int = -1
    outputs: int = -1
    frames: tuple[Place, ...] = ()
    sizes: tuple[int, ...] = ()


def parse(data: bytes, offset: int) -> tuple[list[Block], int]:
    """All complete blocks of ``data``, which starts at ``offset`` of its file, and the number of bytes consumed."""
    blocks: list[Block] = []
    used = 0
    for match in _CLOSE.finditer(data):
        prefix = match["prefix"].decode()
        block = _read(prefix, data[used : match.end()].decode("utf-8", "replace"), offset + match.end())
        if block is not None:
            blocks.append(block)
        used = match.end()
    return blocks, used


def _read(prefix: str, text: str, end: int) -> Block | None:
    lines = [line[len(prefix) + 1 :] for line in text.splitlines() if line.startswith(prefix + ":")]
    lines = [line[1:] if line.startswith(" ") else line for line in lines]
    if prefix == "Post Compilation Analysis":
        return Block(MEMORY, end, sizes=_sizes(lines))
    if prefix.startswith("Unexpected"):
        return None
    fields = _fields(lines)
    return Block(
        kind=COMPILATION if prefix.startswith("Compilation") else EXECUTION,
        end=end,
        sentence=_after(lines, "Cause"),
        graph=fields.get("Graph Hash"),
        inputs=_number(fields.get("Number of Graph Inputs")),
        outputs=_number(fields.get("Number of Graph Outputs")),
        frames=tuple(
            Place(found["file"], int(found["line"]), found["function"]) for found in map(_FRAME.match, lines) if found
        ),
    )


def _after(lines: list[str], heading_end: str) -> str:
    for index, line in enumerate(lines[:-1]):
        if line.rstrip().endswith(heading_end):
            return lines[index + 1].strip()
    return ""


def _fields(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition(": ") for line in lines)
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else -1


def _sizes(lines: list[str]) -> tuple[int, ...]:
    fields = _fields(lines)
    sizes = []
    for name in _SIZES:
        match = re.match(r"([0-9.]+) GB", fields.get(name, ""))
        sizes.append(round(float(match[1]) * _BYTES_PER_GB) if match else -1)
    return tuple(sizes)
