"""Verb `explain`: the sentence first, then the root, then what follows; one line for what cannot be explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kept_graphs import build_explained_run, keep_hlo
from tests.synthetic import build_run, graph_hash
from xla_insight import cli

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_explained_run(tmp_path_factory.mktemp("explain") / "run"))


def test_a_step_is_explained_within_eighty_columns(run: str, capsys: Output) -> None:
    assert cli.main(["explain", run, "2"]) == 0
    text = capsys.readouterr().out
    order = ["step 2", graph_hash("B"), "compared with graph", "\nRoot ", " now  ", " before  ", "\nRest ", "12 → 16"]
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)
    assert "step.py:23" in text and "equal instruction" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_difference_on_request(run: str, capsys: Output) -> None:
    assert cli.main(["explain", run, graph_hash("C")[:5], "--diff"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("-  57  f32[] constant(1.5)") for line in lines)
    assert any(line.startswith("+  57  f32[] constant(1.7)") and "◀ root" in line for line in lines)
    assert any("equal instructions" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_another_graph_to_compare_with(run: str, capsys: Output) -> None:
    assert cli.main(["explain", run, "5", "--against", graph_hash("A")[:6], "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["compiles"]
    assert (told["graph"], told["against"]) == (graph_hash("C"), graph_hash("A"))
    assert told["root"]["before"] == "s64[4,12]" and "rows" not in told


def test_json_holds_rows_on_request(run: str, capsys: Output) -> None:
    assert cli.main(["explain", run, "5", "--json", "--diff"]) == 0
    told = json.loads(capsys.readouterr().out)
    (one,) = told["compiles"]
    assert told["schema"] == 1 and one["step"] == 5 and one["missing"] is None
    assert [row["now"] for row in one["rows"] if row.get("mark") == "root"] == ["f32[] constant(1.7)"]
    assert any("folded" in row for row in one["rows"])


def test_the_sentence_is_about_the_step_that_was_asked_for(run: str, capsys: Output) -> None:
    for step in ("2", "5"):
        assert cli.main(["explain", run, step, "--json"]) == 0
        (told,) = json.loads(capsys.readouterr().out)["compiles"]
        for word in ("now", "before"):
            assert told["root"][word] and f"{word} {told['root'][word]}" in told["summary"], told["summary"]


def test_several_compiles_of_one_step(run: str, capsys: Output) -> None:
    assert cli.main(["explain", run, "0"]) == 0
    text = capsys.readouterr().out
    assert text.count("step 0 · graph") == 2 and "no earlier graph of the same kind" in text


@pytest.mark.parametrize("wanted", ["3", "zz", "", "0x"])
def test_what_does_not_exist_is_one_line_and_two(run: str, wanted: str, capsys: Output) -> None:
    assert cli.main(["explain", run, wanted]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("xla-insight: ") and captured.err.count("\n") == 1
    assert cli.main(["explain", run, "2", "--against", "nope"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_without_kept_graphs_says_what_is_known(tmp_path: Path, capsys: Output) -> None:
    bare = build_run(tmp_path / "run")
    assert cli.main(["explain", str(bare), "2", "--diff"]) == 0
    assert "was not kept" in capsys.readouterr().out


def test_damaged_and_hostile_graphs_are_no_traceback(tmp_path: Path, capsys: Output) -> None:
    run = build_run(tmp_path / "run", hostile=True)
    keep_hlo(run, {graph_hash("A"): b"\x00\x01", graph_hash("B"): b"\xff" * 99})
    (next(run.glob("rank-*")) / "graphs" / f"{graph_hash('C')}.hlo.pb.zst").write_bytes(b"not zstd")
    for step, sentence in (("2", "cannot be read"), ("5", "was not kept")):
        assert cli.main(["explain", str(run), step]) == 0
        text = capsys.readouterr().out
        assert sentence in " ".join(text.split()) and "\x1b" not in text
