"""The types of a module's inputs, read without its instructions: a millisecond for a module of any size.

Owns reading ``host_program_shape`` alone. Leaves everything else of a module to ``hlo_proto``.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from xla_insight.facts.wire import fields
from xla_insight.graph.hlo_proto import shape_of
from xla_insight.graph.model import Shape
from xla_insight.graph.schema import message_class

_MODULE, _PROGRAM_SHAPE, _PARAMETER = 1, 4, 1


def input_shapes(dump: bytes) -> tuple[Shape, ...] | None:
    """Types of the inputs of a serialized ``HloProto``, in order; None when it does not say."""
    try:
        modules = [v for f, v in fields(memoryview(dump)) if f == _MODULE and isinstance(v, memoryview)]
        programs = [v for f, v in fields(modules[0]) if f == _PROGRAM_SHAPE and isinstance(v, memoryview)]
        written = [bytes(v) for f, v in fields(programs[0]) if f == _PARAMETER and isinstance(v, memoryview)]
        read = message_class("ShapeProto").FromString
        shapes = {one: shape_of(read(one)) for one in set(written)}  # most inputs are parameters of a few types
        return tuple(shapes[one] for one in written)
    except (ValueError, IndexError, DecodeError):
        return None
