"""The pytest plugin: a test with ``@pytest.mark.xla_budget(...)`` is recorded, and fails when it breaks its budget.

Owns the marker, the fixture ``xla_profile`` and the text of a failure. The limits are those of ``facts.budget``;
checking is ``analysis.gate``. Loaded at every start of pytest where this package is installed, so it imports nothing
but pytest until a test asks for a recording.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xla_insight.facts.budget import GateResult
    from xla_insight.facts.report import Report
    from xla_insight.record.session import profile

MARKER, _FIXTURE = "xla_budget", "xla_profile"
_HELP = (
    "xla_budget(max_recompiles=..., max_graphs=..., after_step=..., ...): record the test and fail it when it takes"
    " more; names as the options of `xla-insight check`"
)
_KEY = pytest.StashKey["Recorded"]()


class Recorded:
    """The recording of one test, as the fixture ``xla_profile`` gives it."""

    def __init__(self, path: str) -> None:
        self.path = path
        """Where it is written; ``xla-insight report PATH`` reads it."""
        self._profile: profile | None = None

    def step(self) -> None:
        """Mark the end of an optimizer step. A Trainer's steps are found without it."""
        if self._profile is not None:
            self._profile.step()

    def report(self) -> Report:
        """The report of what was recorded so far. Raises ``InsightError`` when nothing was."""
        from xla_insight.analysis import analyze

        self.stop()
        return analyze(self.path)

    def start(self) -> None:
        """Begin recording."""
        from xla_insight.record.session import profile

        self._profile = profile(self.path)
        self._profile.__enter__()
        self.path = self._profile.path

    def stop(self, error: BaseException | None = None) -> None:
        """End the recording; a second call does nothing."""
        if self._profile is not None:
            self.path = self._profile.path
            self._profile.__exit__(type(error) if error else None, error, None)
            self._profile = None


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _HELP)


@pytest.fixture
def xla_profile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The recording of this test: ``step()`` marks a step, ``report()`` ends it and says what was recorded."""
    return _recorded(request.node, tmp_path_factory)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A marked test is recorded whether or not it takes the fixture. Its graphs have names only where that is arranged
    before the first graph of the process, which may be another test's.
    """
    recorded = False
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is None:
            continue
        if item.get_closest_marker(MARKER) is not None and _FIXTURE not in names:
            names.append(_FIXTURE)
        recorded = recorded or _FIXTURE in names
    if recorded and find_spec("torch_xla") is not None:
        from xla_insight.record.session import prepare

        prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record the test itself, not its fixtures; then hold it against its budget."""
    recorded = item.stash.get(_KEY, None)
    if recorded is None:
        return (yield)
    recorded.start()
    try:
        result = yield
    except BaseException as error:
        recorded.stop(error)
        raise
    recorded.stop()
    _check(item, recorded)
    return result


def _recorded(item: pytest.Item, folders: pytest.TempPathFactory) -> Recorded:
    name = re.sub(r"\W+", "-", item.name)[:60]
    recorded = item.stash[_KEY] = Recorded(os.fspath(folders.mktemp("xla-insight") / name))
    return recorded


def _check(item: pytest.Item, recorded: Recorded) -> None:
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return
    from xla_insight.analysis.gate import check_run
    from xla_insight.errors import InsightError, RunNotFoundError
    from xla_insight.facts.budget import Budget
    from xla_insight.report.text import plain_line
    from xla_insight.store.reader import open_run

    problem = None
    try:
        if marker.args:
            raise InsightError("give limits by name, as in xla_budget(max_graphs=2)")
        budget = Budget.of(marker.kwargs, f"@pytest.mark.{MARKER}")
        if not budget.limits_something:
            raise InsightError("the budget has no limit, as in xla_budget(max_graphs=2)")
        with open_run(recorded.path) as run:
            result = check_run(run, budget)
    except RunNotFoundError as error:
        problem = f"{error}: nothing was recorded, since the test did not use torch_xla"
        if find_spec("torch_xla") is None:
            problem = (
                'nothing was recorded, since torch_xla is not installed: pytest.importorskip("torch_xla") skips it'
            )
    except InsightError as error:
        problem = str(error)
    if problem is not None:  # outside of the handler: else pytest shows the same sentence twice, as two exceptions
        pytest.fail(f"{MARKER}: {problem}", pytrace=False)
    if result.broken:
        pytest.fail("\n".join(map(plain_line, _failure(result, recorded.path))), pytrace=False)
    for note in result.notes:
        item.warn(pytest.PytestWarning(f"{MARKER}: {plain_line(note)}"))


def _failure(result: GateResult, path: str) -> list[str]:
    lines = ["the test takes more than its XLA budget"]
    for checked in result.broken:
        lines += [f"  {checked.sentence}", *(f"    {reason}" for reason in checked.reasons)]
    lines += [f"  note: {note}" for note in result.notes]
    return [*lines, f"  recorded in {path}"]
