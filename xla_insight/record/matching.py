"""Which execution ran which graph: joins hooks, debug blocks and metric samples, which arrive apart.

Owns the join. Input, in this order: *checkpoints* taken on the user's threads at the begin and end of every hook (with
the framework's compile counters and the position in the debug file), the *blocks* written between two checkpoints, and
the *samples* of compile and execute times, which arrive later. Output: events. Pure; tested without the framework.

Between two checkpoints the counters say how many graphs ran and how many of them were compiled, the blocks say which.
A graph without a block ran on the autograd thread, where the framework prints nothing. Which execution owns which
sample is left to ``pairing``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xla_insight.facts.events import CacheOutcome, Event, Kind, Trigger
from xla_insight.record import blocks
from xla_insight.record.blocks import Block
from xla_insight.record.modules import Module, assign
from xla_insight.record.pairing import SLACK_NS, Cut, Pairing, Span
from xla_insight.record.stacks import Place

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
class _Owner:
    """To whom the graphs of an interval belong."""

    trigger: Trigger | None
    site: int | None
    cut_ns: int | None


class _News(NamedTuple):
    """What appeared between two checkpoints."""

    written: list[Block]
    modules: Sequence[Module]


class Matcher:
    """Feed it in order; it hands events to ``emit`` and captured graphs to ``keep``, under the id of the graph.
    ``compiled`` hears of each compile in order, with its block when there is one.

    ``intern`` turns printed frames into a site id.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        intern: Callable[[list[Place]], int],
        keep: Callable[[str, Module], None],
        compiled: Callable[[Block | None], None] = lambda block: None,
    ) -> None:
        self._emit = emit
        self._intern = intern
        self._keep = keep
        self._compiled = compiled
        self._open: dict[int, list[_Open]] = {}
        self._previous: Checkpoint | None = None
        self._compiles: deque[Span] = deque()
        self._known_graphs: set[str] = set()
        self._unfinished = _News([], ())
        self.blocks_seen = 0
        self._pairing = Pairing(emit)

    @property
    def waiting(self) -> int:
        """Executions whose sample has not come yet."""
        return len(self._pairing.cuts)

    @property
    def default_trigger(self) -> Trigger:
        """Trigger of a graph that nobody is seen to have cut: `eager` while the framework runs op by op."""
        return self._pairing.default_trigger

    @default_trigger.setter
    def default_trigger(self, trigger: Trigger) -> None:
        self._pairing.default_trigger = trigger

    def add_samples(self, executes: list[Span], compiles: list[Span]) -> None:
        """Samples that became visible since the last call."""
        self._pairing.samples.extend(sorted(executes))
        self._compiles.extend(sorted(compiles))

    def begin_recording(self, first: Checkpoint) -> None:
        """The counters as they stood when recording began."""
        self._previous = first

    def counters_cleared(self) -> None:
        """The user cleared the framework's counters: the next checkpoint counts from zero."""
        if self._previous is not None:
            self._previous = self._previous._replace(hits=0, misses=0)

    def checkpoint(self, now: Checkpoint, written: list[Block], modules: Sequence[Module] = ()) -> None:
        """Account for what ran since the previous checkpoint: the blocks written and modules captured in that time."""
        previous = self._previous or now
        self._previous = now
        stack = self._open.setdefault(now.thread, [])
        enclosing = self._enclosing(now, stack)
        hits = max(0, now.hits - previous.hits)
        misses = max(0, now.misses - previous.misses)
        if hits or misses or written:
            cuts, compiled = self._interval(previous, now, _News(written, modules), (hits, misses))
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
        opened = (
            stack.pop() if stack and stack[-1].begin_ns == end.begin_ns else _Open(now.kind, end.begin_ns, now.site)
        )
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
        self, previous: Checkpoint, now: Checkpoint, news: _News, counts: tuple[int, int]
    ) -> tuple[list[Cut], int]:
        owner = self._owner(previous, now)
        self.blocks_seen += len(news.written)
        spans = self._compile_spans(previous.time_ns, now.time_ns)
        written, modules = self._finished(news, spans, now)
        compile_blocks: list[Block] = []
        cuts: list[Cut] = []
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
        self._emit_compiles(compile_blocks, cuts, spans, owner, self._give_modules(compile_blocks, spans, modules))
        self._pairing.cuts.extend(cuts)
        return cuts, len(spans)

    def _finished(self, news: _News, spans: list[Span], now: Checkpoint) -> _News:
        """Without the graph that another thread is just compiling: its block is written before, its sample after."""
        written, modules = [*self._unfinished.written, *news.written], [*self._unfinished.modules, *news.modules]
        self._unfinished = _News([], ())
        others = any(opened for thread, opened in self._open.items() if thread != now.thread)
        compiling = sum(block.kind == blocks.COMPILATION for block in written) > len(spans)
        if others and compiling and written[-1].kind == blocks.COMPILATION:
            self._unfinished = _News([written.pop()], () if spans else modules)
        return _News(written, modules)

    def _give_modules(self, blocks_: list[Block], spans: list[Span], modules: Sequence[Module]) -> list[Module]:
        """Keep the modules of graphs with a name; those left over belong to compiles without one."""
        if not modules or not spans:
            return []
        given, left = assign(blocks_, modules)
        for index, module in given.items():
            graph = blocks_[index].graph
            if graph is not None:
                self._keep(graph, module)
        return left

    def _cut(self, block: Block, owner: _Owner, previous: Checkpoint, now: Checkpoint) -> Cut:
        trigger = owner.trigger or _trigger_of(block.sentence)
        forced = owner.trigger is None
        site = owner.site
        if (forced or site is None) and block.frames:
            site = self._intern(list(block.frames))
        return Cut(
            block.graph,
            trigger,
            site,
            CacheOutcome.HIT,
            owner.cut_ns,
            previous.time_ns,
            now.time_ns,
            forced,
            now.thread,
        )

    def _blockless(
        self,
        cuts: list[Cut],
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
        seen_hits = sum(cut.outcome is CacheOutcome.HIT and cut.trigger is not Trigger.DYNAMO_EXECUTE for cut in cuts)
        unseen_hits = max(0, hits - seen_hits)
        trigger = owner.trigger or self.default_trigger
        for index in range(unseen_misses + unseen_hits):
            outcome = CacheOutcome.COMPILE if index < unseen_misses else CacheOutcome.HIT
            cuts.append(
                Cut(
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
        self, compile_blocks: list[Block], cuts: list[Cut], spans: list[Span], owner: _Owner, unnamed: list[Module]
    ) -> None:
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
            self._compiled(block)
            self._emit_compile(span, block.graph, trigger, site, block.sentence, cut.cut_ns if cut else owner.cut_ns)
        hidden = [cut for cut in cuts if cut.graph is None and cut.outcome is CacheOutcome.COMPILE]
        while waiting:
            span = waiting.popleft()
            owned = hidden.pop(0) if hidden else None
            if owned is not None and owned.forced and owned.cut_ns is None:
                owned.cut_ns = span.start_ns
            trigger = owned.trigger if owned else owner.trigger or self.default_trigger
            sentence = "no Python frame (autograd thread)" if trigger is Trigger.AUTOGRAD else ""
            graph = self._unnamed(unnamed, trigger)
            self._compiled(None)
            self._emit_compile(span, graph, trigger, owner.site, sentence, owned.cut_ns if owned else owner.cut_ns)

    def _unnamed(self, modules: list[Module], trigger: Trigger) -> str | None:
        """The id of the next graph without a name. Operations that run one by one are no graphs to compare."""
        if not modules or Trigger.EAGER in (trigger, self.default_trigger):
            return None
        module = modules.pop(0)
        self._keep(module.unnamed_id, module)
        return module.unnamed_id

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

    def pair(self) -> None:
        """Give waiting executions their samples, as far as that is certain."""
        self._pairing.pair()

    def finish(self) -> None:
        """The recording ended: what still waits is emitted without its other half."""
        for span in self._compiles:
            self._emit_compile(span, None, Trigger.UNKNOWN, None, "", None)
        self._compiles.clear()
        self._pairing.finish()


def _trigger_of(sentence: str) -> Trigger:
    return next((trigger for text, trigger in _SENTENCES if text in sentence), Trigger.UNKNOWN)
