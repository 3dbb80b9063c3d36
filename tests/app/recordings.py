"""Runs written event by event, as a recorder would: small true logs for tests of the dashboard."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from xla_insight.facts.events import CacheOutcome, Event, Kind, StepSource, Trigger
from xla_insight.store.writer import RunWriter

MS = 1_000_000
SITE, READ_SITE = 1, 2
USUAL = "a" * 32
"""The hash of the graph that most steps run."""


def graph_hash(number: int) -> str:
    """The hash of the ``number``-th graph: 0 is the usual one."""
    return USUAL if number == 0 else f"{number:06x}".ljust(32, "b")


class Recording:
    """A run being written. Each step reads a value, syncs, and runs one graph; an unseen graph is compiled first."""

    def __init__(self, folder: Path, *, rank: int = 0, group: str | None = None, names: dict[int, str] | None = None):
        self.start_ns = 1_000_000_000
        self.now = self.start_ns
        self.names = names or {}
        self.steps = 0
        self._seen: set[str] = set()
        anchor = time.time_ns()
        self.writer = RunWriter.create(
            str(folder),
            group=group,
            run_facts={"id": folder.name, "command": ["train.py"], "started_unix_ns": anchor, "level": "light"},
            process_facts={
                "rank": rank,
                "local_rank": rank,
                "world_size": 1,
                "pid": 4242 + rank,
                "host": "host",
                "command": ["train.py"],
                "started_unix_ns": anchor,
                "start_mono_ns": self.start_ns,
                "wall_anchor_ns": anchor,
                "device": "CPU",
                "level": "light",
                "capabilities": {},
            },
        )
        self._events = [
            Event(self.now, None, Kind.THREAD, thread=0, name="MainThread"),
            Event(self.now, None, Kind.MARK, name="start"),
            Event(self.now, None, Kind.CLOCK, dims=(anchor,)),
            _site(SITE, "/home/me/bert/train.py", 31, "train", "loss = step(batch)"),
            _site(READ_SITE, "/site-packages/transformers/masking_utils.py", 354, "ignore", "if mask.all():"),
        ]

    def step(self, graph: int = 0, *, compile_ms: int = 500, trace_ms: int = 20, device_ms: int = 60) -> None:
        """One step that runs a graph."""
        name = self.names.get(graph, graph_hash(graph))
        begin = self.now
        cut = begin + trace_ms * MS
        outcome, at = CacheOutcome.HIT, cut
        if name not in self._seen:
            self._seen.add(name)
            outcome, at = CacheOutcome.COMPILE, cut + compile_ms * MS
            self._add(
                cut, 0, Kind.GRAPH, graph=name, site=SITE, name=Trigger.SYNC, dims=(210, 200, 4096, 2048, 0, -1, 9)
            )
            self._add(
                cut, compile_ms * MS, Kind.COMPILE, graph=name, site=SITE, name=Trigger.SYNC, dims=(cut,), thread=0
            )
        done = at + device_ms * MS
        self._add(
            at, device_ms * MS, Kind.EXECUTION, graph=name, site=SITE, name=Trigger.SYNC, detail=outcome, dims=(cut,)
        )
        compiled = int(outcome is CacheOutcome.COMPILE)
        self._add(
            cut, at - cut + MS, Kind.SYNC, graph=name, site=SITE, name=Trigger.SYNC, value=1, dims=(compiled,), thread=0
        )
        self._add(
            at + MS, done - at - MS, Kind.READ, site=READ_SITE, name="bool", value=0, dims=(0,), detail="True", thread=0
        )
        for counter, increase in (("executions", 1), ("compiles", compiled), ("cache_hits", 1 - compiled)):
            if increase:
                self._add(done, None, Kind.COUNTER, name=counter, value=increase)
        self._add(done, None, Kind.STEP, name=StepSource.CALLBACK, value=self.steps, thread=0)
        self.now = done
        self.steps += 1

    def _add(self, time_ns: int, duration_ns: int | None, kind: Kind, **fields: Any) -> None:
        self._events.append(Event(time_ns, duration_ns, kind, **fields))

    def flush(self) -> None:
        """Put everything so far on disk."""
        self.writer.append(self._events)
        self.writer.flush()
        self._events = []

    def end(self, how: str = "clean") -> None:
        """End the recording as a training that finished does."""
        self._add(self.now, None, Kind.MARK, name="end")
        self.flush()
        self.writer.close(ended=how, end_mono_ns=self.now)


def _site(number: int, file: str, line: int, function: str, source: str) -> Event:
    place = [file, line, function]
    user = ["/home/me/bert/train.py", 31, "train"]
    facts = {"site": place, "user_site": user, "stack": [place], "source": source, "user_source": "loss = step(batch)"}
    return Event(0, None, Kind.SITE, site=number, name=json.dumps(facts))


def write_run(folder: Path, steps: int, *, odd_every: int = 10, names: dict[int, str] | None = None) -> Path:
    """A finished run: every ``odd_every``-th step runs one of three other graphs."""
    recording = Recording(folder, names=names)
    for step in range(steps):
        odd = step % odd_every == odd_every - 1
        recording.step(1 + step // odd_every % 3 if odd else 0)
        if step % 10_000 == 9_999:
            recording.flush()
    recording.end()
    return folder
