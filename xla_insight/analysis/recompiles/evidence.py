"""What the rules look at, and what they answer: frozen records, and the words for places and types in them.

Owns `Evidence` (one compile beside its nearest earlier relative) and `Explanation` (its cause, with the earliest
difference). Leaves gathering to ``explain`` and judging to ``rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xla_insight.analysis.recompiles.happenings import Since, Upload
from xla_insight.analysis.recompiles.history import Compile
from xla_insight.facts.report import Site
from xla_insight.graph.differences import Difference, GraphDiff
from xla_insight.graph.model import Frame, Graph, Parameter, Shape
from xla_insight.graph.roots import site_of

DTYPES = {
    "int64": "s64", "int32": "s32", "int16": "s16", "int8": "s8", "uint8": "u8", "bool": "pred", "float32": "f32",
    "float64": "f64", "float16": "f16", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
"""Element types of tensors, as graphs name them."""
SAME_COMPUTATION = "same computation"
SAME_ROOTS = "same computation, same roots"
OTHER_ROOTS = "same computation, other roots"
SAME_SIMPLIFIED = "same computation once simplified"
"""Notes of graphs that compute the same: how much is known of which part of the key moved."""
_SLICES = {"select": ("slice", "dynamic-slice"), "unselect": ("dynamic-update-slice", "pad", "select")}
"""What the framework calls reading and writing a part of a tensor, with the instructions it makes of that."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One compile and all that is known about why it happened.

    ``order``: how many other graphs its family had before. ``against``: the relative; the graphs and their difference
    are None when either was not kept. ``ran`` and ``against_ran``: how often they were executed, -1 when unknown.
    """

    compile: Compile
    order: int
    against: str | None = None
    difference: GraphDiff | None = None
    before: Graph | None = None
    after: Graph | None = None
    since: Since = field(default_factory=Since)
    earlier_uploads: Callable[[], tuple[Upload, ...]] = tuple
    """Looks up what was uploaded before the last sync."""
    previous: tuple[Graph, ...] = ()
    """The graphs executed since the last sync and by it, latest first."""
    read_graphs: tuple[Graph, ...] = ()
    """Graphs that value reads executed since the last sync."""
    ran: int = -1
    against_ran: int = -1

    def find_upload(self, parameter: Parameter, *, recent: bool) -> tuple[Upload, ...]:
        """Uploads of the type of an input: since the last sync, or (``recent`` False) at any time before."""
        uploads = self.since.uploads if recent else self.earlier_uploads()
        shape = parameter.shape
        return tuple(u for u in uploads if u.dims == shape.dims and DTYPES.get(u.dtype, u.dtype) == shape.dtype)

    def was_output(self, shape: Shape) -> bool:
        """Whether a graph executed just before, or the relative, returned a value of this type."""
        graphs = [*self.previous, *([self.before] if self.before is not None else [])]
        return any((o.dtype, o.dims) == (shape.dtype, shape.dims) for graph in graphs for o in graph.outputs)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cause of one compile. ``stack`` is that of the earliest difference, innermost first.

    ``before`` and ``now`` hold only what differs. ``inputs`` are names of batch inputs, ``dims`` the (input, dimension)
    that differ. ``group`` tells entries of one cause apart. ``note`` is cause-specific text for the sentence.
    """

    cause: str
    expected: bool = False
    kind: str = ""
    stack: tuple[Frame, ...] = ()
    inferred: bool = False
    operation: str = ""
    opcode: str = ""
    before: str = ""
    now: str = ""
    inputs: tuple[str, ...] = ()
    dims: tuple[tuple[str, int], ...] = ()
    follows: int = 0
    note: str = ""
    site: Site | None = None
    """The place, when it is known from the recording and not from the graph."""
    group: Hashable = None
    details: tuple[tuple[str, Any], ...] = ()
    repeated: bool = False
    """Told by a short look alone: it differs as dozens of graphs of its family did that were compared in full."""

    @property
    def frame(self) -> Frame | None:
        """The innermost frame outside the framework."""
        if self.site is not None:
            return Frame(self.site.file, self.site.line, self.site.function)
        return site_of(self.stack)


def of_difference(cause: str, difference: Difference | None, evidence: Evidence, **more: Any) -> Explanation:
    """An explanation whose earliest difference is ``difference``."""
    follows = evidence.difference.follows if evidence.difference is not None else 0
    if difference is None:
        return Explanation(cause, follows=follows, **more)
    spot = difference.after or difference.before
    values = {
        "kind": str(difference.kind),
        "stack": difference.stack,
        "inferred": difference.stack_inferred,
        "operation": operation(difference.op_type),
        "opcode": spot.instruction.opcode if spot else "",
        "before": difference.before_text,
        "now": difference.after_text,
        "follows": follows,
        **more,
    }
    values.setdefault("group", site_of(values["stack"]))
    return Explanation(cause, **values)


def in_optimizer(stack: Sequence[Frame]) -> bool:
    """Whether an operation was made by an optimizer of torch."""
    return any("torch/optim/" in frame.file for frame in stack)


def operation(op_type: str) -> str:
    """An operation as a user knows it: ``aten::slice``; the framework's own keep their name (``xla::device_data``)."""
    return op_type.replace("__", "::", 1)


def slice_word(name: str, opcode: str) -> str:
    """What users call the framework's ``select`` (``x[:, 2:8]``) and ``unselect``; empty for all other operations."""
    plain = name.removeprefix("aten::").removeprefix("xla::")
    if opcode not in _SLICES.get(plain, ()):
        return ""
    return "slice" if plain == "select" else "an assignment to a slice"
