"""Which device ran when: from who gave which piece of work to whom, and only where every piece was seen."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.xspaces import Made, make_session
from xla_insight.analysis.device_busy import measured_sentence
from xla_insight.analysis.windows.each_device import device_runs
from xla_insight.facts.devices import MeasuredDevice
from xla_insight.facts.xspace import read_handoffs, read_space

Runs = tuple[tuple[tuple[int, int], ...], ...]
LONG = 1_000


def executions(ends: Sequence[Sequence[int]], seed: int = 1, helped: bool = False) -> dict[str, list[Made]]:
    """Threads of as many executions, one after the other, as XLA:CPU has them; ``ends[e][d]``: ns that device d ran in
    execution e. The thread of a device is drawn anew each time; with ``helped`` another one runs the program."""
    chance = random.Random(seed)
    devices = len(ends[0])
    threads: dict[str, list[Made]] = {"main": [], **{f"pool/{n}": [] for n in range(devices)}, "helper": []}
    number = 0
    for place, lengths in enumerate(ends):
        at = 10 + place * LONG
        order = chance.sample(range(devices), devices)
        threads["main"].append(Made("PjRtCpuExecutable::Execute", at, at + 100))
        for device, length in enumerate(lengths):
            own = threads[f"pool/{order[device]}"]
            begin = at + 50 + 2 * order[device]
            threads["main"].append(Made("give", at + 1 + device, at + 1 + device, given=number))
            own.append(Made("take", begin - 1, begin - 1, taken=number))
            own.append(Made("PjRtCpuExecutable::ExecuteHelper", begin, begin + 10))
            own.append(Made("leave", begin + 5, begin + 5, given=number + 1))
            runs = threads["helper"] if helped and device == 0 else own
            runs.append(Made("later", begin + 11, begin + 11, taken=number + 1))
            runs.append(Made("ThunkExecutor::Execute", begin + 12, begin + 20))
            runs.append(Made("ThunkExecutor::Execute (wait for completion)", begin + 20, begin + 20 + length))
            number += 2
    return threads


def runs_of(threads: dict[str, list[Made]], devices: int) -> Runs:
    content = make_session(threads, line_start_ns=0)
    return device_runs(read_space(content), read_handoffs(content), devices)


def lengths_of(runs: Runs) -> list[list[int]]:
    return [[end - begin - 20 for begin, end in own] for own in runs]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 400), min_size=3, max_size=3), min_size=1, max_size=5),
    st.integers(),
    st.booleans(),
)
def test_each_device_has_its_own_runs(ends: list[list[int]], seed: int, helped: bool) -> None:
    runs = runs_of(executions(ends, seed, helped), 3)
    assert lengths_of(runs) == [list(own) for own in zip(*ends, strict=True)]


def test_an_execution_of_which_a_piece_is_missing_counts_for_no_device() -> None:
    threads = executions([[10, 20], [30, 40], [50, 60]])
    lost = next(span for span in threads["pool/0"] if span.name == "take" and span.start_ns > LONG)
    threads["pool/0"].remove(lost)
    assert lengths_of(runs_of(threads, 2)) == [[10, 50], [20, 60]]


def test_where_devices_are_not_told_apart_nothing_is_said() -> None:
    assert runs_of(executions([[10, 20]]), 4) == (), "two pieces are not four devices"
    assert runs_of({"python": [Made("Wait", 0, 5)]}, 2) == ()
    without = {name: [span for span in own if span.name != "PjRtCpuExecutable::ExecuteHelper"]
               for name, own in executions([[10, 20]]).items()}  # fmt: skip
    assert runs_of(without, 2) == ()


def measured(name: str, busy_s: float) -> MeasuredDevice:
    return MeasuredDevice(0, 0, name, 3, 2.0, busy_s)


def test_the_sentence_names_who_has_least_to_do() -> None:
    assert measured_sentence(()) == ""
    even = measured_sentence([measured("CPU:0", 1.0), measured("CPU:1", 1.01)])
    assert even == "In device windows (2 s) each single device ran programs for 50 % of the time."
    uneven = measured_sentence([measured("CPU:0", 1.8), measured("CPU:1", 1.0)])
    assert uneven == (
        "In device windows (2 s) single devices ran programs for 50 to 90 % of the time, CPU:1 the least."
    )
