"""Generated lines give way to those that a person wrote, and nothing else in a module changes."""

from __future__ import annotations

import linecache
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.graph.modules import NAMES, read
from xla_insight.facts.wire import bytes_field, fields, number_field, parts
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.model import Frame
from xla_insight.graph.schema import message_class
from xla_insight.record.written_lines import Written, WrittenLines

FILE = "<eval_with_key>.16"
SOURCE = """
def forward(self, arg0_1):
    slice_1 = torch.ops.aten.slice.Tensor(arg0_1, 1, 3, 35);  arg0_1 = None
    relu: "f32[8, 32]" = torch.ops.aten.relu.default(slice_1);  slice_1 = None
    return relu
"""
STACKS = {
    "slice_1": '  File "/u/main.py", line 30, in run\n    out\n  File "/u/net.py", line 18, in scores\n    w\n',
    "relu": '  File "/u/net.py", line 19, in scores\n    return w.relu()\n',
    "arg0_1": None,
}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> WrittenLines:
    monkeypatch.setitem(linecache.cache, FILE, (len(SOURCE), None, SOURCE.splitlines(keepends=True), FILE))
    code = SimpleNamespace(co_filename=FILE)
    nodes = [SimpleNamespace(name=name, meta={"stack_trace": stack}) for name, stack in STACKS.items()]
    module = SimpleNamespace(forward=SimpleNamespace(__code__=code), graph=SimpleNamespace(nodes=nodes))
    found = WrittenLines()
    found.learn(module)
    return found


def module_of(*locations: tuple[str, int]) -> bytes:
    """A module with one negation after another, each at one location and called from main.py:30."""
    proto = message_class("HloProto")()
    module = proto.hlo_module
    module.name = module.entry_computation_name = "m"
    index = module.stack_frame_index
    index.file_names.append(b"/u/main.py")
    index.function_names.append(b"run")
    index.file_locations.add(file_name_id=1, function_name_id=1, line=30)
    index.stack_frames.add(file_location_id=1)
    shape = message_class("ShapeProto")(element_type=11, dimensions=[8]).SerializeToString()
    computation = module.computations.add(name="m", id=1, root_id=len(locations) + 1)
    module.entry_computation_id = 1
    computation.instructions.add(name="p", opcode="parameter", id=1, shape=shape)
    for number, (file, line) in enumerate(locations, 2):
        index.file_names.append(file.encode())
        index.file_locations.add(file_name_id=number, function_name_id=1, line=line)
        index.stack_frames.add(file_location_id=number, parent_frame_id=1)
        metadata = message_class("OpMetadata")(op_type=b"aten__neg", stack_frame_id=number).SerializeToString()
        computation.instructions.add(
            name=f"n{number}", opcode="negate", id=number, shape=shape, operand_ids=[number - 1], metadata=metadata
        )
    return bytes(proto.SerializeToString())


def test_the_innermost_written_line_takes_the_place_of_a_generated_one(lines: WrittenLines) -> None:
    content = module_of((FILE, 3), (FILE, 4), (FILE, 5), ("/u/other.py", 3))
    graph = parse_hlo_proto(lines.applied(content))
    assert [i.metadata.stack for i in graph.instructions[1:]] == [
        (Frame("/u/net.py", 18, "scores"), Frame("/u/main.py", 30, "run")),
        (Frame("/u/net.py", 19, "scores"), Frame("/u/main.py", 30, "run")),
        (Frame(FILE, 5, "run"), Frame("/u/main.py", 30, "run")),
        (Frame("/u/other.py", 3, "run"), Frame("/u/main.py", 30, "run")),
    ]
    assert lines.line_of(FILE, 3) == ("/u/net.py", 18) and lines.line_of("/u/net.py", 3) == ("/u/net.py", 3)
    before = parse_hlo_proto(content)
    assert [i._replace(metadata=before.root.metadata) for i in graph.instructions] == [
        i._replace(metadata=before.root.metadata) for i in before.instructions
    ]


@pytest.mark.parametrize("name", NAMES)
def test_modules_without_generated_lines_stay_byte_for_byte(lines: WrittenLines, name: str) -> None:
    content = read(f"{name}.hlo.pb")
    assert lines.applied(content) == content
    assert WrittenLines().applied(module_of((FILE, 3))) == module_of((FILE, 3))


def test_code_that_is_not_generated_teaches_nothing() -> None:
    module = SimpleNamespace(forward=SimpleNamespace(__code__=SimpleNamespace(co_filename="/u/net.py")))
    found = WrittenLines()
    found.learn(module)
    assert found.line_of("/u/net.py", 3) == ("/u/net.py", 3)


@given(data=st.data())
def test_damaged_modules_never_raise(data: st.DataObject) -> None:
    found = WrittenLines()
    found._lines[FILE, 3] = Written("/u/net.py", 18, "scores")
    content = bytearray(module_of((FILE, 3)))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    found.applied(bytes(content[: data.draw(st.integers(0, len(content)))]))


@given(st.lists(st.tuples(st.integers(1, 2000), st.binary() | st.integers(0, 2**63 - 1))))
def test_fields_are_read_as_they_were_written(written: list[tuple[int, bytes | int]]) -> None:
    encoded = [bytes_field(n, v) if isinstance(v, bytes) else number_field(n, v) for n, v in written]
    message = memoryview(b"".join(encoded))
    assert [(n, v if isinstance(v, int) else bytes(v)) for n, v in fields(message)] == written
    assert [bytes(whole) for _, _, whole in parts(message)] == encoded
