"""Samples, stacks, faults, patches, clock and the import watch."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_insight.record.clock import Anchor, Clock
from xla_insight.record.faults import Faults
from xla_insight.record.imports import ImportWatch
from xla_insight.record.patches import Patches
from xla_insight.record.samples import Poller
from xla_insight.record.stacks import LIBRARY_ROOTS, Place, Stacks, describe


class TestPoller:
    def metric(self, total: int, ring: int = 1024) -> tuple[int, float, tuple[tuple[float, float], ...]]:
        samples = tuple((float(index), float(index)) for index in range(max(0, total - ring), total))
        return total, 0.0, samples

    @given(st.lists(st.integers(min_value=0, max_value=50), max_size=20))
    def test_every_sample_once(self, increases: list[int]) -> None:
        total = 7
        poller = Poller(lambda name: self.metric(total, 30))
        poller.start(("m",))
        seen: list[int] = []
        lost = 0
        for increase in increases:
            total += increase
            news = poller.poll("m")
            assert news.total == increase
            lost += news.lost
            seen += [sample.value for sample in news.samples]
        assert len(seen) + lost == sum(increases)
        assert seen == sorted(set(seen))

    def test_cleared_metrics_start_again(self) -> None:
        totals = iter([5, 2, None, 3])
        poller = Poller(lambda name: None if (total := next(totals)) is None else self.metric(total))
        poller.start(("m",))
        assert poller.poll("m")[1:] == (2, 0, True)
        assert poller.poll("m").reset
        assert poller.poll("m").total == 3


class TestStacks:
    def test_site_is_the_innermost_frame_outside_the_framework_and_the_user_site_in_user_files(self) -> None:
        root = LIBRARY_ROOTS[0]
        stack = [
            Place(root + "torch/_tensor.py", 1, "item"),
            Place(root + "typing_extensions.py", 2, "wrapper"),
            Place(root + "transformers/masking_utils.py", 354, "mask"),
            Place("/home/me/train.py", 9, "main"),
        ]
        found = json.loads(describe(stack))
        assert found["site"] == [root + "transformers/masking_utils.py", 354, "mask"]
        assert found["user_site"] == ["/home/me/train.py", 9, "main"]

    def test_generated_code_is_nobodys_line(self) -> None:
        found = json.loads(describe([Place("<eval_with_key>.5", 5, "forward"), Place("/u/train.py", 3, "f")]))
        assert found["site"][1] == found["user_site"][1] == 3

    def test_equal_stacks_share_an_id_and_are_described_once(self) -> None:
        stacks = Stacks()
        ids = set()
        for _ in range(3):
            ids.add(stacks.capture(sys._getframe()))
        assert len(ids) == 1
        ((identity, text),) = stacks.new_sites()
        assert identity in ids
        assert json.loads(text)["stack"][0][2] == "test_equal_stacks_share_an_id_and_are_described_once"
        assert stacks.new_sites() == []

    def test_an_empty_stack_is_described_too(self) -> None:
        assert json.loads(describe([]))["site"] is None


class TestFaults:
    def test_an_error_is_counted_and_never_raised(self) -> None:
        faults = Faults()

        @faults.guard("part")
        def broken() -> None:
            raise ValueError("no")

        assert broken() is None
        broken()
        assert faults.unreported() == [("part", 2, "ValueError: no")]
        assert faults.unreported() == []

    def test_the_users_interrupt_passes(self) -> None:
        @Faults().guard("part")
        def interrupted() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()


class TestPatches:
    def test_restored_as_it_was(self) -> None:
        class Parent:
            def act(self) -> int:
                return 1

        class Child(Parent):
            pass

        patches = Patches(Faults())
        patches.wrap(Child, "act", lambda original: lambda self: original(self) + 1)
        assert Child().act() == 2
        patches.restore()
        assert "act" not in vars(Child)
        assert Child().act() == 1

    def test_a_later_wrapper_of_another_tool_stays(self) -> None:
        owner = SimpleNamespace(act=lambda: 1)
        patches = Patches(Faults())
        patches.wrap(owner, "act", lambda original: lambda: original() + 1)
        ours = owner.act
        owner.act = lambda: ours() * 10
        patches.restore()
        assert owner.act() == 20

    def test_what_is_missing_is_a_counted_fault(self) -> None:
        faults = Faults()
        assert not Patches(faults).wrap(SimpleNamespace(), "gone", lambda original: original)
        assert faults.counts == {"hook:gone": 1}


class TestClock:
    @given(st.integers(min_value=0, max_value=10**9), st.integers(min_value=-100, max_value=100))
    def test_drift_between_anchors_is_interpolated(self, at: int, drift: int) -> None:
        clock = Clock()
        clock.previous = Anchor(0, 10**18)
        clock.latest = Anchor(10**9, 10**18 + 10**9 + drift)
        expected = at
        assert abs(clock.to_mono_ns(10**18 + at + round(at / 10**9 * drift)) - expected) <= 2


class TestImportWatch:
    def test_called_after_the_module_ran_and_only_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "watched_module.py").write_text("value = __spec__.loader is __loader__\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        watch = ImportWatch()
        seen: list[bool] = []
        watch.after("watched_module", lambda module: seen.append(module.value))
        importlib.import_module("watched_module")
        assert seen == [True]
        assert watch not in sys.meta_path
        sys.modules.pop("watched_module")

    def test_already_imported_is_called_at_once(self) -> None:
        seen: list[str] = []
        ImportWatch().after("json", lambda module: seen.append(module.__name__))
        assert seen == ["json"]
