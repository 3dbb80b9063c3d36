"""Loops with one known limit on the real framework: the shares are those of the loop's own clock, the verdict names it.

Shares are compared and never seconds, so that a busy machine does not matter.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import xla_insight as xi
from xla_insight.facts.report import HostState, Severity

from .programs import recorded

TOLERANCE = 0.05
LOOP = Path(__file__).parent / "scripts" / "limits.py"
LIMITS = {
    "input": ("input", (HostState.INPUT_WAIT,)),
    "host_sync": ("host_sync", (HostState.DEVICE_WAIT, HostState.TRANSFER)),
    "transfer": ("transfer", (HostState.TRANSFER,)),
    "checkpoint": ("checkpoint", (HostState.CHECKPOINT,)),
    "device": ("device", (HostState.DEVICE_WAIT,)),
}
EXPECTED = {
    "input": "input_bound",
    "host_sync": "host_sync",
    "transfer": "transfer_bound",
    "checkpoint": "checkpoint_stall",
    "device": "device_bound",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_the_share_and_the_verdict_are_right(limit: str, tmp_path: Path) -> None:
    bound, states = LIMITS[limit]
    done = recorded("limits.py", tmp_path / "run", LIMIT=limit)
    assert done.code == 0, done.err
    report = xi.analyze(tmp_path / "run")
    steady = report.time.steady
    assert steady is not None and steady.steps >= 40
    own = done.result["steps"][steady.first_step : steady.last_step + 1]
    truth = sum(spent for _, spent in own) / sum(length for length, _ in own)
    found = sum(steady.host.get(state, 0.0) for state in states) / steady.wall_s
    assert found == pytest.approx(truth, abs=TOLERANCE)
    assert report.verdict.bound == bound
    assert EXPECTED[limit] in {finding.id for finding in report.findings}
    if limit == "transfer":
        (finding,) = (finding for finding in report.findings if finding.id == "transfer_bound")
        line = next(n for n, text in enumerate(LOOP.read_text().splitlines(), 1) if "table.to(DEVICE)" in text)
        assert finding.site is not None and finding.site.line == line
        assert "device_bound" not in {finding.id for finding in report.findings}
    if limit == "device":
        assert steady.device_busy_s is not None
        assert steady.device_busy_s / steady.wall_s == pytest.approx(truth, abs=TOLERANCE)
        assert all(finding.severity is Severity.INFO for finding in report.findings), "a healthy run"


def test_tracing_is_what_is_left_and_leaves_the_device_idle(tmp_path: Path) -> None:
    done = recorded("limits.py", tmp_path / "run", LIMIT="trace", LIMIT_STEPS="500")
    assert done.code == 0, done.err
    report = xi.analyze(tmp_path / "run")
    steady = report.time.steady
    assert steady is not None and steady.device_busy_s is not None
    own = done.result["steps"][steady.first_step : steady.last_step + 1]
    least = sum(spent for _, spent in own) / sum(length for length, _ in own)
    # The loop's clock sees its operations; that the sync traces on (hashing, preparing) only the tool can tell.
    assert steady.host[HostState.TRACE] / steady.wall_s >= least - TOLERANCE
    assert steady.device_idle_by_host_state[HostState.TRACE] > 0.8 * steady.wall_s
    assert report.verdict.bound == "trace" and "trace_bound" in {finding.id for finding in report.findings}
    lines = report.time.host_lines
    tracing = next(n for n, text in enumerate(LOOP.read_text().splitlines(), 1) if "value * 1.0001 + 0.0001" in text)
    assert lines and lines[0].site.line == tracing and "limits.py" in lines[0].site.file, "of the host's own lines"
    assert f"at limits.py:{tracing}" in report.verdict.summary
    # The loop asks its syncs to wait, which costs next to nothing here and is told as that.
    (waits,) = (finding for finding in report.findings if finding.id == "host_sync")
    assert (waits.severity, waits.count) == (Severity.INFO, report.steps.count)
