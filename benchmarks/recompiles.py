"""Runs of 2,000 different graphs of 10,000 instructions: how long it takes to say why each was compiled.

    python benchmarks/recompiles.py [--graphs N] [--size N] [--kind KIND ...] [--keep DIR]

Kinds: ``lengths`` (the sequence length differs in each), ``values`` (a number in Python differs in each), ``mixed``
(both take turns), ``loops`` (each runs an operation once more than the one before). Prints seconds from opening the run
to the finished report, peak memory, how many were compared in full, and the first sentences.
"""

from __future__ import annotations

import argparse
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.diff import LAYER_SIZE, as_proto, training_step
from tests.kept_graphs import keep_hlo
from tests.synthetic import build_run, graph_hash
from xla_insight.graph.schema import message_class

KINDS = ("lengths", "values", "mixed", "loops")
FIRST_LETTER = 0x4E00
"""Graphs are named by letters in a synthetic run; there are 20,000 in a row from here."""
LENGTH = 112
_EXPONENT = struct.pack("<f", 1.5)


def main() -> int:
    """Make each run and read it in a process of its own, so that peak memory is that of reading alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--graphs", type=int, default=2_000)
    parser.add_argument("--size", type=int, default=10_000, help="instructions of a graph")
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        return read(options.read)
    with tempfile.TemporaryDirectory() as temporary:
        for kind in options.kind:
            run = (options.keep or Path(temporary)) / kind
            if not run.exists():
                write(run, kind, options.graphs, options.size)
            print(f"{kind}: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, "--read", str(run)], check=True)
    return 0


def read(run: Path) -> int:
    """Explain the run and print what it took."""
    start, cpu = time.perf_counter(), time.process_time()
    import xla_insight as xi

    report = xi.analyze(run)
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    members = [member for entry in report.recompiles for member in entry.members]
    compared = sum(not member.inferred for member in members)
    print(
        f"{len(members):,} compiles in {seconds:.1f} s ({cpu_s:.1f} s CPU), {peak_mb:,.0f} MB;"
        f" {compared:,} compared in full"
    )
    for entry in sorted(report.recompiles, key=lambda e: -e.count)[:2]:
        print(f"  {entry.cause} x {entry.count:,}: {entry.summary}")
    return 0


def write(run: Path, kind: str, graphs: int, size: int) -> None:
    """A run with one graph a step."""
    letters = [chr(FIRST_LETTER + n) for n in range(graphs)]
    build_run(run, steps=graphs, pattern="".join(letters), reads=False, compile_ms=500)
    for letter, content in zip(letters, modules(kind, graphs, size), strict=True):
        keep_hlo(run, {graph_hash(letter): content})


def modules(kind: str, graphs: int, size: int) -> Iterator[bytes]:
    """The graphs of a run, serialized; all are edits of one."""
    module = _Editable(size)
    for number in range(graphs):
        longer = number if kind == "lengths" else number // 2 if kind == "mixed" else 0
        value = number if kind == "values" else (number + 1) // 2 if kind == "mixed" else 0
        yield module.edited(LENGTH + longer, 1.5 + value / 8, number if kind == "loops" else 0)


class _Editable:
    """A training step as a message, and where its sequence length and its first exponent stand."""

    def __init__(self, size: int) -> None:
        self._proto = message_class("HloProto").FromString(as_proto(training_step(size // LAYER_SIZE)))
        self._instructions = self._proto.hlo_module.computations[0].instructions
        self._sized = [(one, bytes(one.shape)) for one in self._instructions]
        self._exponent = next(one for one in self._instructions if one.literal.endswith(_EXPONENT))
        self._literal = bytes(self._exponent.literal).removesuffix(_EXPONENT)

    def edited(self, length: int, exponent: float, loops: int) -> bytes:
        """The module with this sequence length and exponent, and an operation added this many times at its end."""
        shapes = {shape: _resized(shape, length) for shape in {shape for _, shape in self._sized}}
        for one, shape in self._sized:
            one.shape = shapes[shape]
        self._exponent.literal = self._literal + struct.pack("<f", exponent)
        edited = type(self._proto)()
        edited.CopyFrom(self._proto)
        if loops:
            _add_loops(edited.hlo_module.computations[0], loops)
        inputs = [shapes[shape] for one, shape in self._sized if one.opcode == "parameter"]
        edited.hlo_module.MergeFromString(_field(4, b"".join(_field(1, shape) for shape in inputs)))
        data: bytes = edited.SerializeToString()
        return data


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes as messages hold it."""
    size, length = len(content), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content


def _resized(shape: bytes, length: int) -> bytes:
    message = message_class("ShapeProto").FromString(shape)
    for one in (message, *message.tuple_shapes):
        one.dimensions[:] = [{LENGTH: length, 8 * LENGTH: 8 * length}.get(d, d) for d in one.dimensions]
    data: bytes = message.SerializeToString()
    return data


def _add_loops(computation: Any, loops: int) -> None:
    """Square roots of the first result of the root, one of the other."""
    root = type(computation.instructions[0])()
    root.CopyFrom(computation.instructions[-1])
    del computation.instructions[-1]
    source = next(one for one in computation.instructions if one.id == root.operand_ids[0])
    last, free = source.id, root.id + 1
    for number in range(free, free + loops):
        added = computation.instructions.add()
        added.CopyFrom(source)
        added.name, added.opcode, added.id = f"sqrt.{number}", "sqrt", number
        added.operand_ids[:] = [last]
        last = number
    root.operand_ids[0] = last
    computation.instructions.add().CopyFrom(root)


if __name__ == "__main__":
    sys.exit(main())
