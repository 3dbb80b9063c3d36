"""Text and proto of the same module are one graph; foreign, old and hostile input ends in a typed error."""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.graph import modules
from xla_insight.errors import GraphFormatError
from xla_insight.graph.canonical import fingerprints
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.hlo_text import parse_hlo_text, parse_shape
from xla_insight.graph.ir_text import parse_ir_dumps, parse_ir_text
from xla_insight.graph.model import Computation, Frame, Graph, Instruction


def by_name(computation: Computation) -> dict[str, tuple[Instruction, list[str]]]:
    names = [i.name for i in computation.instructions]
    return {i.name: (i, [names[o] for o in i.operands]) for i in computation.instructions}


@pytest.mark.parametrize("name", modules.NAMES)
def test_text_and_proto_agree(name: str) -> None:
    proto, text = modules.graph(name), modules.text_graph(name)
    assert proto.instruction_count == text.instruction_count
    assert len(proto.computations) == len(text.computations)
    assert proto.opcode_counts() == text.opcode_counts()
    assert [p.shape for p in proto.parameters] == [p.shape for p in text.parameters]
    assert (proto.outputs, proto.donors, proto.aliases) == (text.outputs, text.donors, text.aliases)
    computations = {c.name: by_name(c) for c in text.computations}
    for computation in proto.computations:
        others = computations[computation.name]
        for own, operands in by_name(computation).values():
            other, other_operands = others[own.name]
            assert operands == other_operands
            assert own._replace(operands=(), called=(), metadata=other.metadata) == other._replace(
                operands=(), called=()
            )
            assert own.metadata.op_type == other.metadata.op_type
            assert [f[:2] for f in own.metadata.stack[:1]] == [f[:2] for f in other.metadata.stack]
    assert fingerprints(proto) == fingerprints(text)


def test_a_proto_knows_whole_stacks() -> None:
    power = [i for i in modules.graph("power").instructions if i.literal and i.literal.values == (1.7,)]
    assert [(f.function, f.file.rpartition("/")[2]) for f in power[0].metadata.stack[:2]] == [
        ("forward", "step.py"), ("_call_impl", "module.py"),
    ]  # fmt: skip
    assert power[0].metadata.stack[-1].function == "<module>"


def test_a_module_without_its_envelope_is_read_too() -> None:
    from xla_insight.graph.schema import message_class

    module = message_class("HloProto").FromString(modules.read("base.hlo.pb")).hlo_module
    assert parse_hlo_proto(module.SerializeToString()) == modules.graph("base")


JAX = """HloModule jit_step, entry_computation_layout={(f32[<=4,3]{1,0:T(8,128)})->f32[]}

FileNames
1 "/a/run.py"
2 "/a/model.py"

FunctionNames
1 "main"
2 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=9 end_line=9 column=4 end_column=8}
2 {file_name_id=2 function_name_id=2 line=3 end_line=3 column=4 end_column=8}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

region_0.5 {
  Arg_0.6 = f32[] parameter(0)
  Arg_1.7 = f32[] parameter(1)
  ROOT add.8 = f32[] add(Arg_0.6, Arg_1.7)
}

ENTRY main.10 {
  Arg_0.1 = f32[<=4,3]{1,0:T(8,128)} parameter(0),
    metadata={op_name="x"}
  constant.4 = f32[] constant(-inf)
  constant.5 = s32[2,2]{1,0} constant({ { 1, 2 }, /*i=1*/ { 3, -4 } })
  abs.2 = f32[<=4,3]{1,0} abs(Arg_0.1), metadata={op_name="jit(step)/abs" op_type="abs" stack_frame_id=2}
  ROOT reduce.9 = f32[] reduce(f32[<=4,3]{1,0} abs.2, f32[] constant.4), dimensions={0,1}, to_apply=region_0.5
}
"""


def test_other_printers() -> None:
    graph = parse_hlo_text(JAX)
    parameter, _, matrix, absolute, reduce = graph.instructions
    assert str(parameter.shape) == "f32[<=4,3]" and parameter.metadata.op_name == "x"
    assert matrix.literal is not None and matrix.literal.values == (1, 2, 3, -4)
    assert absolute.metadata.stack == (Frame("/a/model.py", 3, "layer"), Frame("/a/run.py", 9, "main"))
    assert reduce.operands == (3, 1) and reduce.attributes.readable == (("dimensions", "{0,1}"),)
    assert graph.computations[reduce.called[0]].name == "region_0.5"


def test_a_loop_calls_its_body_before_its_condition() -> None:
    graph = parse_hlo_text(LOOP)
    assert [graph.computations[index].name for index in graph.instructions[-1].called] == ["turn", "goes_on"]


