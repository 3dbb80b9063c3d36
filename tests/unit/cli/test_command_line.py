"""The entry point: exit codes, one line for each error, no traceback."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest
import typer

import xla_insight.cli
from xla_insight import cli
from xla_insight.cli.places import free_place
from xla_insight.errors import CheckFailedError, InsightError, RunNotFoundError


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A verb `probe` whose behaviour a test sets as ``act``."""
    module = types.ModuleType("xla_insight.cli.probe")

    def register(app: typer.Typer) -> None:
        def probe() -> int | None:
            return module.act()  # type: ignore[no-any-return]

        app.command("probe")(probe)

    module.register = register  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xla_insight.cli.probe", module)
    monkeypatch.setattr(xla_insight.cli, "VERBS", ("probe", "report"))
    return module


def fails_with(error: BaseException) -> object:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code"),
    [(RunNotFoundError("no run\nat /x"), 2), (CheckFailedError("too many"), 1), (InsightError("?"), 2)],
)
def test_an_error_is_one_line_and_an_exit_code(
    verb: types.ModuleType, capsys: pytest.CaptureFixture[str], error: InsightError, code: int
) -> None:
    verb.act = fails_with(error)  # type: ignore[attr-defined]
    assert cli.main(["probe"]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("xla-insight: ") and captured.err.count("\n") == 1


def test_interrupting_is_quiet(verb: types.ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    verb.act = fails_with(KeyboardInterrupt())  # type: ignore[attr-defined]
    assert cli.main(["probe"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("module", ["typer", "xla_insight.cli.train", "pandas"])
def test_interrupting_while_modules_load_is_quiet(module: str) -> None:
    """As Ctrl-C does: in the middle of an import, wherever that stands."""
    code = f"""
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from xla_insight.cli import main
sys.exit(main(["report", "."]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_status_of_a_verb_is_the_exit_code(verb: types.ModuleType) -> None:
    verb.act = lambda: 7  # type: ignore[attr-defined]
    assert cli.main(["probe"]) == 7
    verb.act = lambda: None  # type: ignore[attr-defined]
    assert cli.main(["probe"]) == 0


@pytest.mark.parametrize("arguments", [["--nope"], ["nope"], ["report"], ["report", "x", "--nope"]])
def test_bad_usage_is_one_line_and_two(
    verb: types.ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_bug_of_ours_keeps_its_traceback(verb: types.ModuleType) -> None:
    verb.act = fails_with(ZeroDivisionError())  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        cli.main(["probe"])


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    help_text = capsys.readouterr().out
    assert all(verb in help_text for verb in cli.VERBS)
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("xla-insight ")


def test_every_verb_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in cli.VERBS:
        assert cli.main([verb, "--help"]) == 0
        assert "Usage" in capsys.readouterr().out


def test_the_command_line_loads_nothing_heavy() -> None:
    code = (
        "import sys, xla_insight.cli as c; c.build_app();"
        "print([m for m in ('torch', 'dash', 'pandas', 'duckdb', 'pyarrow', 'numpy', 'plotly') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_dashboard_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["app", str(tmp_path)]) == 2
    assert 'pip install "xla-insight[app]"' in capsys.readouterr().err


def test_the_dashboard_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["app", "/nowhere/at/all"]) == 2
    assert "/nowhere/at/all" in capsys.readouterr().err


def test_every_module_with_a_command_is_a_verb() -> None:
    modules = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    others = {"__init__", "__main__", "root", "output", "places", "train_progress", "train_summary", "usage"}
    assert set(cli.VERBS) == modules - others


def test_a_place_that_cannot_be_reached_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--out", "nosuch://bucket/run", "-c", "print(1)"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("xla-insight: cannot record to")
    assert complaint.count("\n") == 1


def test_a_free_name_beside_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert free_place(f"{tmp_path}/run") == f"{tmp_path}/run", "an empty folder is free"
    (tmp_path / "run" / "notes.txt").write_text("mine")
    (tmp_path / "run-2").write_text("a file")
    assert free_place(f"{tmp_path}/run") == f"{tmp_path}/run-3"


WORKLOADS = "mlm, from-scratch, benchmark, kernels, spmd, ranks"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("run --outt X boom.py", "there is no option --outt; did you mean --out?"),
        ("run --outt=X boom.py", "there is no option --outt; did you mean --out?"),
        ("run -u x.py", "there is no option -u; for an option of Python's: xla-insight run python OPTION SCRIPT"),
        ("run", "SCRIPT … is missing; see: xla-insight run --help"),
        ("report --jsonn x", "there is no option --jsonn; did you mean --json?"),
        ("report a b", "too many arguments: b; see: xla-insight report --help"),
        ("app --port abc", "--port takes a whole number, not 'abc'"),
        ("app --port 70000", "--port must be at most 65535, not 70000"),
        ("train mlm --steps 0", "--steps must be at least 1, not 0"),
        ("train mlm --learning-rate x", "--learning-rate takes a number, not 'x'"),
        ("train mlm --precision fp17", "--precision takes one of fp32, bf16, not 'fp17'"),
        ("train nosuch", f"there is no workload 'nosuch'; there are: {WORKLOADS}"),
        ("train", f"name a workload; there are: {WORKLOADS}"),
        ("cache", "name a command; there are: status, list, explain, prune, memory"),
        ("cache prune x --older-than", "--older-than needs a value"),
        ("reprot x", "there is no command 'reprot'; did you mean report or export?"),
        ("check x --max-recompiles abc", "--max-recompiles takes a whole number, not 'abc'"),
    ],
)
def test_bad_usage_is_said_in_our_words(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words.split()) == 2
    assert capsys.readouterr().err == f"xla-insight: {sentence}\n"


def test_help_pages_name_values_and_no_types(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["check"], ["run"], ["demo"], ["cache", "prune"], ["train", "mlm"]):
        assert cli.main([*words, "--help"]) == 0
        page = capsys.readouterr().out
        assert not any(word in page for word in ("<bool>", "<str>", "<int", "<float", "<list", "<path"))


def test_a_folder_is_no_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--out", str(tmp_path / "run"), str(tmp_path)]) == 2
    assert "is a folder; give the path of the script to run" in capsys.readouterr().err
