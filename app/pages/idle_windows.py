"""Part of page Idle: what device windows measured, by line of code, and how far the inferred times are from it.

Owns the layout of this part. Sentences and numbers come from ``xla_insight.analysis.windows``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from xla_insight.facts.report import DeviceLine, DeviceWindow, HostSpan, MeasuredTime
from xla_insight.report import numbers

from .. import parts

_LISTED = 10
_NO_LINE = "No line of Python: backward passes, and what the compiler adds"


def sections(measured: MeasuredTime | None) -> html.Div | None:
    """What the windows of a process measured; None when it has none."""
    if measured is None:
        return None
    lead = html.P(parts.unbroken(measured.summary), className="lead")
    first = parts.section("Measured device time", lead, _lines(measured.lines))
    second = html.Div([_windows(measured.windows), _host(measured.host_spans)], className="pair")
    return html.Div([first, second])


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> html.Div:
    """A plain table: the first column is text, cells given as a number's text stand to the right."""
    heading = html.Thead(html.Tr([html.Th(column, scope="col") for column in columns]))
    body = html.Tbody([html.Tr([html.Td(cell) for cell in row]) for row in rows])
    return html.Div(html.Table([heading, body], className="plain"), className="scrolls")


def _lines(lines: Sequence[DeviceLine]) -> html.Div | None:
    if not lines:
        return None
    rows = [
        [
            [parts.code_place(line.site), _quiet(line.site.source.strip())] if line.site else _NO_LINE,
            ", ".join(parts.middle(name) for name in line.operations) or numbers.NOT_MEASURED,
            numbers.count(line.count),
            numbers.duration(line.device_s),
            numbers.share(line.share, 1),
        ]
        for line in lines[:_LISTED]
    ]
    columns = ("Line of code whose operations the device ran", "operations", "times", "device time", "share")
    return table(columns, rows)


def _quiet(text: str) -> html.Span | None:
    return html.Span(parts.middle(text), className="quiet-line", title=text) if text else None


def _windows(windows: Sequence[DeviceWindow]) -> html.Section:
    rows = [
        [
            [_steps(window), _quiet(window.note)],
            numbers.duration(window.measured_s),
            numbers.share(window.busy_s, window.measured_s),
            numbers.share(window.inferred_busy_s, window.measured_s, inferred=True),
            numbers.NOT_MEASURED if window.error_points is None else f"{window.error_points:+.1f}",
            numbers.duration(window.stop_s),
        ]
        for window in windows[:_LISTED]
    ]
    columns = ("steps", "measured", "busy", "inferred", "points off", "cost")
    return parts.section("Device windows", table(columns, rows))


def _steps(window: DeviceWindow) -> str:
    first, last = numbers.count(window.first_step), numbers.count(window.last_step)
    return first if first == last else f"{first} to {last}"


def _host(spans: Sequence[HostSpan]) -> html.Section | None:
    if not spans:
        return None
    rows = [
        [[parts.middle(span.name), _quiet(span.thread)], numbers.count(span.count), numbers.duration(span.total_s)]
        for span in spans[:_LISTED]
    ]
    return parts.section("What the framework did on the host", table(("in the windows", "times", "in all"), rows))
