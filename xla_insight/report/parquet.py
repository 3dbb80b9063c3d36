"""All tables of a run, and the report's, as Parquet files for other tools.

One file a table, with the types of the tables. Leaves which folder may be written to ``export_files``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from xla_insight.facts.report import Report
from xla_insight.report.devices import device_batches
from xla_insight.report.export_files import ExportFolder, report_batch, report_columns, report_tables, time_tables
from xla_insight.report.shapes import shape_batches
from xla_insight.store.views import TABLES

if TYPE_CHECKING:
    from xla_insight.analysis.tables import RunTables
    from xla_insight.store.reader import Run


def export_parquet(
    run: Run, report: Report, directory: str | Path, overwrite: bool = False, tables: RunTables | None = None
) -> list[Path]:
    """Write one Parquet file a table and those of the report and of shapes; the files written.

    ``steps`` and ``idle`` are those of the CSV export; ``tables``: those of the run, when they are loaded already.

    Raises ExportError when the folder holds anything but an earlier export (unless ``overwrite``) or cannot be written.
    """
    folder = ExportFolder.claim(directory, "parquet", overwrite=overwrite)
    times = time_tables(run, tables)
    devices = device_batches(report)
    for name in TABLES:
        own = iter([devices.pop(name)]) if name in devices else times.pop(name, None)
        batches = own or run.batches(name)
        folder.write(f"{name}.parquet", batches, _write)
    for name, batches in times.items():
        folder.write(f"{name}.parquet", batches, _write)
    columns = report_columns()
    for name, rows in report_tables(report).items():
        folder.write(f"{name}.parquet", iter([report_batch(rows, columns[name])]), _write)
    for name, batch in {**devices, **shape_batches(run)}.items():
        folder.write(f"{name}.parquet", iter([batch]), _write)
    return folder.files


def _write(path: str, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
