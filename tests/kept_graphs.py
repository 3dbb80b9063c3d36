"""Runs whose graphs were kept: the real modules of the graph tests, stored as a recorder stores them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.synthetic import build_run, graph_hash
from tests.unit.graph.modules import read
from xla_insight.store.graph_files import graph_file, write_compressed

LETTERS = {"A": "base", "B": "longer", "C": "power"}
"""Which module each graph of `build_run` is: B is A with longer sequences, C is B with another exponent."""


def keep_hlo(run: Path, modules: Mapping[str, bytes]) -> None:
    """Store modules (graph hash to HLO proto) in the folder of the run's first process."""
    folder = sorted(run.glob("rank-*"))[0]
    for name, content in modules.items():
        write_compressed(str(folder / graph_file(name)), content)


def build_explained_run(path: Path, letters: Mapping[str, str] | None = None, **changes: Any) -> Path:
    """A run of `build_run` with the HLO of its graphs."""
    run = build_run(path, **changes)
    keep_hlo(run, {graph_hash(letter): read(f"{name}.hlo.pb") for letter, name in (letters or LETTERS).items()})
    return run
