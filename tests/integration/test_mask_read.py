"""The library's read of the attention mask costs half the executions and the overlap; a 4-D float mask ends both."""

from __future__ import annotations

from pathlib import Path

import xla_insight as xi
from xla_insight.facts.report import Report

from .programs import recorded


def record(mask: str, folder: Path) -> Report:
    done = recorded("masked_trainer.py", folder / mask, MASK=mask)
    assert done.code == 0, done.err
    return xi.analyze(folder / mask)


def test_a_float_mask_halves_the_executions_and_brings_overlap_back(tmp_path: Path) -> None:
    read, added = record("2d", tmp_path), record("4d", tmp_path)
    mask_reads = [
        f for f in read.findings if f.id == "host_sync" and f.site and f.site.file.endswith("masking_utils.py")
    ]
    assert len(mask_reads) == 1 and mask_reads[0].count == read.steps.count
    assert mask_reads[0].details["reads_that_ran_a_graph"] > 0 and mask_reads[0].details["device_idle_s"] > 0
    assert not [f for f in added.findings if f.site and f.site.file.endswith("masking_utils.py")]
    assert added.graphs.executions <= 0.6 * read.graphs.executions
    before, after = read.time.steady, added.time.steady
    assert before is not None and before.overlap_pct is not None
    assert after is not None and after.overlap_pct is not None
    assert after.overlap_pct > 1.5 * before.overlap_pct and after.overlap_pct > before.overlap_pct + 10
