"""Events to Arrow: every value that fits is kept as it is, and no bad value costs its neighbours."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from xla_insight.facts.events import Event, Kind
from xla_insight.store.schema import EVENT_SCHEMA, part_name, part_number, to_batch

whole = st.integers(-(2**63), 2**63 - 1)
small = st.none() | st.integers(-(2**31), 2**31 - 1)
text = st.none() | st.text(max_size=30)
events = st.builds(
    Event,
    time_ns=whole,
    duration_ns=st.none() | whole,
    kind=st.sampled_from(list(Kind)),
    step=small,
    thread=small,
    graph=text,
    site=small,
    name=text,
    value=st.none() | st.floats(allow_nan=False),
    dims=st.none() | st.lists(whole, max_size=4).map(tuple),
    detail=text,
)


@given(st.lists(events, max_size=20))
def test_a_batch_holds_the_events_as_they_are(rows: list[Event]) -> None:
    batch, left_out = to_batch(rows)
    batch.validate(full=True)
    assert left_out == 0
    assert batch.schema.equals(EVENT_SCHEMA)
    found = [Event(**{**row, "dims": None if row["dims"] is None else tuple(row["dims"])}) for row in batch.to_pylist()]
    assert found == rows


def test_text_that_is_not_unicode_keeps_its_readable_part() -> None:
    batch, left_out = to_batch(
        [Event(1, None, Kind.MARK, detail="caf\udce9.py"), Event(2, None, Kind.MARK, detail="é")]
    )
    assert left_out == 0
    assert batch["detail"].to_pylist() == ["caf?.py", "é"]


def test_an_event_that_fits_no_column_is_left_out_and_counted() -> None:
    rows = [Event(1, None, Kind.SYNC), Event(2, None, Kind.SYNC, step=2**40), Event(3, None, Kind.SYNC, name=7)]  # type: ignore[arg-type]
    batch, left_out = to_batch(rows)
    assert left_out == 2
    assert batch["time_ns"].to_pylist() == [1]


def test_writing_loads_no_pandas() -> None:
    """pyarrow imports it by itself on the first `pyarrow.array`; a training process must not pay for that."""
    program = """
import sys, tempfile
from xla_insight.facts.events import Event, Kind
from xla_insight.store.writer import RunWriter
writer = RunWriter.create(tempfile.mkdtemp() + "/run", group=None, run_facts={}, process_facts={"rank": 0})
writer.append([Event(1, 2, Kind.SYNC, dims=(1, 2), name="sync", value=1.0), Event(2, None, Kind.MARK)])
writer.flush()
writer.close(ended="clean")
assert writer.lost == {}
print([name for name in ("pandas", "duckdb", "fsspec") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_part_names() -> None:
    assert part_name(12) == "part-000012.parquet"
    assert part_number("part-000012.parquet") == part_number("part-000012.arrows") == 12
    names = (
        "part-12.parquet",
        "part-000012.parquet.tmp",
        "part-0000x2.parquet",
        "open.arrows",
        "part-000012.parquet\n",
    )
    assert [part_number(name) for name in names] == [None] * 5
