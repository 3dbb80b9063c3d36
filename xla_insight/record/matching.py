"""Which execution ran which graph: joins hooks, debug blocks and metric samples, which arrive apart.

Owns the join. Input, in this order: *checkpoints* taken on the user's threads at the begin and end of every hook (with
the framework's compile counters and the position in the debug file), the *blocks* written between two checkpoints, and
the *samples* of compile and execute times, which arrive later. Output: events. Pure; tested without the framework.

Between two checkpoints the counters say how many graphs ran and how many of them were compiled, the blocks say which.
A graph without a block ran on the autograd thread, where the framework prints nothing. Executions are dispatched in
order, so the n-th execution owns the n-th sample by start; bounds of the checkpoints correct it when one is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from xla_insight.facts.events import CacheOutcome, Event, Kind, Trigger
from xla_insight.record import blocks
from xla_insight.record.blocks import Block
from xla_insight.record.stacks import Place

SLACK_NS = 1_000_000
"""Tolerance between the two clocks and for the order of code around a sample."""

_SENTENCES = (
    ("dynamo is compiling", Trigger.DYNAMO_COMPILE),
    ("dynamo is executing", Trigger.DYNAMO_EXECUTE),
    ("parallel loader", Trigger.LOADER),
    ("StepTrace", Trigger.STEP_TRACE),
    ("access tensor value", Trigger.FORCED),
    ("torch_xla.compile", Trigger.COMPILED_FUNCTION),
    ("clear the pending graph", Trigger.COMPILED_FUNCTION),
    ("torch_xla.sync", Trigger.SYNC),
    ("mark_step", Trigger.SYNC),
)


class Span(NamedTuple):
    """A measured time: start and duration, monotonic ns."""

    start_ns: int
    duration_ns: int

    @property
    def end_ns(self) -> int:
        """First instant after it."""
        return self.start_ns + self.duration_ns


class Checkpoint(NamedTuple):
    """One look at the framework from a hook. ``end`` is None at the begin of a hook."""

    time_ns: int
    thread: int
    hits: int
    misses: int
    kind: str
    site: int | None
    end: HookEnd | None


class HookEnd(NamedTuple):
    """What a hook knows when it ends."""

    begin_ns: int
    name: str
    detail: str | None


@dataclass(slots=True)
class _Open:
    kind: str
    begin_ns: int
    site: int | None
    executed: int = 0
    compiled: int = 0
    graph: str | None = None


@dataclass(slots=True)
class _Cut:
    graph: str | None
    trigger: Trigger
    site: int | None
    outcome: CacheOutcome | None
    cut_ns: int | None
    low_ns: int
    high_ns: int
    forced: bool
    thread: int
    inner: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class _Owner:
    """To whom the graphs of an interval belong."""

    trigger: Trigger | None
    site: int | None
    cut_ns: int | None


class Matcher:
    """Feed it in order; it hands events to ``emit``. ``intern`` turns printed frames into a site id."""

    def __init__(self, emit: Callable[[Event], None], intern: Callable[[list[Place]], int]) -> None:
        self._emit = emit
        self._intern = intern
        self._open: dict[int, list[_Open]] = {}
        self._previous: Checkpoint | None = None
        self._cuts: deque[_Cut] = deque()
        self._executes: deque[Span] = deque()
        self._compiles: deque[Span] = deque()
        self._known_graphs: set[str] = set()
        self.blocks_seen = 0
        self.default_trigger = Trigger.UNKNOWN
        """Trigger of a graph that nobody is seen to have cut: `eager` while the framework runs op by op."""

    @property
    def waiting(self) -> int:
        """Executions whose sample has not come yet."""
        return len(self._cuts)

    def add_samples(self, executes: list[Span], compiles: list[Span]) -> None:
        """Samples that became visible since the last call."""
        self._executes.extend(sorted(executes))
        self._compiles.extend(sorted(compiles))

    def begin_recording(self, first: Checkpoint) -> None:
        """The counters as they stood when recording began."""
        self._previous = first

    def counters_cleared(self) -> None:
        """The user cleared the framework's counters: the next checkpoint counts from zero."""
        if self._previous is not None:
            self._previous = self._previous._replace(hits=0, misses=0)

    def checkpoint(self, now: Checkpoint, written: list[Block]) -> None:
        """Account for what ran between the previous checkpoint and ``now``; ``written`` are the blocks of that time."""
        previous = self._previous or now
        self._previous = now
        stack = self._open.setdefault(now.thread, [])
        enclosing = self._enclosing(now, stack)
        hits = max(0, now.hits - previous.hits)
        misses = max(0, now.misses - previous.misses)
        if hits or misses or written:
            cuts, compiled = self._interval(previous, now, written, (hits, misses))
            if enclosing is not None:
                enclosing.executed += len(cuts)
                enclosing.compiled += compiled
                enclosing.graph = next((cut.graph for cut in reversed(cuts) if cut.graph), enclosing.graph)
        if now.end is None:
            if now.kind == Kind.SYNC and stack and stack[-1].kind == Kind.SYNC:
                stack.pop()  # the earlier sync raised: its end never came
            stack.append(_Open(now.kind, now.time_ns, now.site))
        else:
            self._close(now, now.end, stack)
        self.pair()

    def _enclosing(self, now: Checkpoint, stack: list[_Open]) -> _Open | None:
        if stack:
            return stack[-1]
        # Graphs that ran in the autograd thread are seen from a hook of that thread: they belong to the backward call.
        others = (item for opened in self._open.values() for item in reversed(opened))
        return next((item for item in others if item.kind == Kind.BACKWARD), None)

    def _close(self, now: Checkpoint, end: HookEnd, stack: list[_Open]) -> None:
        while stack and stack[-1].begin_ns > end.begin_ns:
            stack.pop()
        opened = stack.pop() if stack and stack[-1].begin_ns == end.begin_ns else _Open(now.kind, end.begin_ns, now.site)
        if now.kind == Kind.BACKWARD and not opened.executed:
            return
        self._emit(
            Event(
                end.begin_ns,
                now.time_ns - end.begin_ns,
                now.kind,
                thread=now.thread,
                graph=opened.graph,
                site=now.site,
                name=end.name,
                value=float(opened.executed),
                dims=(opened.compiled,),
                detail=end.detail,
            )
        )

    def _owner(self, previous: Checkpoint, now: Checkpoint) -> _Owner:
        stack = self._open.get(now.thread, [])
        if now.end is not None and stack and stack[-1].begin_ns == now.end.begin_ns:
            trigger = {Kind.READ: Trigger.READ, Kind.BACKWARD: Trigger.AUTOGRAD}.get(Kind(now.kind))
            return _Owner(trigger or Trigger(now.end.name), now.site, now.end.begin_ns)
        enclosing = self._enclosing(now, stack)
        if enclosing is not None and enclosing.kind == Kind.BACKWARD:
            return _Owner(Trigger.AUTOGRAD, enclosing.site, enclosing.begin_ns)
        return _Owner(None, None, None)

    def _interval(
        self, previous: Checkpoint, now: Checkpoint, written: list[Block], counts: tuple[int, int]
    ) -> tuple[list[_Cut], int]:
        owner = self._owner(previous, now)
        self.blocks_seen += len(written)
        spans = self._compile_spans(previous.time_ns, now.time_ns)
        compile_blocks: list[Block] = []
        cuts: list[_Cut] = []
        for index, block in enumerate(written):
            if block.kind == blocks.COMPILATION:
                compile_blocks.append(block)
                memory = next((b for b in written[index + 1 : index + 2] if b.kind == blocks.MEMORY), None)
                self._define(block, owner, now.time_ns, memory)
            elif block.kind == blocks.EXECUTION:
                self._define(block, owner, now.time_ns, None)
                cuts.append(self._cut(block, owner, previous, now))
        fresh = [block.graph for block in compile_blocks]
        for cut in cuts:
            if cut.graph in fresh:
                fresh.remove(cut.graph)
                cut.outcome = CacheOutcome.COMPILE
        self._blockless(cuts, len(compile_blocks), owner, previous, now, (*counts, len(spans)))
        compiled = self._emit_compiles(compile_blocks, cuts, spans, owner, now)
        self._cuts.extend(cuts)
        return cuts, compiled

    def _cut(self, block: Block, owner: _Owner, previous: Checkpoint, now: Checkpoint) -> _Cut:
        trigger = owner.trigger or _trigger_of(block.sentence)
        forced = owner.trigger is None
        site = owner.site
        if (forced or site is None) and block.frames:
            site = self._intern(list(block.frames))
        return _Cut(
            block.graph, trigger, site, CacheOutcome.HIT, owner.cut_ns, previous.time_ns, now.time_ns, forced, now.thread
        )

    def _blockless(
        self,
        cuts: list[_Cut],
        compile_blocks: int,
        owner: _Owner,
        previous: Checkpoint,
        now: Checkpoint,
        counts: tuple[int, int, int],
    ) -> None:
        """Graphs that the counters saw and the file did not."""
        hits, misses, compiled = counts
        # A miss without a compile sample is none: dynamo's bridge moves that counter by hand.
        unseen_misses = max(0, min(misses, compiled) - compile_blocks)
        # Executions of dynamo move no counter, so they must not hide graphs that do.
        seen_hits = sum(
            cut.outcome is CacheOutcome.HIT and cut.trigger is not Trigger.DYNAMO_EXECUTE for cut in cuts
        )
        unseen_hits = max(0, hits - seen_hits)
        trigger = owner.trigger or self.default_trigger
        for index in range(unseen_misses + unseen_hits):
            outcome = CacheOutcome.COMPILE if index < unseen_misses else CacheOutcome.HIT
            cuts.append(
                _Cut(
                    None,
                    trigger,
                    owner.site,
                    outcome,
                    owner.cut_ns,
                    previous.time_ns,
                    now.time_ns,
                    owner.trigger is None,
                    now.thread,
                )
            )

    def _compile_spans(self, low_ns: int, high_ns: int) -> list[Span]:
        """Compile samples that ended in the interval; earlier ones belong to no hook and are emitted as they are."""
        found = []
        while self._compiles and self._compiles[0].end_ns <= high_ns + SLACK_NS:
            span = self._compiles.popleft()
            if span.end_ns < low_ns - SLACK_NS:
                self._emit_compile(span, None, Trigger.UNKNOWN, None, "", None)
            else:
                found.append(span)
        return found

    def _emit_compiles(
        self, compile_blocks: list[Block], cuts: list[_Cut], spans: list[Span], owner: _Owner, now: Checkpoint
    ) -> int:
        waiting = deque(spans)
        for block in compile_blocks:
            cut = next((c for c in cuts if c.graph == block.graph and c.outcome is CacheOutcome.COMPILE), None)
            if not waiting:
                if cut is not None:
                    cut.outcome = CacheOutcome.PERSISTENT_HIT
                continue
            span = waiting.popleft()
            site = cut.site if cut else owner.site
            if site is None and block.frames:
                site = self._intern(list(block.frames))
            if cut is not None and cut.forced and cut.cut_ns is None:
                cut.cut_ns = span.start_ns
            trigger = cut.trigger if cut else owner.trigger or _trigger_of(block.sentence)
            self._emit_compile(span, block.graph, trigger, site, block.sentence, cut.cut_ns if cut else owner.cut_ns)
        hidden = [cut for cut in cuts if cut.graph is None and cut.outcome is CacheOutcome.COMPILE]
        while waiting:
            span = waiting.popleft()
            owned = hidden.pop(0) if hidden else None
            if owned is not None and owned.forced and owned.cut_ns is None:
                owned.cut_ns = span.start_ns
            trigger = owned.trigger if owned else owner.trigger or self.default_trigger
            sentence = "no Python frame (autograd thread)" if trigger is Trigger.AUTOGRAD else ""
            self._emit_compile(span, None, trigger, owner.site, sentence, owned.cut_ns if owned else owner.cut_ns)
        return len(spans)

    def _emit_compile(
        self, span: Span, graph: str | None, trigger: Trigger, site: int | None, sentence: str, cut_ns: int | None
    ) -> None:
        dims = None if cut_ns is None else (cut_ns,)
        self._emit(
            Event(
                span.start_ns, span.duration_ns, Kind.COMPILE, graph=graph, site=site, name=trigger, dims=dims,
                detail=sentence or None,
            )
        )  # fmt: skip

    def _define(self, block: Block, owner: _Owner, when_ns: int, memory: Block | None) -> None:
        if block.graph is None or block.graph in self._known_graphs:
            return
        self._known_graphs.add(block.graph)
        site = owner.site
        if site is None and block.frames:
            site = self._intern(list(block.frames))
        sizes = memory.sizes if memory and memory.sizes else (-1,) * 5
        self._emit(
            Event(
                when_ns,
                None,
                Kind.GRAPH,
                graph=block.graph,
                site=site,
                name=owner.trigger or _trigger_of(block.sentence),
                dims=(block.inputs, block.outputs, *sizes),
            )
        )

    def pair(self, final: bool = False) -> None:
        """Give waiting executions their samples. ``final``: no more will come, so a surplus of executions has none."""
        while self._executes and self._cuts:
            sample, cut = self._executes[0], self._cuts[0]
            if sample.start_ns < cut.low_ns - SLACK_NS:
                self._executes.popleft()
                self._emit_execution(None, sample)
            elif self._has_no_sample(cut, sample, final):
                self._cuts.popleft()
                self._emit_execution(cut, None)
            else:
                self._executes.popleft()
                self._cuts.popleft()
                self._emit_execution(cut, sample)

    def _has_no_sample(self, cut: _Cut, sample: Span, final: bool) -> bool:
        # A dispatch may be late, but it comes before the hook of the next execution is over.
        if len(self._cuts) > 1 and sample.start_ns > self._cuts[1].high_ns + SLACK_NS:
            return True
        return final and len(self._cuts) > len(self._executes) and sample.start_ns > cut.high_ns + SLACK_NS

    def finish(self) -> None:
        """The recording ended: what still waits is emitted without its other half."""
        self.pair(final=True)
        for span in self._compiles:
            self._emit_compile(span, None, Trigger.UNKNOWN, None, "", None)
        for sample in self._executes:
            self._emit_execution(None, sample)
        for cut in self._cuts:
            self._emit_execution(cut, None)
        self._compiles.clear()
        self._executes.clear()
        self._cuts.clear()

    def _emit_execution(self, cut: _Cut | None, sample: Span | None) -> None:
        start_ns = sample.start_ns if sample else (cut.low_ns if cut else 0)
        cut_ns = cut.cut_ns if cut else None
        if cut is not None and cut.forced:
            cut_ns = start_ns if cut_ns is None else cut_ns
            if cut.trigger is not Trigger.EAGER:  # an operation run alone is no cut of a lazy graph
                self._emit_forced(cut, cut_ns)
        self._emit(
            Event(
                start_ns,
                sample.duration_ns if sample else None,
                Kind.EXECUTION,
                graph=cut.graph if cut else None,
                site=cut.site if cut else None,
                name=cut.trigger if cut else self.default_trigger,
                dims=None if cut_ns is None else (cut_ns,),
                detail=cut.outcome if cut else None,
            )
        )

    def _emit_forced(self, cut: _Cut, when_ns: int) -> None:
        compiled = int(cut.outcome is CacheOutcome.COMPILE)
        self._emit(
            Event(
                when_ns, None, Kind.SYNC, thread=cut.thread, graph=cut.graph, site=cut.site, name=cut.trigger,
                value=1.0, dims=(compiled,),
            )
        )  # fmt: skip


def _trigger_of(sentence: str) -> Trigger:
    return next((trigger for text, trigger in _SENTENCES if text in sentence), Trigger.UNKNOWN)
