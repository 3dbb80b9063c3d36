"""Verb `cache`: what each command prints, that a dry run is one, and that names are shown as text."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.synthetic import build_run, graph_hash
from xla_insight import cli

Output = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`cache` holds graph A of the run `runs/one`, an orphan, a JAX entry with a hostile name; all 40 days old."""
    cache = tmp_path / "cache"
    cache.mkdir()
    build_run(tmp_path / "runs" / "one", steps=10, pattern="AB")
    for name in (str(int(graph_hash("A"), 16)), "12345", f"jit_\x1b[31m<b>-{'c' * 64}-cache"):
        (cache / name).write_bytes(b"\x0a\x01x")
        os.utime(cache / name, (time.time() - 40 * 86_400,) * 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_status_and_list(place: Path, capsys: Output) -> None:
    assert cli.main(["cache", "status", "cache"]) == 0
    text = capsys.readouterr().out
    assert "jax, torch_xla: 3 entries, 9 B (1 used, 1 orphan, 1 unjoined)" in text
    assert "saves up to 300 ms" in text
    assert cli.main(["cache", "status", "cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["states"] == {"used": 1, "orphan": 1, "unjoined": 1}
    assert cli.main(["cache", "list", "cache"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and "40 d ago" in text and graph_hash("A")[:10] in text
    assert cli.main(["cache", "list", "cache", "--json"]) == 0
    assert {row["state"] for row in json.loads(capsys.readouterr().out)} == {"used", "orphan", "unjoined"}


def test_explain(place: Path, capsys: Output) -> None:
    assert cli.main(["cache", "explain", "cache", "runs/one"]) == 0
    text = capsys.readouterr().out
    assert "Of 3 graphs that this run compiled, 1 is in this cache: a warm start saves 300 ms" in text
    assert "did not look into any persistent cache" in text
    assert cli.main(["cache", "explain", "cache", "runs/one", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert (plain["graphs"], plain["present"], plain["would_compile"]) == (3, 1, 2)
    assert {miss["reason"] for miss in plain["misses"]} == {"no_cache"}


def test_prune_is_a_dry_run_by_default(place: Path, capsys: Output) -> None:
    words = ["cache", "prune", "cache", "--state", "orphan", "--older-than", "30d"]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    assert "3 entries, 9 B to delete; building them again costs 300 ms" in text and "nothing was deleted" in text
    assert len(os.listdir("cache")) == 3 and "\x1b" not in text
    assert cli.main(["cache", "prune", "cache", "--state", "orphan", "--delete"]) == 0
    assert "deleted 1 entry" in capsys.readouterr().out
    assert len(os.listdir("cache")) == 2
    assert cli.main(["cache", "prune", "cache", "--max-size", "3 B", "--delete"]) == 0
    assert len(os.listdir("cache")) == 1


def test_what_goes_is_named_by_file_and_hash(place: Path, capsys: Output) -> None:
    Path("cache/4886718345").write_bytes(b"x")
    os.utime("cache/4886718345", (1e9, 1e9))
    assert cli.main(["cache", "prune", "cache", "--older-than", "3000d"]) == 0
    assert "4886718345 (123456)  1 B  not used for" in capsys.readouterr().out


def test_prune_refuses_a_cache_in_use(place: Path, capsys: Output) -> None:
    Path("cache/7").write_bytes(b"x")
    assert cli.main(["cache", "prune", "cache", "--older-than", "1d"]) == 0
    assert "in use: it was written" in capsys.readouterr().out
    assert cli.main(["cache", "prune", "cache", "--older-than", "1d", "--delete"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert len(os.listdir("cache")) == 4


@pytest.mark.parametrize(
    "words",
    [["cache"], ["cache", "status"], ["cache", "status", "none"], ["cache", "prune", "cache"],
     ["cache", "prune", "cache", "--older-than", "30"], ["cache", "prune", "cache", "--older-than", "-3d"],
     ["cache", "prune", "cache", "--max-size", "10d"], ["cache", "prune", "cache", "--state", "used"],
     ["cache", "list", "cache", "--runs", "nowhere"], ["cache", "explain", "cache", "nowhere"]],
)  # fmt: skip
def test_bad_usage_is_one_line(place: Path, capsys: Output, words: list[str]) -> None:
    assert cli.main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_size_of_the_cache_in_memory(place: Path, capsys: Output) -> None:
    assert cli.main(["cache", "memory", "runs/one"]) == 0
    assert "3 distinct graphs fit the cache in memory" in capsys.readouterr().out
    assert cli.main(["cache", "memory", "runs/one", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["enough"] == 3
