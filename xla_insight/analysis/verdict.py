"""The one sentence: what limits the run, with the number that proves it and an upper bound of what it would save.

Owns the order in which limits are considered. A limit that can be removed comes before a description of the rest;
compiles that every run needs are no limit. Leaves findings and causes to their modules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xla_insight.analysis.host_lines import most_of_it
from xla_insight.facts import numbers
from xla_insight.facts.report import (
    Finding,
    GraphFacts,
    HostState,
    Recompile,
    RunFacts,
    Severity,
    ShapeFacts,
    StepFacts,
    TimeFacts,
    Verdict,
)

COMPILE_SHARE = 0.1
HOST_SYNC_SHARE = 0.1
CHECKPOINT_SHARE = 0.1
GC_SHARE = 0.1
LATER_EPOCHS_SHARE = 0.1
"""Steps of later epochs wait for less than this share of what those of the first do, when only the first is limited."""
NOTABLE_TRACE_SHARE = 0.1
DEVICE_SHARE = 0.9
WAITING_SHARE = 0.5
WAITING_IDLE_SHARE = 0.3
"""The least share of waits for a device that does nothing."""
_BOUNDS = {
    HostState.COMPILE: ("compile", "Compiling"),
    HostState.DEVICE_WAIT: ("device", "Waiting for the device"),
    HostState.INPUT_WAIT: ("input", "Waiting for input"),
    HostState.TRANSFER: ("transfer", "Moving tensors"),
    HostState.CHECKPOINT: ("checkpoint", "Saving"),
    HostState.GC: ("gc", "Python's garbage collection"),
    HostState.OUTSIDE: ("nothing", "Closing device windows"),
}
"""Bound and words of each state but tracing."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the verdict is drawn from."""

    run: RunFacts
    steps: StepFacts
    graphs: GraphFacts
    recompiles: tuple[Recompile, ...]
    findings: tuple[Finding, ...]
    time: TimeFacts
    shapes: ShapeFacts | None = None

    def share(self, seconds: float | None) -> float:
        """Share (0 to 1) of the main process's wall time; 0 when unknown."""
        return (seconds or 0.0) / self.time.wall_s if self.time.wall_s > 0 else 0.0

    def each(self, seconds: float) -> float:
        """What a sum over all processes is for one of them, on average."""
        return seconds / max(1, self.run.processes)

    def avoidable(self) -> tuple[Recompile, ...]:
        """Recompile entries that are neither expected nor harmless."""
        return tuple(e for e in self.recompiles if not e.expected and e.severity is not Severity.INFO)

    def loud(self, finding_id: str) -> tuple[Finding, ...]:
        """Findings of one id above severity info."""
        return tuple(f for f in self.findings if f.id == finding_id and f.severity is not Severity.INFO)

    def told(self, finding_id: str) -> tuple[Finding, ...]:
        """Findings of one id, whatever their severity."""
        return tuple(f for f in self.findings if f.id == finding_id)

    def host_s(self, state: HostState) -> float:
        """Seconds of the training thread in one state."""
        return self.time.host.get(state, 0.0)


def verdict(evidence: Evidence) -> Verdict:
    """The first limit that applies; the last one always does."""
    rules: tuple[Callable[[Evidence], Verdict | None], ...] = (
        _nothing_recorded,
        _broken,
        _removable,
        _device,
        _trace,
        _start_up,
        _largest,
    )
    return next(found for rule in rules if (found := rule(evidence)) is not None)


def _nothing_recorded(evidence: Evidence) -> Verdict | None:
    if evidence.graphs.executions or evidence.graphs.compiles:
        return None
    if evidence.run.state == "recording":
        return Verdict("nothing", "No graph has been executed yet; the run is still being recorded.", None)
    if evidence.run.failed:
        return Verdict("nothing", "The program ended with an exception before it had executed a graph.", None)
    return Verdict("nothing", "No graph was executed while this was recorded: there is nothing to judge.", None)


def _broken(evidence: Evidence) -> Verdict | None:
    """A run whose data ended in an error, or whose weights do not train, has no speed to speak of."""
    for finding_id in ("loader_error", "stale_parameters"):
        if errors := evidence.loud(finding_id):
            return Verdict(finding_id, errors[0].summary, None)
    return None


