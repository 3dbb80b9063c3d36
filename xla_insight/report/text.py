"""The report for a terminal: the verdict, the key figures, what costs most, and what is missing from the data.

Owns layout and shapes of severity. Shows the sentences of ``analysis`` unchanged. All text that comes from a recording
is treated as plain text, never as markup, and control characters in it are made visible.
"""

from __future__ import annotations

import io
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Period, Recompile, Report, Severity
from xla_insight.report import text_bars
from xla_insight.report.devices import checkpoint_lines, device_lines

LISTED = 8
PLAIN_WIDTH = 80
MAX_WIDTH = 110
SHAPES = {Severity.CRITICAL: "▲", Severity.WARNING: "◆", Severity.INFO: "·"}
_ASCII_SHAPES = {
    "▲": "!", "◆": "*", "·": "-", "…": "...", numbers.THIN_SPACE: " ", "µ": "u", "—": "-", "→": "->",
    "▸": ">", "◀": "<", "│": "|", text_bars.BUSY: "#",
}  # fmt: skip
STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
_INFERRED_NOTE = "~ inferred from dispatch and ready times, not measured."
_BAR_WIDTH = 64
_MESSAGE = 400
_LINE_BREAKS = re.compile(r"[\t\r\n\v\f]+")
_Entry = Recompile | Finding


def print_report(report: Report, stream: TextIO | None = None, width: int | None = None) -> None:
    """Write the report to ``stream`` (default: stdout); coloured only on a terminal, plain lines elsewhere."""
    target = stream if stream is not None else sys.stdout
    write_parts(_sections(report, target.isatty()), target, width)


def write_parts(parts: Iterable[RenderableType], target: TextIO, width: int | None = None) -> None:
    """Write what rich can lay out: coloured only on a terminal, plain lines elsewhere, in the stream's encoding."""
    terminal = target.isatty()
    console = Console(
        file=io.StringIO(),
        width=width or _width(target),
        force_terminal=terminal,
        force_jupyter=False,  # in a notebook rich would show an output of its own beside the text
        color_system="auto" if terminal else None,
        emoji=False,
        markup=False,
        highlight=False,
    )
    console.print(Group(*parts))
    text = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]
    target.write(encodable(text, target) + "\n")


def render_text(report: Report, width: int = PLAIN_WIDTH) -> str:
    """The plain report as text, ``width`` columns wide."""
    buffer = io.StringIO()
    print_report(report, buffer, width)
    return buffer.getvalue()


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most ``width`` columns; words longer than that (paths) are cut."""
    lines = textwrap.wrap(text.replace(" %", "\u00a0%"), width, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines] or [""]


def encodable(text: str, stream: TextIO) -> str:
    """``text`` as far as the stream's encoding can carry it: shapes and spaces become ASCII where it cannot."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        for shape, plain in _ASCII_SHAPES.items():
            text = text.replace(shape, plain)
        return text.encode(encoding, "replace").decode(encoding)
    return text


def _width(stream: TextIO) -> int:
    return min(MAX_WIDTH, Console(file=stream).width) if stream.isatty() else PLAIN_WIDTH


def _sections(report: Report, terminal: bool) -> Iterator[RenderableType]:
    yield _verdict(report, terminal)
    yield _figures(report)
    if report.shapes is not None and report.shapes.plan:
        summary = plain_line(f"{report.shapes.summary} See: xla-insight shapes {report.run.path}")
        yield hanging("shapes  ", Text(summary), "dim")
    for label, lines in (("devices ", device_lines(report)), ("saving  ", checkpoint_lines(report))):
        said = plain_line(" ".join(lines))
        if said:
            yield hanging(label, Text(said), "dim")
    entries = _ranked(report)
    if entries:
        yield Text("\nWhat costs most", style="bold")
        for rank, entry in enumerate(entries[:LISTED], start=1):
            yield _entry(rank, entry, report)
        if len(entries) > LISTED:
            yield Text(f"   and {numbers.plural(len(entries) - LISTED, 'more entry', 'more entries')} in --json")
    missing = list(_missing(report))
    if missing:
        yield Text("\nMissing from the data", style="bold")
        yield from (hanging("  ", Text(sentence)) for sentence in missing)
    if report.time.device_busy_s is not None:
        yield Text(f"\n{_INFERRED_NOTE}", style="dim")


def _verdict(report: Report, terminal: bool) -> RenderableType:
    sentence = plain_line(report.verdict.summary)
    lines = [Text(sentence, style="bold")]
    if report.verdict.saves_s:
        lines.append(Text(f"Removing it saves at most {numbers.duration(report.verdict.saves_s)}."))
    run = report.run
    lines.extend(Text(f"Training ended with {_cut(plain_line(text))}") for text in run.exceptions)
    name = plain_line(run.path.rstrip("/").rsplit("/", 1)[-1] or run.id)
    title = f"{name} · {run.state}" if run.state != "ended" else name
    if terminal:
        return Panel(Group(*lines), title=Text(title), title_align="left", box=box.ROUNDED, padding=(0, 1))
    return Group(Text(title), *lines)


def _cut(text: str) -> str:
    """A message of a library can be pages long; all of it is in the JSON."""
    return text if len(text) <= _MESSAGE else f"{text[:_MESSAGE]}…"


