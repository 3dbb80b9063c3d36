"""The README shows only what exists: verbs, options, public names, and an SQL query that runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import pytest
import typer.main

import xla_insight
from tests.conftest import CommandLine, Recording
from xla_insight.cli import build_app
from xla_insight.facts.report import Report, Site


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


def shown_commands(readme: str) -> set[tuple[str, ...]]:
    """Words of every ``xla-insight VERB …`` in code, without its comment."""
    verbs = "run|report|explain|shapes|app|sql|export|compare|check|demo"
    found = re.findall(rf"xla-insight ((?:{verbs})\b[^`#\n]*)", readme)
    return {tuple(command.split()) for command in found}


def test_every_verb_and_option_exists(readme: str) -> None:
    group = typer.main.get_command(build_app())
    commands = shown_commands(readme)
    assert {words[0] for words in commands} >= {"run", "report", "app", "sql", "export", "compare", "check"}
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


def nullable(kind: type, prefix: str = "") -> Iterator[str]:
    """Paths of the fields of a record that may be None in its JSON; a `Site` is not, it becomes ``{}``."""
    for name, hint in get_type_hints(kind).items():
        parts = [hint]
        for part in parts:
            parts += get_args(part)
        many = "[]" if any(get_origin(part) is tuple for part in parts) else ""
        if type(None) in get_args(hint) and Site not in parts:
            yield f"{prefix}{name}"
        for part in parts:
            if is_dataclass(part) and isinstance(part, type) and part is not Site:
                yield from nullable(part, f"{prefix}{name}{many}.")


def test_every_field_that_may_be_null_is_described(repository: Path) -> None:
    described = (repository / "docs" / "report-json.md").read_text(encoding="utf-8")
    first_cells = [line.split("|")[1] for line in described.split("\n") if line.startswith("| `")]
    assert set(re.findall(r"`([^`]+)`", " ".join(first_cells))) == set(nullable(Report))


def test_every_make_target_exists(readme: str, repository: Path) -> None:
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", readme):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_commands_of_a_group_exist(readme: str) -> None:
    group = typer.main.get_command(build_app()).commands["cache"].commands  # type: ignore[attr-defined]
    shown = re.findall(r"xla-insight cache (\w+)([^`#\n]*)", readme)
    assert {name for name, _ in shown} >= {"status", "explain", "prune", "memory"}
    for name, words in shown:
        known = {option for parameter in group[name].params for option in parameter.opts}
        assert {word for word in words.split() if word.startswith("--")} <= known


def test_workloads_and_their_options_exist(readme: str) -> None:
    group = typer.main.get_command(build_app()).commands["train"].commands  # type: ignore[attr-defined]
    shown = re.findall(r"xla-insight train ([a-z-]+)([^`#\n]*)", readme)
    assert {name for name, _ in shown} >= {"mlm", "from-scratch", "benchmark", "kernels"}
    for name, words in shown:
        known = {option for parameter in group[name].params for option in parameter.opts}
        assert {word for word in words.split() if word.startswith("--")} <= known
    everywhere = {option for command in group.values() for parameter in command.params for option in parameter.opts}
    table = readme.partition("| step of the guides")[2].partition("## ")[0]
    assert set(re.findall(r"--[a-z][a-z-]+", table)) <= everywhere
