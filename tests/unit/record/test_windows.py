"""Device windows: what a user may ask for, when a window opens and closes, what it may cost, and who goes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.xspaces import Made, make_session
from xla_insight.errors import UsageError
from xla_insight.facts.events import Event, Kind, StepSource
from xla_insight.facts.xspace import read_programs
from xla_insight.record import profiler as profiler_module
from xla_insight.record import windows as module
from xla_insight.record.clock import Anchor
from xla_insight.record.profiler import Profiler
from xla_insight.record.window_keeper import WindowKeeper
from xla_insight.record.window_plan import Asked, WindowPlan, parse_windows
from xla_insight.record.windows import QUIET_STEPS, Window, Windows


class TestPlan:
    @pytest.mark.parametrize(
        ("asked", "steps"),
        [
            ("10-12,100", ((10, 12), (100, 100))),
            ("100, 0", ((0, 0), (100, 100))),
            ([5, (7, 9)], ((5, 5), (7, 9))),
            ("none", ()),
            ([], ()),
        ],
    )
    def test_steps(self, asked: Asked, steps: tuple[tuple[int, int], ...]) -> None:
        plan = parse_windows(asked)
        assert plan.steps == steps
        assert plan.wanted == bool(steps)
        assert parse_windows(str(plan)) == plan

    def test_without_a_wish_windows_are_taken_when_cheap_and_regularly_at_level_full(self) -> None:
        assert parse_windows(None) == parse_windows("auto") == WindowPlan(automatic=True)
        assert parse_windows(None, "full").every == 50

    @pytest.mark.parametrize("asked", ["soon", "3-1", "1-2-3", "5-7,6", "-4", "0-100", "1;2", ","])
    def test_what_is_no_plan_is_one_clear_sentence(self, asked: str) -> None:
        with pytest.raises(UsageError) as error:
            parse_windows(asked)
        assert "\n" not in str(error.value) and len(str(error.value)) < 120


class Host:
    """A program with a profiler, a clock of its own, and what was kept of its windows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, plan: WindowPlan, cost_s: float = 0.1) -> None:
        self.now_s, self.cost_s, self.open = 0.0, cost_s, 0
        self.users_session = False
        self.misses = 0
        self.kept: list[Window] = []
        monkeypatch.setattr(module, "time", self)
        monkeypatch.setattr(profiler_module, "time", self)
        monkeypatch.setattr(module, "take_anchor", lambda: Anchor(self.now_ns, 10**18 + self.now_ns))
        self.profiler = Profiler(self._session)
        self.windows = Windows(plan, self.profiler, lambda window, content: self.kept.append(window), lambda: 400_000)
        self.windows.start()

    def monotonic(self) -> float:
        return self.now_s

    perf_counter = monotonic

    def perf_counter_ns(self) -> int:
        return self.now_ns

    @property
    def now_ns(self) -> int:
        return round(self.now_s * 1e9)

    def _session(self) -> Any:
        if self.open or self.users_session:
            raise RuntimeError("ALREADY_EXISTS: Only one profile session may be active at a time.")
        self.open += 1
        return self

    def stop(self) -> bytes:
        self.open -= 1
        self.now_s += self.cost_s
        return b"session"

    def train(self, steps: range, step_s: float = 0.1, source: StepSource = StepSource.CALLBACK) -> None:
        for number in steps:
            self.now_s += step_s
            self.windows.step_ended(source, number, self.misses)

    @property
    def steps(self) -> list[tuple[int, int]]:
        return [(window.first_step, window.last_step) for window in self.kept]


def test_windows_cover_the_steps_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("0,3-4,9"))
    host.train(range(12), step_s=1.0)
    assert host.steps == [(0, 0), (3, 4), (9, 9)]
    assert [round((w.end_ns - w.begin.mono_ns) / 1e9, 3) for w in host.kept] == [1.0, 2.0, 1.0]
    assert [w.stop_ns for w in host.kept] == [100_000_000] * 3
    assert not host.open and not host.windows.skipped


def test_no_window_is_taken_when_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("none"))
    host.train(range(5000))
    host.windows.stop()
    assert not host.kept and not host.windows.skipped


def test_a_window_that_nobody_asked_for_costs_at_most_a_hundredth(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("auto"))
    for number in range(20_000):
        host.train(range(number, number + 1))
        if host.kept and len(host.kept) == 1 and host.kept[0].last_step == number:
            assert 100 * 0.09 < host.now_s < 20, "early: as soon as it is cheap"
        assert host.windows.stop_s <= module.BUDGET_SHARE * host.now_s + host.cost_s * (host.now_s < 12)
    assert 2 <= len(host.kept) <= 9, "ever rarer"
    assert host.kept[-1].first_step > 10_000 - 200, "and late"
    assert {last - first for first, last in host.steps} == {2}


