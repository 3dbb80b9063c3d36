"""The README shows only what exists: verbs, options, public names, and an SQL query that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

import xla_insight
from tests.conftest import CommandLine, Recording
from xla_insight.cli import build_app


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


def shown_commands(readme: str) -> set[tuple[str, ...]]:
    """Words of every ``xla-insight VERB …`` in code, without its comment."""
    found = re.findall(r"xla-insight ((?:run|report|explain|app|sql|export|demo)\b[^`#\n]*)", readme)
    return {tuple(command.split()) for command in found}


def test_every_verb_and_option_exists(readme: str) -> None:
    group = typer.main.get_command(build_app())
    commands = shown_commands(readme)
    assert {words[0] for words in commands} >= {"run", "report", "app", "sql", "export"}
    verbs = group.commands  # type: ignore[attr-defined]
    for verb, *words in commands:
        assert verb in verbs
        own = words[: next((index for index, word in enumerate(words) if word.endswith(".py")), len(words))]
        known = {option for parameter in verbs[verb].params for option in parameter.opts}
        assert {word for word in own if word.startswith("--")} <= known


def test_every_public_name_exists(readme: str) -> None:
    names = set(re.findall(r"\bxi\.(\w+)", readme))
    assert {"profile", "TrainerCallback", "prepare", "open_run", "analyze"} <= names
    for name in names - {"TrainerCallback"}:  # opening it imports transformers
        assert callable(getattr(xla_insight, name))


def test_the_query_runs(readme: str, trainer_run: Recording, command_line: CommandLine) -> None:
    query = re.search(r'xla-insight sql runs/a "([^"]+)"', readme)
    assert query
    done = command_line("sql", trainer_run.path, query.group(1), "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert "transformers/masking_utils.py" in done.stdout


def test_every_make_target_exists(readme: str, repository: Path) -> None:
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", readme):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