def _removable(evidence: Evidence) -> Verdict | None:
    """The largest of the limits that a change would remove."""
    found = [rule(evidence) for rule in (_compile, _input, _host_sync, _checkpoint, _transfer, _gc, _eager)]
    return max((v for v in found if v is not None), key=lambda v: v.saves_s or 0.0, default=None)


def _because(entry: Recompile) -> str:
    """Why an entry compiled again, in a few words; only where it did when that is not known."""
    site = entry.root.get("site") or {}
    if not site or entry.cause == "unknown":
        return f"at {numbers.where(entry.site, entry.user_site)}"
    at = numbers.place(site["file"], site["line"])
    if entry.root.get("input"):
        dimension = entry.root.get("dimension")
        what = "the sizes" if dimension is None else f"dimension {dimension}"
        change = "change" if dimension is None else "changes"
        return f"because {what} of {entry.root['input']} {change} ({site['function']}, {at})"
    return f"because of {entry.cause.replace('_', ' ')} at {at}"


def _compile(evidence: Evidence) -> Verdict | None:
    entries = evidence.avoidable()
    seconds = evidence.each(sum(entry.compile_s for entry in entries))
    if evidence.share(seconds) < COMPILE_SHARE:
        return None
    count = sum(entry.count for entry in entries)
    did = "only repeats" if count == 1 else "only repeat"
    top = max(entries, key=lambda entry: entry.compile_s)
    at = f", most {_because(top)}" if top.site else ""
    if top.cause == "graph_growth" and evidence.loud("missing_sync"):
        at = f"{at}: no sync ends the graph"
    return Verdict(
        "compile",
        f"Compiling again takes {numbers.share(seconds, evidence.time.wall_s)} of this run"
        f" ({numbers.duration(seconds)} of {numbers.duration(evidence.time.wall_s)}): {numbers.count(count)} of"
        f" {numbers.plural(evidence.graphs.compiles, 'compile')} {did}, in another form, what was compiled before{at}.",
        seconds,
    )


def _input(evidence: Evidence) -> Verdict | None:
    found = evidence.loud("input_bound")
    if not found:
        return None
    summary = found[0].summary[:-1]
    if _only_first_epoch(evidence.time):
        count = len(evidence.time.epochs)
        return Verdict(
            "input", f"{summary}: the loader limits the first of {count} epochs, and no other.", found[0].cost_s
        )
    return Verdict("input", f"{summary}: the loader limits this run.", found[0].cost_s)


def _only_first_epoch(time: TimeFacts) -> bool:
    """Whether a step waits for input in the first epoch alone, as when what is loaded is kept; at least one whole epoch
    has to have shown it.
    """
    first, later = time.epochs[:1], time.epochs[1:]
    steps = sum(epoch.steps for epoch in later)
    if not first or steps < first[0].steps:
        return False
    waited_s = sum(epoch.host.get(HostState.INPUT_WAIT, 0.0) for epoch in later)
    first_s = first[0].host.get(HostState.INPUT_WAIT, 0.0)
    return waited_s / steps < LATER_EPOCHS_SHARE * first_s / first[0].steps


def _host_sync(evidence: Evidence) -> Verdict | None:
    found = evidence.loud("host_sync")
    if evidence.loud("missing_sync"):  # what piles up is compiled wherever it is read: that is not the reads' fault
        found = tuple(f for f in found if not f.details.get("compile_s"))
    seconds = evidence.each(sum(f.cost_s or 0.0 for f in found))
    device_idle = 1 - evidence.share(evidence.time.device_busy_s)
    if evidence.share(seconds) < HOST_SYNC_SHARE or device_idle < 1 - DEVICE_SHARE:
        return None
    top = max(found, key=lambda f: f.cost_s or 0.0)
    what, count = _reads_and_waits(found)
    compiled = evidence.each(sum(f.details.get("compile_s") or 0.0 for f in found))
    waited = evidence.each(sum(f.details.get("waited_s", f.cost_s or 0.0) for f in found)) + compiled
    held = f"{numbers.share(waited, evidence.time.wall_s)} of this run ({numbers.duration(waited)},"
    idle_s = evidence.each(sum(f.details.get("device_idle_s") or 0.0 for f in found))
    idle = numbers.share(idle_s, evidence.time.wall_s, inferred=True)
    for_them = f", {numbers.duration(compiled)} of it compiling graphs for them" if compiled else ""
    after = "" if top.details.get("device_idle_s") is None else f" and leaves the device idle for {idle} after that"
    after = f",{after}" if for_them and after else after
    return Verdict(
        "host_sync",
        f"{what} holds the training thread for {held} {count}){for_them}"
        f"{after}, most at {numbers.where(top.site, top.user_site)}; host and device take turns.",
        seconds,
    )


