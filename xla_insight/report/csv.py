"""All tables of a run, and the report's, as CSV files that open right in a spreadsheet.

UTF-8 with a byte order mark; text that a spreadsheet would run as a formula gets a leading apostrophe. Leaves which
folder may be written to ``export_files``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from xla_insight.facts.report import Report
from xla_insight.report.devices import device_batches
from xla_insight.report.export_files import ExportFolder, report_batch, report_columns, report_tables, time_tables
from xla_insight.report.shapes import shape_batches
from xla_insight.store.views import TABLES

if TYPE_CHECKING:
    from xla_insight.analysis.tables import RunTables
    from xla_insight.store.reader import Run

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FORMULA = r"^[=+\-@\t\r\n]"


def export_csv(
    run: Run, report: Report, directory: str | Path, overwrite: bool = False, tables: RunTables | None = None
) -> list[Path]:
    """Write one CSV a table and those of the report, of devices and of shapes to ``directory``; the files written.

    ``steps`` comes with the account of its time, and ``idle`` has a row for each stretch without device work.
    ``tables``: those of the run, when they are loaded already.

    Raises ExportError when the folder holds anything but an earlier export (unless ``overwrite``) or cannot be written.
    """
    folder = ExportFolder.claim(directory, "csv", overwrite=overwrite)
    times = time_tables(run, tables)
    devices = device_batches(report)
    for name in TABLES:
        own = iter([devices.pop(name)]) if name in devices else times.pop(name, None)
        batches = own or run.batches(name, lists_as_text=True)
        folder.write(f"{name}.csv", batches, _write)
    for name, batches in times.items():
        folder.write(f"{name}.csv", batches, _write)
    columns = report_columns()
    for name, rows in report_tables(report).items():
        folder.write(f"{name}.csv", iter([report_batch(rows, columns[name])]), _write)
    for name, batch in {**devices, **shape_batches(run)}.items():
        folder.write(f"{name}.csv", iter([batch]), _write)
    return folder.files


def _write(path: str, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches)
    with open(path, "wb") as file:
        file.write(BYTE_ORDER_MARK)
        with pa.csv.CSVWriter(file, first.schema) as writer:
            for batch in chain([first], batches):
                writer.write_batch(_harmless(batch))


def _harmless(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with an apostrophe before every text that a spreadsheet would take for a formula."""
    columns = []
    for column in batch.columns:
        if pa.types.is_string(column.type):
            risky = pc.match_substring_regex(column, _FORMULA)
            columns.append(pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