LOOP = """HloModule loop

%turn (x: s32[]) -> s32[] {
  ROOT %x = s32[] parameter(0)
}

%goes_on (y: s32[]) -> pred[] {
  %y = s32[] parameter(0)
  ROOT %again = pred[] compare(s32[] %y, s32[] %y), direction=LT
}

ENTRY %main (start: s32[]) -> s32[] {
  %start = s32[] parameter(0)
  ROOT %while.1 = s32[] while(s32[] %start), condition=%goes_on, body=%turn
}
"""
OLD_IR = """[ScheduleSyncTensorsGraph]
TensorsGraphInfo:
  train (/a/train.py:40)
  <module> (/a/train.py:50)

Hashes: (aa, bb)

## BEGIN_GRAPH
IR {
  %0 = f32[3]{0} xla::device_data(), location=make@/a/train.py:7, device=TPU:0
  %1 = s64[] prim::Constant(), value=214013, location=@No Python Frames:-1
  %2 = (f32[2]{0}, s64[2]{0}) aten::topk(%0), num_outputs=2, dim=0, k=2, scope=aten::topk.3
  %3 = f32[2]{0} aten::mul(%2.0, %1), size=(2, 2), ROOT=1
  %4 = s64[2]{0} aten::neg(%2.1), ROOT=0
}

## END_GRAPH
"""


def test_old_ir_dumps() -> None:
    (dump,) = parse_ir_dumps(OLD_IR)
    assert (dump.root_hashes, dump.hash, dump.format) == (("aa", "bb"), "", "text")
    assert dump.stack[0] == Frame("/a/train.py", 40, "train")
    graph = dump.graph
    assert graph is not None
    assert [str(s) for s in graph.outputs] == ["s64[2]", "f32[2]"]
    assert graph.parameters[0].metadata.stack == (Frame("/a/train.py", 7, "make"),)
    counts = Counter(i.opcode for i in graph.instructions)
    assert counts["get-tuple-element"] == 2 and counts["constant"] == 1
    constant = next(i for i in graph.instructions if i.literal)
    assert constant.literal is not None and constant.literal.values == (214013,) and not constant.metadata.stack
    topk = next(i for i in graph.instructions if i.opcode == "aten::topk")
    assert topk.attributes.readable == (("dim", "0"), ("k", "2"))


def test_types() -> None:
    assert str(parse_shape("(f32[2,3]{1,0}, (s32[], token[]))")) == "(f32[2,3], (s32[], token[]))"
    assert parse_shape("f32[2,3]") == parse_shape("f32[2,3]{1,0}") != parse_shape("f32[2,3]{0,1}")


@pytest.mark.parametrize(
    "text",
    [
        "", "HloModule x", "ENTRY a {\n}", "ENTRY a {\n  x = f32[] add(y)\n}", "ENTRY a {\n  x = f32[ add(\n}",
        "a {\n x = f32[] call(), to_apply=b\n}\nb {\n y = f32[] call(), to_apply=a\n}",
        "ENTRY a {\n  x = " + "(" * 5000 + " tuple()\n}",
        "ENTRY a {\n  x = f32[] constant(nope)\n  y = s8[] constant(999)\n}",
        "ENTRY a {\n  x = f32[99999999999999999999999999] parameter(-)\n}",
    ],
)  # fmt: skip
def test_unreadable_text_is_one_error(text: str) -> None:
    with pytest.raises(GraphFormatError):
        parse_hlo_text(text)


@pytest.mark.parametrize("data", [b"", b"\x00", b"hello", b"\xff" * 40, b"\x0a\x02\x1a\x00"])
def test_unreadable_protos_are_one_error(data: bytes) -> None:
    with pytest.raises(GraphFormatError):
        parse_hlo_proto(data)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_protos_never_crash(data: st.DataObject) -> None:
    original = bytearray(modules.read("base.hlo.pb"))
    for _ in range(data.draw(st.integers(1, 8))):
        original[data.draw(st.integers(0, len(original) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(original)) | st.just(len(original)))
    read_or_refuse(lambda: parse_hlo_proto(bytes(original[:cut])))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_text_never_crashes(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([JAX, OLD_IR, modules.read("base.txt").decode()[:6000] + "\n}\n"]))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text = (
            text[:at] + data.draw(st.text('(){}[]=,%"\n 0aE-', max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
        )
    read_or_refuse(lambda: parse_hlo_text(text))
    read_or_refuse(lambda: parse_ir_text(text))


def read_or_refuse(parse: object) -> None:
    """Either a graph that can be used, or the typed error."""
    assert callable(parse)
    try:
        graph = parse()
    except GraphFormatError:
        return
    assert isinstance(graph, Graph)
    fingerprints(graph)


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="needs grpcio-tools")
def test_the_compiled_schema_is_that_of_hlo_proto() -> None:
    from xla_insight.graph.compile_schema import HERE, compiled

    assert (HERE / "hlo_descriptor.py").read_text() == compiled()
