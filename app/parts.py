"""Small parts that pages are built of: figures in words, places in code, marks of severity, messages.

Owns their markup; their look is in ``assets/style.css``. Every text given to them is shown as text, never as markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import dash_mantine_components as dmc
from dash import html

from xla_insight.facts.report import Severity, Site
from xla_insight.report import numbers

Content: TypeAlias = Any
"""What a component may hold: text, a number, a component, or a list of those."""

SEVERITY_SHAPES = {Severity.CRITICAL: "◆", Severity.WARNING: "▲", Severity.INFO: "○"}
INFERRED_NOTE = "~ marks a number worked out from others instead of measured."
_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|m|h|%|[kMGT]?B)\b|%)|(?<=[mh]) (?=\d+ [ms]\b)")
_LONG_WORD = re.compile(r"([^\s\u00a0]{25,})")
_SEAM = re.compile(r"(?<=[./_:=])(?=\w)|(?<=[a-z])(?=[A-Z])")
_LONG_NAME, _LONG_PLACE = 48, 40


def key_figure(word: str, value: str, note: str = "", hint: str = "") -> html.Div:
    """One figure of a row: its name, its value, what goes with it, and (on hover) what it means."""
    return html.Div(
        [
            html.Dt(word),
            html.Dd([html.Span(value, className="figure"), html.Span(unbroken(note), className="figure-note")]),
        ],
        className="key-figure",
        title=hint or None,
    )


def key_figures(figures: Sequence[html.Div]) -> html.Dl:
    """A row of key figures."""
    return html.Dl(list(figures), className="key-figures")


def code_place(site: Site | None) -> Content:
    """A line of code, shortened in the middle; the whole path on hover."""
    if site is None or not site.file:
        return html.Span("", className="place")
    return html.Span(
        middle(numbers.place(site.file, site.line), _LONG_PLACE),
        className="place",
        title=f"{site.file}:{site.line} in {site.function}",
    )


def middle(text: str, limit: int = _LONG_NAME) -> str:
    """A text shortened in the middle."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def long_text(text: str, limit: int = _LONG_NAME, class_name: str = "") -> html.Span:
    """A text shortened in the middle, whole on hover."""
    short = middle(text, limit)
    return html.Span(short, title=text if short != text else None, className=class_name)


def unbroken(text: str) -> str:
    """A sentence whose numbers stay on one line, with their units: ``1 m 23 s`` is read as one."""
    narrow_and_unbroken = "\u202f"
    return _NUMBER_AND_UNIT.sub("\u00a0", text).replace(numbers.THIN_SPACE, narrow_and_unbroken)


def headline(sentence: str) -> html.H1:
    """The sentence that leads a page. Long names in it (paths, dotted names) break where they have a seam."""
    return html.H1(_seamed(unbroken(sentence)), className="verdict")


def _seamed(text: str) -> Content:
    pieces: list[Any] = []
    for word in _LONG_WORD.split(text):
        if _LONG_WORD.fullmatch(word):
            for piece in _SEAM.split(word):
                pieces += [piece, html.Wbr()]
            pieces.pop()
        elif word:
            pieces.append(word)
    return pieces if len(pieces) > 1 else text


def with_code(text: str) -> Content:
    """A sentence in which what stands between backticks is code."""
    pieces = text.split("`")
    if len(pieces) < 3 or len(pieces) % 2 == 0:
        return text
    return [html.Code(piece) if number % 2 else piece for number, piece in enumerate(pieces) if piece]


def severity(level: Severity) -> html.Span:
    """A severity as shape and word."""
    shape = html.Span(SEVERITY_SHAPES[level], className="shape", **{"aria-hidden": "true"})
    return html.Span([shape, level.value], className=f"severity severity-{level.value}")


def swatch(colour: str) -> html.Span:
    """A small square in the colour that a figure uses."""
    return html.Span(className="swatch", style={"background": colour}, **{"aria-hidden": "true"})


def section(title: str, *content: Content, tools: Content = None, section_id: str | None = None) -> html.Section:
    """A part of a page under a heading, with its tools at the right."""
    heading = html.Div(
        [html.H2(title), html.Div(tools, className="tools") if tools else None], className="section-head"
    )
    named = {} if section_id is None else {"id": section_id}
    return html.Section([heading, *content], className="section", **named)


def message(title: str, sentences: Sequence[Content], *more: Content) -> html.Div:
    """A whole page that says one thing and what to do about it."""
    return html.Div(
        [html.H1(title, className="verdict"), *(html.P(sentence, className="lead") for sentence in sentences), *more],
        className="message",
    )


def notice(text: str, kind: str = "info") -> html.P:
    """A line that qualifies what is below it. ``kind``: `info` or `warning`."""
    shape = html.Span("▲" if kind == "warning" else "○", className="shape", **{"aria-hidden": "true"})
    return html.P([shape, text], className=f"notice notice-{kind}")


def command(text: str) -> html.Div:
    """A command or a piece of code to copy."""
    return html.Div([html.Pre(text), copy_button(text)], className="command")


def copy_button(text: str, word: str = "Copy") -> dmc.CopyButton:
    """A button that copies a text."""
    return dmc.CopyButton(value=text, children=word, copiedChildren="Copied", variant="subtle", size="compact-xs")


def skeleton(height_px: int) -> html.Div:
    """A placeholder of the size of what is being loaded; it shows itself only when that takes a while."""
    return html.Div(className="skeleton", style={"height": f"{height_px}px"})