def test_an_expensive_session_is_waited_for_and_a_short_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("auto"), cost_s=5.0)
    host.train(range(3000))
    assert len(host.kept) == 1, "the first cost more than expected"
    host.train(range(3000, 9000))
    assert len(host.kept) == 1, "the second has to wait until 1,000 s"
    brief = Host(monkeypatch, parse_windows("auto"))
    brief.train(range(30))
    brief.windows.stop()
    assert not brief.kept and "too short" in next(iter(brief.windows.skipped))


def test_a_session_that_costs_twice_the_last_keeps_to_the_hundredth(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("auto"))
    for number in range(20_000):
        before = len(host.kept)
        host.train(range(number, number + 1))
        if len(host.kept) > before:
            assert host.windows.stop_s <= module.BUDGET_SHARE * host.now_s or before == 0
            host.cost_s *= 2
    assert len(host.kept) >= 2


def test_no_window_before_the_steady_state(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("auto"))
    for number in range(1000):
        host.misses = number // (QUIET_STEPS - 1)
        host.train(range(number, number + 1))
    assert not host.kept


def test_the_best_source_of_steps_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("1"))
    host.train(range(1), source=StepSource.LOADER)
    host.train(range(1))
    host.train(range(1, 3), source=StepSource.LOADER)
    assert not host.kept
    host.train(range(1, 2))
    assert host.steps == [(1, 1)]


def test_where_nobody_marks_steps_the_line_that_cuts_most_often_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("2"))
    for number in range(8):
        host.now_s += 1.0
        host.windows.cut(17, 0)
        if number % 3 == 0:
            host.windows.cut(4, 0)
    assert host.steps == [(2, 2)]


def test_the_programs_own_session_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("1-3,5,7"))
    host.train(range(2))
    host.windows.close("closed because the program opened a profiler session")
    host.users_session = True
    assert not host.open and host.kept[0].note.startswith("closed because")
    host.train(range(2, 6))
    assert host.profiler.take() is None, "an idle session gives way, too"
    host.users_session = False
    host.train(range(6, 8))
    assert host.steps == [(1, 3), (7, 7)]
    assert dict(host.windows.skipped) == {"another profiler session was open": 1}


def test_a_window_is_closed_when_its_steps_take_too_long_or_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, parse_windows("1-3,50"))
    host.train(range(1))
    host.now_s += module.LONGEST_S + 1
    host.windows.tick()
    assert host.kept[0].note == f"closed after {module.LONGEST_S:.0f} s"
    host.windows.stop()
    assert host.windows.facts()["skipped"] == {"the run ended before its steps": 1}


class Folder:
    """A writer that keeps windows in memory."""

    def __init__(self, fails: bool = False) -> None:
        self.files: dict[str, bytes] = {}
        self.fails = fails

    def write_window(self, name: str, content: bytes) -> int | None:
        if self.fails:
            return None
        self.files[name] = content
        return len(content)


WINDOW = Window(3, 4, Anchor(100, 10**18), 400, 50, "")
SESSION = make_session({"python": [Made("Lower", 6_000, 9_000)]}, {1: b"one" * 50, 2: b"two" * 50})


def test_each_program_is_stored_once_and_the_log_says_when_a_window_was_open() -> None:
    folder, events = Folder(), list[Event]()
    keeper = WindowKeeper(folder, events.append)  # type: ignore[arg-type]
    keeper.keep(WINDOW, SESSION)
    keeper.keep(WINDOW, SESSION)
    assert [set(read_programs(content)) for content in folder.files.values()] == [{1, 2}, set()]
    assert [(e.kind, e.time_ns, e.duration_ns, e.name, e.value) for e in events] == [
        (Kind.WINDOW, 100, 300, "000001", 50.0),
        (Kind.WINDOW, 100, 300, "000002", 50.0),
    ]
    assert events[0].dims == (10**18, 3, 4, len(folder.files["000001"]))


@pytest.mark.parametrize(("folder", "limit"), [(Folder(fails=True), 1 << 20), (Folder(), 0)])
def test_what_cannot_be_kept_is_counted_as_lost(folder: Folder, limit: int) -> None:
    events: list[Event] = []
    WindowKeeper(folder, events.append, limit).keep(WINDOW, SESSION)  # type: ignore[arg-type]
    assert [(event.kind, event.name) for event in events] == [(Kind.LOST, "windows")]


def test_names_of_windows_lead_nowhere_else(tmp_path: Path) -> None:
    from xla_insight.store.window_files import window_file

    assert window_file("000001") == "windows/000001.xspace.zst"
    assert window_file("../../etc/passwd") is None and window_file("") is None
