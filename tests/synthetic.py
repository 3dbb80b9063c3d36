"""Runs made by hand: plausible logs of training runs, written by the real writer, without torch.

`build_run` writes what a recorder would have written for a `Plan`: steps that cut a graph each, reads, input waits,
executions that overlap the next step, several ranks, hostile names, crashes and torn files. `build_large_run` writes
millions of events in seconds. Times are exact, so that a test can say what a table must hold.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.unit.graph.modules import graph, read
from tests.xspaces import Made, make_session
from xla_insight.facts.events import CacheOutcome, EpochSource, Event, Kind, StepSource, Trigger
from xla_insight.store.folder import enter_run, make_process_folder, replace_json
from xla_insight.store.parts import write_part
from xla_insight.store.schema import EVENT_SCHEMA, OPEN_FILE, PROCESS_FILE, part_name, to_batch
from xla_insight.store.writer import RunWriter

MS = 1_000_000
EPOCH_NS = 1_790_000_000_000_000_000
"""Wall clock at which rank 0 starts."""
MONO_NS = 5_000_000_000_000
"""Monotonic clock of rank 0 at that time; every rank has a clock of its own."""

HOSTILE_SCRIPT = "<script>alert(1)</script>"
HOSTILE_FORMULA = '=HYPERLINK("http://evil.example","click")'
LONG_FOLDER = "/home/me/" + "/".join(f"a_rather_long_folder_name_{number}" for number in range(40))

PROGRAM = 3
"""The compiler's number of the program that runs in a window."""
READ_SITE, SYNC_SITE, UPLOAD_SITE, SAVE_SITE, LOOK_SITE = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Plan:
    """What happens in the run. A step takes ``step_ms``; compiling adds ``compile_ms`` to the step it happens in."""

    steps: int = 14
    pattern: str = "AABBBCB"
    """Which graph each step cuts, repeated over the steps; a graph compiles when it is first cut."""
    step_ms: int = 20
    compile_ms: int = 300
    device_ms: int = 12
    """From dispatch to ready. Longer than what is left of the step: the execution overlaps the next one."""
    reads: bool = True
    """Each step reads a value, which runs a graph of its own and waits for it."""
    input_wait_ms: int = 3
    fallback: str | None = None
    """A counter of CPU fallbacks that rises by one a step (``aten::nonzero``)."""
    save_every: int = 0
    epoch_steps: int = 0
    """Steps of a pass over the data; 0: no end of a pass was seen."""
    ranks: int = 1
    diverges_at: int | None = None
    """From this step on, the last rank cuts a graph of its own."""
    source: StepSource | None = StepSource.CALLBACK
    """Who marks steps; None: nobody."""
    hostile: bool = False
    """Names, paths and messages as an attacker would choose them."""
    ended: str | None = "clean"
    """None: killed; the log ends with the last flush."""
    torn_bytes: int = 0
    """With ``ended=None``: how many bytes are missing at the end of the part being filled."""
    window: tuple[int, int] | None = None
    """Steps of a device window; in it the device is busy from 0.1 ms after each dispatch to 0.05 ms before ready."""
    looks: int = 0
    """How often in each step the training thread is seen at a line that adds up numbers."""
    cached: str = ""
    """Graphs that come from a persistent cache instead of being compiled."""
    flush_every: int = 10
    """Steps."""


def graph_hash(letter: str) -> str:
    """The hash of the graph called ``letter`` in a pattern."""
    return hashlib.md5(letter.encode(), usedforsecurity=False).hexdigest()


def build_run(path: Path | str, plan: Plan | None = None, **changes: Any) -> Path:
    """Write the run of ``plan`` (with ``changes`` applied) to ``path``."""
    plan = replace(plan or Plan(), **changes)
    for rank in range(plan.ranks):
        _build_rank(str(path), plan, rank)
    return Path(path)


def process_facts(rank: int = 0, ranks: int = 1, *, hostile: bool = False) -> dict[str, Any]:
    """What a recorder says about its process."""
    started = EPOCH_NS + rank * 7 * MS
    return {
        "rank": rank,
        "local_rank": rank,
        "world_size": ranks,
        "pid": 4000 + rank,
        "host": "<b>host</b>/../x" if hostile else "node-1",
        "command": ["python", HOSTILE_SCRIPT if hostile else "train.py"],
        "cwd": LONG_FOLDER if hostile else "/home/me",
        "started_unix_ns": started,
        "start_mono_ns": MONO_NS * (rank + 1),
        "wall_anchor_ns": started,
        "device": "CPU",
        "versions": {"python": "3.11", "torch": "2.9.1", "torch_xla": "2.9.0"},
        "environment": {"PJRT_DEVICE": "CPU"},
        "level": "light",
        "capabilities": {"phase": "before_runtime", "events": True, "graph_hash": True, "device_time": "inferred"},
    }


