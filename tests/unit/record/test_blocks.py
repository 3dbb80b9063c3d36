"""The debug file's text as records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xla_insight.record import blocks
from xla_insight.record.stacks import Place

RULE, DASH = "=" * 80, "-" * 80
HASH = "b96abced458551f6c2e1cebc043c3df2"


def block_text(kind: str, graph: str = HASH, sentence: str = "user torch_xla.sync", line: int = 13) -> str:
    prefix = f"{kind} Analysis: "
    lines = [
        RULE,
        f"{kind} Cause",
        f"  {sentence}",
        "Graph Info: ",
        f"  Graph Hash: {graph}",
        "  Number of Graph Inputs: 5",
        "  Number of Graph Outputs: 2",
        "Python Frame Triggered Execution: ",
        "  sync (/lib/torch_xla/torch_xla.py:87)",
        f"  <module> (/home/me (old)/train.py:{line})",
        DASH,
        RULE,
    ]
    return "\n" + "".join(f"{prefix}{line}\n" for line in lines)


MEMORY = f"""
Computation hash: 5d4818235efe0917ae9e35ad4f485f06

Post Compilation Analysis: {RULE}
Post Compilation Analysis: Graph input size: 0.000003 GB
Post Compilation Analysis: Graph output size: 1.500000 GB
Post Compilation Analysis: Aliased Input size: 0.000000 GB
Post Compilation Analysis: Intermediate tensor size: 0.000001 GB
Post Compilation Analysis: Compiled program size: 0.000000 GB
Post Compilation Analysis: {DASH}
Post Compilation Analysis: {RULE}
"""


def test_a_compilation_and_its_execution() -> None:
    text = (block_text("Compilation") + MEMORY + block_text("Execution", line=14)).encode()
    found, used = blocks.parse(text, 1000)
    assert [block.kind for block in found] == [blocks.COMPILATION, blocks.MEMORY, blocks.EXECUTION]
    first, memory, last = found
    assert (first.graph, first.inputs, first.outputs, first.sentence) == (HASH, 5, 2, "user torch_xla.sync")
    assert first.frames == (
        Place("/lib/torch_xla/torch_xla.py", 87, "sync"),
        Place("/home/me (old)/train.py", 13, "<module>"),
    )
    assert memory.sizes[1] == round(1.5 * (1 << 30))
    assert last.frames[1].line == 14
    assert last.end == 1000 + len(text)
    assert used == len(text)


def test_no_python_frames_and_unknown_text_between() -> None:
    text = "2026-01-01 some other log line\n" + block_text("Execution").replace(
        "  <module> (/home/me (old)/train.py:13)", "  .........."
    )
    found, _ = blocks.parse(text.encode(), 0)
    assert len(found) == 1
    assert len(found[0].frames) == 1


@given(st.integers(min_value=0, max_value=3000), st.integers(min_value=1, max_value=4))
def test_any_cut_of_the_text_loses_nothing(cut: int, count: int) -> None:
    text = (block_text("Compilation") + MEMORY + block_text("Execution") * count).encode()
    cut = min(cut, len(text))
    first, used = blocks.parse(text[:cut], 0)
    second, _ = blocks.parse(text[used:], used)
    assert first + second == blocks.parse(text, 0)[0]


@given(st.binary(max_size=2000))
def test_arbitrary_bytes_never_fail(data: bytes) -> None:
    found, used = blocks.parse(block_text("Execution").encode()[:-30] + data, 0)
    assert used >= 0
    assert len(found) <= 2