def _reads_and_waits(found: Sequence[Finding]) -> tuple[str, str]:
    """What holds the training thread, and how often."""
    waits = sum(f.count for f in found if "waits" in f.details)
    reads = sum(f.count for f in found) - waits
    words = [
        (reads, "Reading values", numbers.plural(reads, "read")),
        (waits, "Waiting until the device is done", numbers.plural(waits, "wait")),
    ]
    said = [(what, count) for number, what, count in words if number]
    what = " and ".join(what for what, _ in said)
    return what[:1] + what[1:].replace("W", "w"), " and ".join(count for _, count in said)


def _checkpoint(evidence: Evidence) -> Verdict | None:
    found = evidence.loud("checkpoint_stall")
    seconds = sum(f.cost_s or 0.0 for f in found)
    if evidence.share(seconds) < CHECKPOINT_SHARE:
        return None
    return Verdict("checkpoint", f"{found[0].summary[:-1]}: saving limits this run.", seconds)


def _transfer(evidence: Evidence) -> Verdict | None:
    found = evidence.loud("transfer_bound")
    return Verdict("transfer", found[0].summary, found[0].cost_s) if found else None


def _gc(evidence: Evidence) -> Verdict | None:
    found = evidence.loud("gc_pauses")
    if not found or evidence.share(found[0].cost_s) < GC_SHARE:
        return None
    return Verdict("gc", found[0].summary, found[0].cost_s)


def _trace(evidence: Evidence) -> Verdict | None:
    """Only where tracing was seen to starve the device for long enough; else `_largest` describes the run."""
    found = evidence.loud("trace_bound")
    if not found:
        return None
    return Verdict("trace", f"{found[0].summary[:-1]}: Python on the host limits this run.", found[0].cost_s)


def _eager(evidence: Evidence) -> Verdict | None:
    found = evidence.loud("eager_mode")
    return Verdict("eager", found[0].summary, None) if found else None


def _device(evidence: Evidence) -> Verdict | None:
    time = evidence.time
    busy = evidence.share(time.device_busy_s)
    waited_s = evidence.host_s(HostState.DEVICE_WAIT)
    if busy < DEVICE_SHARE and evidence.share(waited_s) < WAITING_SHARE:
        return None
    if evidence.told("transfer_bound"):  # a device that waits for its inputs looks busy
        return None
    idle_s = time.device_idle_by_host_state.get(HostState.DEVICE_WAIT, 0.0)
    if evidence.share(idle_s) >= WAITING_IDLE_SHARE:
        return Verdict(
            "transfer",
            f"The training thread waits for the device {numbers.share(waited_s, time.wall_s, inferred=True)} of the"
            f" time, but that is busy only {numbers.share(time.device_busy_s, time.wall_s, inferred=True)}: it waits"
            " for inputs, which a loader or another thread is still moving to it.",
            idle_s,
        )
    busy_text = numbers.share(time.device_busy_s, time.wall_s, inferred=True)
    if busy >= DEVICE_SHARE:
        return Verdict("device", f"The device limits this run, as it should: it is busy {busy_text} of the time.", 0.0)
    return Verdict(
        "device",
        f"The training thread waits for the device {numbers.share(waited_s, time.wall_s, inferred=True)} of the time"
        f" (the device is busy {busy_text}).",
        None,
    )


