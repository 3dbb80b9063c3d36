"""What importing each part of the package may load, seen in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FRAMEWORKS = {"torch", "torch_xla", "transformers", "accelerate", "jax"}
DRAWING = {"dash", "plotly", "rich"}
TABLES = {"pandas", "pyarrow", "duckdb"}


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after ``statement``, less those it starts with."""
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import xla_insight", FRAMEWORKS | DRAWING | TABLES | {"typer"}),
        ("import xla_insight.cli", FRAMEWORKS | DRAWING | TABLES),
        ("import xla_insight.cli as cli; cli.build_app()", FRAMEWORKS | {"dash", "plotly"} | TABLES),
        ("import xla_insight as xi; xi.profile; xi.prepare", FRAMEWORKS | DRAWING | {"pandas"}),
        ("import xla_insight.record.session, xla_insight.store.writer", FRAMEWORKS | DRAWING | {"pandas", "duckdb"}),
        ("import xla_insight.runner.demo", FRAMEWORKS | DRAWING | {"pandas"}),
        (
            "import xla_insight.runner.mlm, xla_insight.runner.from_scratch, xla_insight.runner.benchmark",
            FRAMEWORKS | DRAWING | TABLES | {"typer", "numpy"},
        ),
        ("import xla_insight as xi; xi.open_run; xi.analyze", FRAMEWORKS | DRAWING),
        ("import xla_insight.report.text, xla_insight.report.json", FRAMEWORKS | {"dash", "plotly"}),
        ("import xla_insight_app.server", FRAMEWORKS),
    ],
)
def test_importing_loads_nothing_heavy(statement: str, forbidden: set[str]) -> None:
    loaded = loaded_by(statement)
    assert any(name.startswith("xla_insight") for name in loaded)
    assert loaded & forbidden == set()


def test_importing_hooks_nothing() -> None:
    statement = """
import builtins, gc, atexit, threading
state = lambda: (list(sys.meta_path), builtins.__import__, list(gc.callbacks), threading.active_count(), sys.excepthook)
first = state()
import xla_insight, xla_insight.cli
import xla_insight.record.session
assert state() == first, (first, state())
"""
    loaded_by(statement)


def test_an_unknown_public_name_is_an_ordinary_attribute_error() -> None:
    import xla_insight

    with pytest.raises(AttributeError, match="no attribute 'profil'"):
        xla_insight.profil  # noqa: B018
    assert {"profile", "prepare", "TrainerCallback", "open_run", "analyze"} <= set(dir(xla_insight))


def test_imports_flow_one_way(repository: Path) -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout
