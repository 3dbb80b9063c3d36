"""Custom calls of graphs: each target with its shapes, its count and its share of the bytes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.unit.analysis.test_windows import MS, PROGRAM, Make, Steps, a_window, executed, ran, session
from xla_insight.analysis import custom_calls
from xla_insight.analysis.custom_calls import custom_calls_of, custom_calls_of_file
from xla_insight.analysis.windows.call_times import GraphTimes, call_times
from xla_insight.errors import GraphFormatError
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.hlo_text import parse_hlo_text
from xla_insight.graph.schema import message_class
from xla_insight.report.custom_calls_text import print_custom_calls

MODULE = """HloModule m

inner {
  q = bf16[4]{0} parameter(0)
  ROOT inside = bf16[4]{0} custom-call(q), custom_call_target="annotate"
}

ENTRY e {
  p = f32[16,8]{1,0} parameter(0)
  k = bf16[4]{0} parameter(1)
  t1 = (f32[16,2]{1,0}, s32[16,2]{1,0}) custom-call(p), custom_call_target="TopK"
  t2 = (f32[16,2]{1,0}, s32[16,2]{1,0}) custom-call(p), custom_call_target="TopK"
  v = f32[16,2]{1,0} get-tuple-element(t1), index=0
  w = f32[16,2]{1,0} get-tuple-element(t2), index=0
  c = bf16[4]{0} call(k), to_apply=inner
  s = f32[16,2]{1,0} add(v, w)
  ROOT r = (f32[16,2]{1,0}, bf16[4]{0}) tuple(s, c)
}
"""


def test_calls_are_counted_by_target_and_shapes() -> None:
    found = custom_calls_of("m", parse_hlo_text(MODULE), executions=3, device_s=0.5)
    top, inside = found.calls
    assert (top.target, top.operands, top.result, top.count) == (
        "TopK", ("f32[16,8]",), "(f32[16,2], s32[16,2])", 2,
    )  # fmt: skip
    assert (inside.target, inside.count, inside.site) == ("annotate", 1, None)
    top_bytes, inside_bytes, others = 2 * (16 * 8 * 4 + 2 * 16 * 2 * 4), 2 * 4 * 2, 2 * 4 * 2 + 3 * 16 * 2 * 4
    total = top_bytes + inside_bytes + others
    assert top.bytes_pct == pytest.approx(100 * top_bytes / total)
    assert inside.bytes_pct == pytest.approx(100 * inside_bytes / total)
    assert (found.executions, found.device_s) == (3, 0.5)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(MODULE)
    assert [call.target for call in custom_calls_of_file(str(tmp_path / "m.txt")).calls] == ["TopK", "annotate"]
    for content in (b"", b"\x00\x01", b"HloModule"):
        (tmp_path / "m.txt").write_bytes(content)
        with pytest.raises(GraphFormatError, match=r"m\.txt is no HLO module"):
            custom_calls_of_file(str(tmp_path / "m.txt"))
    with pytest.raises(GraphFormatError, match="cannot read"):
        custom_calls_of_file(str(tmp_path / "missing"))


def module() -> bytes:
    """A program of two custom calls and what follows, as the compiler stores it."""
    program = message_class("HloProto")()
    program.hlo_module.name, program.hlo_module.entry_computation_id = "m", 1
    computation = program.hlo_module.computations.add(name="e", id=1, root_id=4)
    listed = [
        ("p", "parameter", "", ()),
        ("call.7", "custom-call", "TopK", (1,)),
        ("call.8", "custom-call", "Eigh", (1,)),
    ]
    for number, (name, opcode, target, operands) in enumerate([*listed, ("s", "add", "", (2, 3))], 1):
        item = computation.instructions.add(name=name, opcode=opcode, id=number, operand_ids=operands)
        item.shape = message_class("ShapeProto")(element_type=11, dimensions=[16]).SerializeToString()
        item.MergeFromString(message_class("HloAttributesProto")(custom_call_target=target).SerializeToString())
    return bytes(program.SerializeToString())


def test_in_a_window_the_share_is_that_of_the_devices_time(tables: Make, stepped: Steps) -> None:
    work = [ran(21, 27, "call.8"), ran(27, 28, "call.7"), ran(28, 29, "s")]
    run = tables(
        steps=stepped(6, 10 * MS),
        executions=executed((20.8, 29, "a")),
        windows=[a_window(20, 45)],
        window=lambda process, name: session(*work, programs={PROGRAM: module()}),
    )
    (times,) = call_times(run).values()
    assert times.total_ns == 8 * MS
    assert {key[0]: ns for key, ns in times.calls_ns.items()} == {"TopK": MS, "Eigh": 6 * MS}
    plain = custom_calls_of("a", parse_hlo_proto(module()), 1, 0.008)
    timed = custom_calls.timed(plain, times)
    assert [(call.target, call.device_pct) for call in timed.calls] == [("Eigh", 75), ("TopK", 12.5)]
    assert call_times(tables(steps=stepped(6, 10 * MS))) == {}


def expanded() -> bytes:
    """The program of `module` after the compiler put a loop in the place of Eigh; only the loop has its name."""
    program = message_class("HloProto")()
    program.hlo_module.name, program.hlo_module.entry_computation_id = "m", 2
    body = program.hlo_module.computations.add(name="body", id=1, root_id=11)
    entry = program.hlo_module.computations.add(name="e", id=2, root_id=4)
    listed = [("p", "parameter", "", 1), ("call.7", "custom-call", "TopK", 2), ("loop", "while", "", 4)]
    for computation, name, opcode, target, number in [
        (body, "q", "parameter", "", 10),
        (body, "sweep", "negate", "", 11),
        *((entry, *row) for row in listed),
    ]:
        item = computation.instructions.add(name=name, opcode=opcode, id=number)
        item.operand_ids.extend([] if opcode == "parameter" else [10] if computation is body else [1])
        item.shape = message_class("ShapeProto")(element_type=11, dimensions=[16]).SerializeToString()
        item.MergeFromString(message_class("HloAttributesProto")(custom_call_target=target).SerializeToString())
        if opcode == "while":
            item.called_computation_ids.append(1)
            item.metadata = message_class("OpMetadata")(op_name=b"aten__eigh").SerializeToString()
    return bytes(program.SerializeToString())


@pytest.mark.parametrize(("also", "share"), [("aten__add", 87.5), ("aten__eigh", None)])
def test_a_call_that_the_compiler_replaced_has_the_time_of_what_came_in_its_place(
    tables: Make, stepped: Steps, also: str, share: float | None
) -> None:
    first = message_class("HloProto").FromString(module())
    for item in first.hlo_module.computations[0].instructions:
        named = {"call.8": "aten__eigh", "s": also}.get(item.name, "")
        item.metadata = message_class("OpMetadata")(op_type=named.encode()).SerializeToString()
    work = [ran(22, 29, "loop"), ran(21, 22, "call.7"), ran(23, 29, "sweep")]  # by turns on two threads
    run = tables(
        steps=stepped(6, 10 * MS),
        executions=executed((20.8, 29, "a")),
        windows=[a_window(20, 45)],
        window=lambda process, name: session(*work, programs={PROGRAM: expanded()}),
    )
    (times,) = call_times(run).values()
    timed = custom_calls.timed(custom_calls_of("a" * 32, parse_hlo_proto(bytes(first.SerializeToString()))), times)
    found = {call.target: (call.device_pct, call.replaced) for call in timed.calls}
    assert found == {"TopK": (12.5, False), "Eigh": (share, True)}
    said = io.StringIO()
    print_custom_calls([timed], 1, said)
    words = " ".join(said.getvalue().split())
    assert ("88 % of its device time, measured" if share else "time n/a") in words
    assert "(the compiler put instructions of its own in its place)" in words and "of its bytes" not in words


def test_the_list_says_what_is_measured() -> None:
    graph = custom_calls_of("a" * 32, parse_hlo_proto(module()), 1, 0.008)
    times = GraphTimes(4)
    for call in graph.calls:
        times.kept.add((call.target, call.operands, call.result))
    times.calls_ns[graph.calls[0].target, graph.calls[0].operands, graph.calls[0].result] = 3
    measured, guessed = io.StringIO(), io.StringIO()
    print_custom_calls([custom_calls.timed(graph, times)], 1, measured)
    print_custom_calls([graph], 1, guessed)
    assert "75 % of its device time, measured" in " ".join(measured.getvalue().split())
    assert "~" not in measured.getvalue().replace("~8 ms", "") and "of its bytes" in guessed.getvalue()
