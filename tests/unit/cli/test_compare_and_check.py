"""Verbs `compare` and `check`: exit codes, one line a broken limit, and files that hold text as text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.synthetic import build_run
from xla_insight import cli

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run `a`, and `b` with recompiles and names as an attacker would choose them."""
    folder = tmp_path_factory.mktemp("runs")
    build_run(folder / "a", steps=30, pattern="A")
    build_run(folder / "b", steps=30, pattern="A" * 6 + "B" * 6 + "C", hostile=True)
    return folder


def test_compare_in_text_and_json(runs: Path, capsys: Output) -> None:
    assert cli.main(["compare", str(runs / "a"), str(runs / "b")]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0] == "b against a" and "as long as before" in text
    assert "\x1b" not in text and "Environment" in text
    assert cli.main(["compare", str(runs / "a"), str(runs / "b"), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert next(iter(plain)) == "schema" and plain["schema"] == 1
    assert plain["verdict"]["direction"] == "slower" and plain["graphs"]["same"] == 2


def test_more_than_two_are_a_trend(runs: Path, capsys: Output) -> None:
    names = [str(runs / name) for name in ("a", "b", "a")]
    assert cli.main(["compare", *names]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["a", "b", "a"]
    assert cli.main(["compare", *names, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 3


@pytest.mark.parametrize("words", [["compare"], ["compare", "one"], ["compare", "one", "two"], ["check", "one"]])
def test_bad_usage_is_one_line(words: list[str], capsys: Output, tmp_path: Path, monkeypatch: object) -> None:
    assert cli.main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_check_says_one_line_a_broken_limit(runs: Path, capsys: Output) -> None:
    words = ["check", str(runs / "b"), "--max-recompiles", "0", "--after-step", "2", "--max-graphs", "1"]
    assert cli.main([*words, "--max-fallbacks", "0"]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == ["max_recompiles", "max_graphs"]
    assert captured.err == "" and "\x1b" not in captured.out


def test_check_passes_and_needs_a_limit(runs: Path, capsys: Output, tmp_path: Path) -> None:
    assert cli.main(["check", str(runs / "a"), "--max-recompiles", "0"]) == 0
    heading, columns, row = capsys.readouterr().out.splitlines()
    assert heading == "1 limit held" and columns.split() == ["limit", "measured", "allowed"]
    assert re.split(r"\s{2,}", row.strip()) == ["max_recompiles", "0 recompiles", "at most 0"]
    (tmp_path / "none.toml").write_text("[tool.xla_insight.check]\nafter_step = 3\n")
    assert cli.main(["check", str(runs / "a"), "--config", str(tmp_path / "none.toml")]) == 2
    assert "no limit given" in capsys.readouterr().err


def test_a_cause_is_told_in_full_once(runs: Path, capsys: Output) -> None:
    assert cli.main(["check", str(runs / "b"), "--max-recompiles", "0", "--max-graphs", "1"]) == 1
    recompiles, graphs = capsys.readouterr().out.splitlines()
    told = re.search(r"2 × unknown: (.{20})", recompiles)
    assert told is not None
    assert told[1] not in graphs and re.search(r"2 × unknown \[.*\], as above", graphs)


def test_the_command_line_goes_before_pyproject(
    runs: Path, capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.xla_insight.check]\nmax_graphs = 1\n")
    assert cli.main(["check", str(runs / "b")]) == 1
    assert cli.main(["check", str(runs / "b"), "--max-graphs", "9"]) == 0
    capsys.readouterr()


def test_files_hold_text_as_text(runs: Path, capsys: Output, tmp_path: Path) -> None:
    junit, markdown = tmp_path / "out" / "junit.xml", tmp_path / "out" / "comment.md"
    words = ["check", str(runs / "b"), "--max-graphs", "1", "--max-recompiles", "99", "--json"]
    assert cli.main([*words, "--junit", str(junit), "--markdown", str(markdown)]) == 1
    plain = json.loads(capsys.readouterr().out)
    assert (plain["schema"], plain["held"], len(plain["limits"])) == (1, False, 2)
    suite = ElementTree.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = [case.get("name") for case in suite if len(case)]
    assert failed == ["max_graphs"]
    text = markdown.read_text(encoding="utf-8")
    assert "1 limit broken" in text and "<script>" not in text
    assert not re.search(r"(?<!\\)<", text)


def test_a_file_that_cannot_be_written_is_one_line(runs: Path, capsys: Output, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["check", str(runs / "a"), "--max-graphs", "9", "--junit", str(tmp_path / "file" / "x.xml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
