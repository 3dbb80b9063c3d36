"""The notebooks run from top to bottom, say what they promise, and are stored without outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("torch_xla")

FOLDER = Path(__file__).parents[2] / "notebooks"
SAYS = {
    "01-wrap-a-trainer": ("6 steps", "compiles"),
    "02-why-did-it-recompile": ("input_shape", "dimension 1"),
    "03-pick-a-padding-plan": ("compiles", "buckets"),
    "04-host-against-device": ("read in every step ->", "median step, ms"),
}


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def printed(notebook: Any) -> str:
    """All text that its cells put out."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


def test_every_notebook_is_known_and_stored_without_outputs() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(SAYS)
    for name in SAYS:
        cells = [cell for cell in read(name).cells if cell.cell_type == "code"]
        assert all(not cell.outputs and cell.execution_count is None for cell in cells), name


@pytest.mark.parametrize("name", SAYS)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = read(name)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    text = printed(notebook)
    for expected in SAYS[name]:
        assert expected in text
