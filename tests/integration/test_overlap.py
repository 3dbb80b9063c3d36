"""The mask read of transformers takes overlap away, and a 4-D float mask gives it back: on the real framework."""

from __future__ import annotations

from pathlib import Path

import pytest

import xla_insight as xi
from xla_insight.facts.report import Report

from .programs import recorded

WINDOW = (10, 24)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """The run with each of the two masks.

    Buffers are not donated: on XLA:CPU a sync may wait for them, or may not, which hides what a read does.
    """
    found = {}
    for mask in ("plain", "4d"):
        path = tmp_path_factory.mktemp("overlap") / mask
        windows = "{}-{}".format(*WINDOW)
        done = recorded(
            "masked_trainer.py", path, MASK=mask, XLA_ENABLE_PARAM_ALIASING="0", XLA_INSIGHT_WINDOWS=windows
        )
        assert done.code == 0, done.err
        found[mask] = xi.analyze(path)
    return found


def executions_a_step(path: Path) -> float:
    """Executions of each step of the window, which is after all compiles."""
    query = f"select count(*) as number from executions where step between {WINDOW[0]} and {WINDOW[1]}"
    return int(xi.open_run(path).sql(query)["number"][0]) / (WINDOW[1] - WINDOW[0] + 1)


def test_the_read_of_the_mask_is_told_and_is_gone_with_a_float_mask(reports: dict[str, Report]) -> None:
    def reads(report: Report) -> list[int]:
        return [
            finding.count
            for finding in report.findings
            if finding.id == "host_sync"
            and finding.site
            and finding.site.file.endswith("transformers/masking_utils.py")
        ]

    assert reads(reports["plain"]) == [reports["plain"].steps.count] and reads(reports["4d"]) == []


def test_without_it_there_are_half_the_executions(reports: dict[str, Report]) -> None:
    plain, wide = (executions_a_step(Path(reports[mask].run.path)) for mask in ("plain", "4d"))
    assert plain == pytest.approx(2 * wide, rel=0.1)


def test_without_it_overlap_returns(reports: dict[str, Report]) -> None:
    for of_windows in (True, False):
        plain, wide = (overlap(reports[mask], of_windows) for mask in ("plain", "4d"))
        assert plain < 0.25 and wide > plain + 0.15


def overlap(report: Report, of_windows: bool) -> float:
    """Share of the host's own work that was hidden: as device windows measured it, or as inferred after warm-up."""
    part = report.time.measured if of_windows else report.time.steady
    assert part is not None and part.overlap_pct is not None
    return part.overlap_pct / 100