def _build_rank(path: str, plan: Plan, rank: int) -> None:
    facts = process_facts(rank, plan.ranks, hostile=plan.hostile)
    run_facts = {"command": facts["command"], "started_unix_ns": EPOCH_NS, "level": "light"}
    group = "synthetic" if plan.ranks > 1 else None
    writer = RunWriter.create(path, group=group, run_facts=run_facts, process_facts=facts)
    script = _Script(plan, rank)
    writer.append(script.begin())
    for step in range(plan.steps):
        writer.append(script.watched(step))
        if step % plan.flush_every == plan.flush_every - 1:
            writer.flush()
    if plan.window is not None:
        writer.append([script.window(writer)])
    writer.append(script.finish())
    writer.flush()
    if plan.ended is not None:
        writer.close(ended=plan.ended, end_mono_ns=script.now, dropped=0, faults={}, counters=script.totals)
    elif plan.torn_bytes:
        open_part = os.path.join(writer.folder, OPEN_FILE)
        os.truncate(open_part, max(0, os.path.getsize(open_part) - plan.torn_bytes))


class _Script:
    """The events of one process, in order of time."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan = plan
        self.now = MONO_NS * (rank + 1)
        self.totals = {"compiles": 0, "executions": 0, "cache_hits": 0}
        self._own_from = plan.diverges_at if rank == plan.ranks - 1 else None
        self._known: set[str] = set()
        self._start = self.now
        self._executions: list[Event] = []

    def watched(self, step: int) -> list[Event]:
        """One step; what it executes is remembered when it is in the window."""
        events, window = list(self.step(step)), self.plan.window
        if window is not None and window[0] <= step <= window[1]:
            self._executions += [event for event in events if event.kind == Kind.EXECUTION]
        return events

    def window(self, writer: RunWriter) -> Event:
        """The device window, with its session stored."""
        assert self.plan.window is not None
        begin = self._executions[0].time_ns - MS
        work, end = [], 0
        placed = [each for each in graph("optimized").instructions if each.metadata.stack]
        names = [each.name for each in placed if each.metadata.op_type.startswith("aten__")]
        for number, event in enumerate(self._executions):
            ready = event.time_ns + (event.duration_ns or 0)
            starts, ends = max(end, event.time_ns + MS // 10), ready - MS // 20
            name = f"{HOSTILE_SCRIPT}.{number % 3}" if self.plan.hostile else names[number % len(names)]
            if starts < ends:
                work.append(Made(name, starts - begin, ends - begin, name, PROGRAM))
            end = max(end, ready)
        host = [Made("LazyTensor trace", 0, MS // 2), Made("Wait for donation holds", MS, 3 * MS)]
        content = make_session(
            {"pool/1": work, "python": host}, {PROGRAM: read("optimized.hlo.pb")}, EPOCH_NS, line_start_ns=0
        )
        size = writer.write_window("000001", content)
        dims = (EPOCH_NS, *self.plan.window, size or 0)
        return Event(begin, end - begin, Kind.WINDOW, name="000001", value=float(MS), dims=dims)

    def begin(self) -> list[Event]:
        """Definitions and the start mark."""
        known = [
            Event(self.now, None, Kind.THREAD, thread=0, name=HOSTILE_SCRIPT if self.plan.hostile else "MainThread"),
            Event(self.now, None, Kind.CLOCK, dims=(EPOCH_NS,)),
            Event(self.now, None, Kind.MARK, thread=0, name="start"),
        ]
        return known + [Event(self.now, None, Kind.SITE, site=site, name=text) for site, text in self._sites().items()]

    def step(self, step: int) -> Iterator[Event]:
        """One step: wait, upload, read, trace, cut, mark."""
        begin = self.now
        yield from self._inputs(step)
        if self.plan.reads:
            yield from self._cut(Kind.READ, "bool", "mask", READ_SITE, MS)
        yield Event(self.now, 4 * MS, Kind.BACKWARD, thread=0, value=0.0, dims=(0,))
        for look in range(self.plan.looks):
            yield Event(self.now + 4 * MS * look // self.plan.looks, None, Kind.SAMPLE, thread=0, site=LOOK_SITE)
        self.now += 4 * MS
        letter = self.plan.pattern[step % len(self.plan.pattern)]
        if self._own_from is not None and step >= self._own_from:
            letter = f"{letter} of this rank"
        yield from self._cut(Kind.SYNC, Trigger.LOADER, letter, SYNC_SITE, self.plan.device_ms * MS)
        yield Event(self.now, 2 * MS, Kind.COUNTER, name="LazyTracing", value=9.0)
        if self.plan.fallback:
            yield Event(self.now, None, Kind.COUNTER, name=self.plan.fallback, value=1.0)
        if self.plan.save_every and step % self.plan.save_every == self.plan.save_every - 1:
            yield Event(self.now, 30 * MS, Kind.CHECKPOINT, thread=0, site=SAVE_SITE, name="save")
            self.now += 30 * MS
        self.now = max(self.now, begin + self.plan.step_ms * MS)
        if self.plan.source is not None:
            yield Event(self.now, None, Kind.STEP, thread=0, name=self.plan.source, value=float(step))
        if self.plan.epoch_steps and step % self.plan.epoch_steps == self.plan.epoch_steps - 1:
            yield Event(self.now, None, Kind.MARK, thread=0, name="epoch", detail=EpochSource.LOADER)
        self.now += 1

    def finish(self) -> list[Event]:
        """The end mark, and what an interrupted training leaves behind."""
        self.now += 5 * MS
        how = Event(self.now, None, Kind.MARK, thread=0, name="end")
        if not self.plan.hostile:
            return [how]
        message = f"{HOSTILE_FORMULA} {HOSTILE_SCRIPT} \udc80"
        return [
            Event(self.now, None, Kind.LOADER_ERROR, thread=1, site=UPLOAD_SITE, name="ValueError", detail=message),
            Event(self.now, None, Kind.MARK, thread=0, name="exception", detail=f"RuntimeError: {message}"),
            how,
        ]

    def _inputs(self, step: int) -> Iterator[Event]:
        wait = self.plan.input_wait_ms * MS
        yield Event(self.now, wait, Kind.INPUT_WAIT, thread=0, name="ParallelLoader")
        self.now += wait
        width = 64 + 8 * (ord(self.plan.pattern[step % len(self.plan.pattern)]) % 16)
        names = ("input_ids", HOSTILE_FORMULA if self.plan.hostile else "attention_mask")
        for name in names:
            yield Event(self.now, None, Kind.INPUT, None, 0, None, UPLOAD_SITE, name, None, (8, width), "int64")
        yield Event(self.now, MS // 2, Kind.TRANSFER, name="to_device", value=float(2 * 8 * 8 * width))
        self.now += MS

    def _cut(self, kind: Kind, name: str, letter: str, site: int, device_ns: int) -> Iterator[Event]:
        """A sync or a read, with its execution, and its compile when the graph is new."""
        graph, begin = graph_hash(letter), self.now
        trigger = Trigger.READ if kind is Kind.READ else name
        new = graph not in self._known
        self.now += MS // 4
        loaded = new and letter in self.plan.cached.split()
        self._known.add(graph)
        if new and not loaded:
            dims = (20, 5, 4000, 400, 40, 1000, 9000)
            yield Event(begin, None, Kind.GRAPH, graph=graph, site=site, name=trigger, dims=dims)
            sentence = "user torch_xla.sync" if kind is Kind.SYNC else "user code trying to access tensor value"
            compile_ns = self.plan.compile_ms * MS
            yield Event(self.now, compile_ns, Kind.COMPILE, None, 0, graph, site, trigger, None, (begin,), sentence)
            self.now += compile_ns
        outcome = CacheOutcome.PERSISTENT_HIT if loaded else CacheOutcome.COMPILE if new else CacheOutcome.HIT
        yield Event(self.now, device_ns, Kind.EXECUTION, None, None, graph, site, trigger, None, (begin,), outcome)
        self.now += device_ns if kind is Kind.READ else MS // 4
        detail = "False" if kind is Kind.READ else None
        compiled = (int(new and not loaded),)
        yield Event(begin, self.now - begin, kind, None, 0, graph, site, name, 1.0, compiled, detail)
        for fact in ("executions", "persistent_hits" if loaded else "compiles" if new else "cache_hits"):
            self.totals.setdefault(fact, 0)
            self.totals[fact] += 1
            yield Event(self.now, None, Kind.COUNTER, name=fact, value=1.0)

    def _sites(self) -> dict[int, str]:
        script = f"{LONG_FOLDER}/{HOSTILE_SCRIPT}.py" if self.plan.hostile else "/home/me/train.py"
        function = HOSTILE_FORMULA if self.plan.hostile else "main"
        library = "/venv/lib/python3.11/site-packages/transformers/masking_utils.py"
        return {
            READ_SITE: site_text((library, 354, "_ignore_mask"), (script, 31, function), "if mask.all():"),
            SYNC_SITE: site_text((script, 40, function), (script, 40, function), "for batch in loader:"),
            UPLOAD_SITE: site_text((script, 28, function), (script, 28, function), "batch.to(device)"),
            LOOK_SITE: site_text((script, 33, function), (script, 33, function), "norm = sum(numbers)"),
            SAVE_SITE: site_text((script, 55, function), (script, 55, function), "xm.save(model)"),
        }


def site_text(site: tuple[str, int, str], user_site: tuple[str, int, str] | None, source: str) -> str:
    """The ``name`` of a SITE event."""
    stack = [list(site)] + ([list(user_site)] if user_site and user_site != site else [])
    place = {"site": site, "user_site": user_site, "stack": stack, "source": source, "user_source": source}
    return json.dumps(place)


def build_large_run(path: Path | str, steps: int = 100_000, *, steps_a_part: int = 6_500) -> Path:
    """A run of ``steps`` steps with ten events each, written part by part without a Python object an event.

    The graphs are those of `Plan`'s pattern; a step takes 20 ms; nothing compiles after the first step of a graph.
    """
    plan = Plan(steps=1, pattern="A")
    facts = process_facts()
    enter_run(str(path), None, {"command": facts["command"], "started_unix_ns": EPOCH_NS, "level": "light"})
    folder = make_process_folder(str(path), facts)
    parts = {}
    for number, first in enumerate(range(0, steps, steps_a_part), start=1):
        count = min(steps_a_part, steps - first)
        batches = [_many_steps(first, count)]
        if number == 1:
            batches.insert(0, to_batch(_Script(plan, 0).begin())[0])
        parts[part_name(number)] = list(write_part(os.path.join(folder, part_name(number)), batches))
    end = {"ended": "clean", "end_mono_ns": MONO_NS + steps * 20 * MS, "lost": {}, "dropped": 0, "faults": {}}
    replace_json(os.path.join(folder, PROCESS_FILE), {"schema": 1, **facts, **end, "parts": parts})
    return Path(path)


def _many_steps(first: int, count: int) -> pa.RecordBatch:
    """Ten events of each of ``count`` steps: the rows of one kind are one set of columns."""
    step = np.arange(first, first + count, dtype=np.int64)
    chance = np.random.default_rng(first)
    begin = MONO_NS + step * 20 * MS + chance.integers(0, MS // 4, count)
    letters = np.frombuffer(b"AABBBCB", dtype=np.uint8)[step % 7] - ord("A")
    graphs = pa.array([graph_hash(letter) for letter in "ABC"]).take(pa.array(letters))
    jitter = chance.integers(0, MS // 4, count)
    dims = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * count + 1, 2, dtype=np.int32)),
        pa.array(np.stack([np.full(count, 8), 64 + 8 * letters.astype(np.int64)], axis=1).ravel()),
    )
    ones = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), pa.array(np.zeros(count, np.int64)))
    mask = pa.repeat(pa.scalar(graph_hash("mask")), count)
    read = {
        "thread": 0,
        "site": READ_SITE,
        "name": "bool",
        "value": 1.0,
        "graph": mask,
        "dims": ones,
        "detail": "False",
    }
    cut = {"thread": 0, "site": SYNC_SITE, "name": "loader", "value": 1.0, "graph": graphs, "dims": ones}
    hit = {"kind": "execution", "detail": "hit"}
    rows: list[dict[str, Any]] = [
        {"at": 0, "kind": "input_wait", "took": 3 * MS + jitter, "thread": 0, "name": "ParallelLoader"},
        {"at": 4 * MS, "kind": "input", "thread": 0, "site": UPLOAD_SITE, "name": "input_ids", "dims": dims},
        {"at": 4 * MS + 1, "kind": "transfer", "took": MS // 2 + jitter, "name": "to_device", "value": 8192.0},
        {"at": 5 * MS, "kind": "read", "took": MS + jitter, **read},
        {"at": 5 * MS + 5, "took": MS - 9 + jitter, "site": READ_SITE, "name": "read", "graph": mask, **hit},
        {"at": 9 * MS, "kind": "sync", "took": MS // 2 + jitter, **cut},
        {"at": 9 * MS + 5, "took": 12 * MS + jitter, "site": SYNC_SITE, "name": "loader", "graph": graphs, **hit},
        {"at": 18 * MS, "kind": "counter", "name": "executions", "value": 2.0},
        {"at": 18 * MS, "kind": "counter", "name": "cache_hits", "value": 2.0},
        {"at": 19 * MS, "kind": "step", "thread": 0, "name": "callback", "value": step.astype(np.float64)},
    ]
    return pa.concat_batches([_rows(begin, count, row) for row in rows])


def _rows(begin: np.ndarray[Any, np.dtype[np.int64]], count: int, row: dict[str, Any]) -> pa.RecordBatch:
    values = {"time_ns": pa.array(begin + row["at"]), "duration_ns": row.get("took"), **row}
    columns = []
    for field in EVENT_SCHEMA:
        value = values.get(field.name)
        if value is None:
            columns.append(pa.nulls(count, field.type))
        elif isinstance(value, pa.Array | np.ndarray):
            columns.append(pa.array(value).cast(field.type))
        else:
            columns.append(pa.repeat(pa.scalar(value, field.type), count))
    return pa.RecordBatch.from_arrays(columns, schema=EVENT_SCHEMA)
