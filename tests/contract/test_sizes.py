"""Functions, files and parameter lists stay small enough to be read at once, and every module says what it owns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60
USUAL_LINES_OF_A_FUNCTION = 50
MOST_PARAMETERS = 6
FORBIDDEN_NAMES = {"utils", "util", "common", "core", "helpers", "misc"}

FILES = sorted(path for folder in ("xla_insight", "app", "benchmarks") for path in (REPOSITORY / folder).rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[tuple[str, Function]]:
    """(name with file, node) of every function and method of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield f"{path.relative_to(REPOSITORY)}:{node.lineno} {node.name}", node


def length(node: Function) -> int:
    """Lines from the signature to the end; decorators are not counted (a command's options are data)."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def parameters(node: Function) -> int:
    """Number of parameters, less ``self`` and ``cls``."""
    names = [item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_file_can_be_read_at_once(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= MOST_LINES_OF_A_FILE
    assert ast.get_docstring(ast.parse(text)), "a module says what it owns and what it leaves to others"
    assert path.stem not in FORBIDDEN_NAMES
    assert [name for name, node in functions(path) if length(node) > MOST_LINES_OF_A_FUNCTION] == []
    assert [name for name, node in functions(path) if parameters(node) > MOST_PARAMETERS] == []


def test_nearly_all_functions_are_short() -> None:
    lengths = [length(node) for path in FILES for _, node in functions(path)]
    assert len(lengths) > 300
    assert sum(lines < USUAL_LINES_OF_A_FUNCTION for lines in lengths) >= 0.95 * len(lengths)