def _start_up(evidence: Evidence) -> Verdict | None:
    """A short run is mostly its first compiles, or else what its first steps do once (imports, dynamo's own compiles,
    the first trace), and there is nothing to do about them.
    """
    time, compile_s = evidence.time, evidence.host_s(HostState.COMPILE)
    if evidence.avoidable():
        return None
    if compile_s and compile_s >= max(time.host.values()):
        took = (
            f"{numbers.share(compile_s, time.wall_s)} of this run went into compiles that it needs"
            f" ({numbers.duration(compile_s)} of {numbers.duration(time.wall_s)}){_padding(evidence)}"
        )
    elif time.warm_up is not None and time.warm_up.wall_s >= WAITING_SHARE * time.wall_s:
        steps = time.warm_up.steps
        # What was before the first tensor work belongs to the first step, but not to the run's wall time.
        warm_s = min(time.warm_up.wall_s, time.wall_s - (time.steady.wall_s if time.steady is not None else 0.0))
        took = (
            f"{numbers.share(warm_s, time.wall_s)} of this run went into its first"
            f" {'step' if steps == 1 else numbers.plural(steps, 'step')}, which did once what later steps need not"
            f" ({numbers.duration(warm_s)} of {numbers.duration(time.wall_s)})"
        )
    else:
        return None
    beside = next((f for f in evidence.findings if f.severity is not Severity.INFO), None)
    if missing := evidence.loud("missing_sync"):  # the steps that the run should have are not seen
        return _without_sync(evidence, missing[0])
    if beside is None and evidence.run.failed:
        after = numbers.plural(evidence.steps.count, "step")
        return Verdict("nothing", f"The program ended with an exception after {after}: too early to judge it.", None)
    if beside is None:
        lines = most_of_it(time.host_lines)
        traced_s = evidence.host_s(HostState.TRACE)
        if lines and evidence.share(traced_s) >= NOTABLE_TRACE_SHARE:
            python = f"Python and tracing take {numbers.share(traced_s, time.wall_s, inferred=True)} of it, {lines}"
            return Verdict("nothing", f"Too short to judge its speed: {took}. {python}.", None)
        return Verdict("nothing", f"Nothing to fix so far: {took}.", 0.0)
    return Verdict("nothing", f"Too short to judge its speed: {took}. {_first_clause(beside.summary)}", None)


def _without_sync(evidence: Evidence, found: Finding) -> Verdict:
    """What piles up is compiled and run as one graph: nobody can say that a run needs it."""
    compile_s = evidence.host_s(HostState.COMPILE)
    took = (
        f" Compiling takes {numbers.share(compile_s, evidence.time.wall_s)} of this run"
        f" ({numbers.duration(compile_s)} of {numbers.duration(evidence.time.wall_s)})."
    )
    bound = "compile" if compile_s and compile_s >= max(evidence.time.host.values()) else "nothing"
    return Verdict(bound, f"{found.summary}{took if compile_s else ''}", found.cost_s)


def _first_clause(summary: str) -> str:
    """What was found and how often; the rest stands at the finding."""
    return f"{re.split('[;.] ', summary, maxsplit=1)[0].rstrip('.')}."


def _padding(evidence: Evidence) -> str:
    """What a plan of sizes would still save of compiles that are few and used again, when it is much."""
    shapes = evidence.shapes
    if shapes is None or shapes.plan is None or evidence.share(shapes.saves_s) < COMPILE_SHARE:
        return ""
    return f", of which {shapes.change} would save {numbers.duration(shapes.saves_s, inferred=True)}"


def _largest(evidence: Evidence) -> Verdict:
    """No limit stands out: what the training thread does most."""
    time = evidence.time
    state, seconds = max(time.host.items(), key=lambda item: item[1], default=(str(HostState.TRACE), 0.0))
    busy = numbers.share(time.device_busy_s, time.wall_s, inferred=True)
    device = "" if time.device_busy_s is None else f"; the device is busy {busy} of the time"
    most = (
        f"{numbers.share(seconds, time.wall_s)} of this run"
        f" ({numbers.duration(seconds)} of {numbers.duration(time.wall_s)})"
    )
    took = f"{most}{device}."
    moving = evidence.told("transfer_bound")
    if state == HostState.TRANSFER and moving:
        return Verdict("transfer", moving[0].summary, moving[0].cost_s)
    if state != HostState.TRACE:
        bound, words = _BOUNDS[HostState(state)]
        return Verdict(bound, f"{words} takes most of the training thread's time: {took}", None)
    saves = None
    if time.device_busy_s is not None:
        idle_s = time.wall_s - time.device_busy_s
        saves = max(0.0, min(seconds, time.device_idle_by_host_state.get(HostState.TRACE, idle_s)))
    lines = most_of_it(time.host_lines)
    return Verdict("trace", f"Python and tracing take {most}{f', {lines}' if lines else ''}{device}.", saves)
