"""Small logs written by the real writer, and short ways to look at what became of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.synthetic import EPOCH_NS, process_facts
from xla_insight.facts.events import Event, Kind
from xla_insight.store.reader import open_run
from xla_insight.store.writer import RunWriter

NewWriter = Callable[..., RunWriter]


def syncs(count: int, first: int = 0) -> list[Event]:
    """``count`` sync events, told apart by their time."""
    return [Event(1_000 + first + n, 5, Kind.SYNC, thread=0, name="sync", value=1.0) for n in range(count)]


def definition(site: int = 3) -> Event:
    """A line of code that other events refer to."""
    text = '{"site": ["train.py", 3, "main"], "user_site": ["train.py", 3, "main"], "stack": [["train.py", 3, "main"]]}'
    return Event(1, None, Kind.SITE, site=site, name=text)


def count_syncs(run: Path | str) -> int:
    """How many sync events a reader finds."""
    with open_run(run) as opened:
        return int(opened.sql("select count(*) as n from syncs")["n"][0])


@pytest.fixture
def new_writer(tmp_path: Path) -> NewWriter:
    """Begins a log in ``tmp_path / "run"`` (or at ``run``)."""

    def create(run: Path | str = tmp_path / "run", group: str | None = None, rank: int = 0) -> RunWriter:
        facts = process_facts(rank)
        run_facts = {"command": facts["command"], "started_unix_ns": EPOCH_NS}
        return RunWriter.create(str(run), group=group, run_facts=run_facts, process_facts=facts)

    return create
