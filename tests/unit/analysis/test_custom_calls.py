"""Custom calls of graphs: each target with its shapes, its count and its share of the bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from xla_insight.analysis.custom_calls import custom_calls_of, custom_calls_of_file
from xla_insight.errors import GraphFormatError
from xla_insight.graph.hlo_text import parse_hlo_text

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