def _figures(report: Report) -> RenderableType:
    graphs, time, steps = report.graphs, report.time, report.steps
    median = None if steps.median_ms is None else steps.median_ms / 1e3
    high = None if steps.p95_ms is None else steps.p95_ms / 1e3
    step_text = f"{numbers.count(steps.count)}{' (inferred)' if steps.inferred and steps.count else ''}"
    rows = [
        ("wall", numbers.duration(time.wall_s or None), "steps", step_text),
        ("step, median", numbers.duration(median), "step, 95 %", numbers.duration(high)),
        ("graphs", numbers.count(graphs.distinct), "executions", numbers.count(graphs.executions)),
        ("compiles", _with_time(graphs.compiles, graphs.compile_s), "cache hits", numbers.count(graphs.cache_hits)),
        ("device busy", numbers.share(time.device_busy_s, time.wall_s, inferred=True), "overlap", _overlap(report)),
        ("ranks", numbers.count(report.run.ranks), "level", plain_line(report.run.level)),
    ]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for style in ("dim", "", "dim", ""):
        table.add_column(style=style, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return Group(Text(""), table, *_bars(report))


def _with_time(count: int, seconds: float) -> str:
    return f"{numbers.count(count)} · {numbers.duration(seconds)}" if count else "0"


def _overlap(report: Report) -> str:
    return numbers.percent(report.time.overlap_pct, inferred=True)


def _bars(report: Report) -> Iterator[RenderableType]:
    """What the host did and what the device did meanwhile, each as a bar and in words."""
    time = report.time
    if time.wall_s <= 0 or not time.host:
        return
    yield Text("")
    yield hanging("host    ", text_bars.host_bar(time, _BAR_WIDTH), "dim")
    yield hanging("        ", text_bars.host_list(time))
    if time.host_lines:
        yield hanging("        ", text_bars.line_list(time))
    bar = text_bars.device_bar(time, _BAR_WIDTH)
    if bar is not None:
        yield hanging("device  ", bar, "dim")
        yield hanging("        ", text_bars.device_list(time))
    if time.critical_path:
        yield hanging("        ", text_bars.path_list(time.critical_path, time.wall_s))
    if time.measured is not None:
        yield hanging("        ", Text(plain_line(time.measured.summary)))
    if time.warm_up is not None and time.steady is not None:
        yield hanging("        ", Text(_steady(time.warm_up, time.steady, time.wall_s)))


def _steady(warm_up: Period, steady: Period, wall_s: float) -> str:
    """The steady state apart from the first steps, in one line. What was before the first tensor work belongs to the
    first step, but not to the run's wall time."""
    busy = numbers.share(steady.device_busy_s, steady.wall_s, inferred=True)
    each = f"{numbers.duration(steady.wall_s / steady.steps)} a step on average"
    lasted = numbers.duration(warm_up.wall_s)
    before = " with what came before the first tensor" if warm_up.wall_s + steady.wall_s > wall_s else ""
    text = f"after {numbers.plural(warm_up.steps, 'step')} of warm-up ({lasted}{before}): {each}"
    return text if steady.device_busy_s is None else f"{text}, device busy {busy}"


def _ranked(report: Report) -> list[_Entry]:
    """Recompiles and findings together: most severe first, then most costly."""
    order = list(SHAPES)

    def cost(entry: _Entry) -> float:
        return (entry.compile_s if isinstance(entry, Recompile) else entry.cost_s) or 0.0

    entries: list[_Entry] = [*report.recompiles, *report.findings]
    return sorted(entries, key=lambda entry: (order.index(entry.severity), -cost(entry), -entry.count))


def _entry(rank: int, entry: _Entry, report: Report) -> RenderableType:
    name = entry.cause if isinstance(entry, Recompile) else entry.id
    cost_s = entry.compile_s if isinstance(entry, Recompile) else entry.cost_s
    expected = isinstance(entry, Recompile) and entry.expected
    word = "expected" if expected else str(entry.severity)
    cost = numbers.duration(cost_s) if cost_s != 0 else "no time lost"
    if cost_s and report.time.wall_s > 0:
        cost += f", {numbers.share(cost_s, report.time.wall_s * max(1, report.run.processes))}"
    style = STYLES[entry.severity]
    head = Text.assemble(
        (f"{SHAPES[entry.severity]} {word}", style),
        "  ",
        (name, "bold"),
        f"  {numbers.plural(entry.count, 'time')}  {cost}",
    )
    body = Text(plain_line(entry.summary))
    if entry.advice:
        body.append("\nChange: ", style="bold")
        body.append(plain_line(entry.advice))
    return Group(hanging(f"{rank:>2} ", head), hanging("     ", body))


def _missing(report: Report) -> Iterator[str]:
    data = report.data
    if data.dropped:
        yield f"{numbers.plural(data.dropped, 'event')} dropped by the recorder to bound its memory."
    for what, count in sorted(data.lost.items()):
        yield f"{numbers.count(count)} {plain_line(what)} lost."
    if data.skipped_parts:
        yield f"{numbers.plural(data.skipped_parts, 'part')} of the log could not be read."
    for where, count in sorted(data.faults.items()):
        yield f"{numbers.plural(count, 'fault')} of the recorder in {plain_line(where)}."
    yield from (plain_line(note) for note in data.notes)


def hanging(label: str, body: RenderableType, label_style: str = "") -> RenderableType:
    """A body with a label at its left; its lines stay to the right of it."""
    grid = Table.grid(padding=0)
    grid.add_column(width=len(label), no_wrap=True, style=label_style)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label), body)
    return grid


def plain_line(text: str) -> str:
    """Text from a recording on one line and without control characters (a name may hold escape sequences)."""
    line = _LINE_BREAKS.sub(" ", text)
    return "".join(char if char.isprintable() or char == numbers.THIN_SPACE else "\ufffd" for char in line)
