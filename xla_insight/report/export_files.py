"""What every export into a folder shares: which folder may be written, whole files only, and the report as rows.

Owns the mark that an export leaves in its folder, so that a later one may replace it and nothing else. Leaves the form
of a file to ``csv`` and ``parquet``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from xla_insight.analysis import load_tables
from xla_insight.analysis.idle_causes import idle_table
from xla_insight.analysis.step_table import build_step_table
from xla_insight.analysis.windows import operation_table
from xla_insight.errors import ExportError
from xla_insight.facts.report import Report, Site

if TYPE_CHECKING:
    from xla_insight.analysis.tables import RunTables
    from xla_insight.store.reader import Run

Writer = Callable[[str, Iterator[pa.RecordBatch]], None]
"""Writes batches, the first of which has no rows, to a path."""

_BATCH_ROWS = 65_536
MARK_FILE = "export.json"
_NOT_FILES = ("", ".", "..")
_MARK = "xla-insight export"

RECOMPILE_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "cause": lambda entry: entry.cause,
    "expected": lambda entry: entry.expected,
    "severity": lambda entry: str(entry.severity),
    "count": lambda entry: entry.count,
    "compile_s": lambda entry: entry.compile_s,
    "steps": lambda entry: " ".join(map(str, entry.steps)),
    "graphs": lambda entry: " ".join(entry.graphs),
    "trigger": lambda entry: entry.trigger,
    "root_file": lambda entry: (entry.root.get("site") or {}).get("file"),
    "root_line": lambda entry: (entry.root.get("site") or {}).get("line"),
    "root_kind": lambda entry: entry.root.get("kind"),
    "root_operation": lambda entry: entry.root.get("operation"),
    "input": lambda entry: entry.root.get("input") or None,
    "dimension": lambda entry: entry.root.get("dimension"),
    "before": lambda entry: entry.root.get("before"),
    "now": lambda entry: entry.root.get("now"),
    "follows": lambda entry: entry.root.get("follows"),
}
FINDING_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "id": lambda entry: entry.id,
    "severity": lambda entry: str(entry.severity),
    "count": lambda entry: entry.count,
    "cost_s": lambda entry: entry.cost_s,
}


@dataclass
class ExportFolder:
    """A folder being exported to. Files appear in it whole, under their final name."""

    path: Path
    format: str
    files: list[Path] = field(default_factory=list)

    @classmethod
    def claim(cls, directory: str | Path, file_format: str, *, overwrite: bool) -> ExportFolder:
        """The folder, created when missing. Raises ExportError when it holds anything but an earlier export."""
        path = Path(directory)
        try:
            path.mkdir(parents=True, exist_ok=True)
            names = os.listdir(path)
        except (FileExistsError, NotADirectoryError) as error:
            raise ExportError(f"{path} is not a folder; name a folder to export to") from error
        except OSError as error:
            raise ExportError(f"cannot write to {path} ({error.strerror})") from error
        earlier = _earlier_files(path)
        if names and earlier is None and not overwrite:
            raise ExportError(f"{path} is not empty and not an earlier export; choose another folder")
        for name in earlier or ():
            try:
                (path / name).unlink(missing_ok=True)
            except (OSError, ValueError) as error:
                raise ExportError(f"cannot replace the earlier export in {path} ({error})") from error
        return cls(path, file_format)

    def write(self, name: str, batches: Iterator[pa.RecordBatch], write: Writer) -> None:
        """Have ``write`` fill a temporary file and give it its name. Raises ExportError; then the file is not there."""
        temporary, final = self.path / f".{name}.tmp", self.path / name
        try:
            write(str(temporary), batches)
            os.replace(temporary, final)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise ExportError(f"cannot write {final} ({error.strerror or error})") from error
        self.files.append(final)
        self._mark()

    def _mark(self) -> None:
        names = [path.name for path in self.files]
        content = {"written_by": _MARK, "format": self.format, "files": names}
        try:
            (self.path / MARK_FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ExportError(f"cannot write to {self.path} ({error.strerror})") from error


def report_tables(report: Report) -> dict[str, list[dict[str, Any]]]:
    """``recompiles`` and ``findings`` as rows; every row of a table has the same keys."""
    return {
        "recompiles": _rows(report.recompiles, RECOMPILE_COLUMNS),
        "findings": _rows(report.findings, FINDING_COLUMNS),
    }


def time_tables(run: Run, tables: RunTables | None = None) -> dict[str, Iterator[pa.RecordBatch]]:
    """``steps`` with the account of their time, ``idle``: the stretches in which the device had nothing to run, and
    ``device_ops``: what it ran in device windows, by operation."""
    tables = load_tables(run) if tables is None else tables
    frames = {"steps": build_step_table(tables), "idle": idle_table(tables), "device_ops": operation_table(tables)}
    return {name: _batches(frame) for name, frame in frames.items()}


def _batches(frame: pd.DataFrame) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    for position, column in enumerate(table.schema):
        if (
            pa.types.is_null(column.type)
            or pa.types.is_dictionary(column.type)
            or pa.types.is_large_string(column.type)
        ):
            text = table.column(position).cast(pa.string())
            table = table.set_column(position, column.name, text)
    yield pa.RecordBatch.from_pylist([], schema=table.schema)
    yield from table.to_batches(max_chunksize=_BATCH_ROWS)


def report_columns() -> dict[str, tuple[str, ...]]:
    """Columns of the tables of `report_tables`, also when they have no row."""
    places = (*_place(None, ""), *_place(None, "user_"), "summary", "advice")
    return {"recompiles": (*RECOMPILE_COLUMNS, *places), "findings": (*FINDING_COLUMNS, *places)}


def report_batch(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pa.RecordBatch:
    """Rows of a report table; a column without any value is text."""
    arrays = [pa.array([row[name] for row in rows]) for name in columns]
    typed = [array.cast(pa.string()) if pa.types.is_null(array.type) else array for array in arrays]
    return pa.RecordBatch.from_arrays(typed, names=list(columns))


def _rows(entries: Iterable[Any], columns: dict[str, Callable[[Any], Any]]) -> list[dict[str, Any]]:
    return [
        {name: value(entry) for name, value in columns.items()}
        | _place(entry.site, "")
        | _place(entry.user_site, "user_")
        | {"summary": entry.summary, "advice": entry.advice}
        for entry in entries
    ]


def _place(site: Site | None, prefix: str) -> dict[str, Any]:
    return {f"{prefix}{name}": getattr(site, name, None) for name in ("file", "line", "function")}


def _earlier_files(path: Path) -> list[str] | None:
    """Files of an earlier export in this folder; None when there was none. Never a name that leads elsewhere."""
    try:
        mark = json.loads((path / MARK_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(mark, dict) or mark.get("written_by") != _MARK or not isinstance(mark.get("files"), list):
        return None
    return [
        name for name in mark["files"] if isinstance(name, str) and name not in _NOT_FILES and Path(name).name == name
    ]
