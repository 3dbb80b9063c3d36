"""Two graphs beside each other as rows of a page: what differs is marked by colour, sign and word; the rest is folded.

Owns the markup of rows and folds; their look is in ``assets/style.css``. A fold carries its bounds in its id, so that
opening one needs nothing but them. All text is shown as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from dash import html

from xla_insight.analysis.explain.aligned import Block, Fold, Mark, Row
from xla_insight.analysis.explain.explanation import fold_sentence
from xla_insight.analysis.explain.notation import Part
from xla_insight.report import numbers

from . import parts
from .ids import Recompilations

_PLACE = 23

_SIGNS = {Mark.ROOT: "root", Mark.CHANGED: "≠", Mark.INSERTED: "+", Mark.REMOVED: "−", Mark.FOLLOWS: "", Mark.EQUAL: ""}
_MEANINGS = {
    Mark.ROOT: "The earliest difference: everything else may follow from it",
    Mark.CHANGED: "Differs, and nothing before it explains that",
    Mark.INSERTED: "Only now",
    Mark.REMOVED: "Only before",
    Mark.FOLLOWS: "Differs because an earlier instruction does",
    Mark.EQUAL: "The same in both",
}


def listing(blocks: Iterable[Block]) -> html.Div:
    """The whole listing under its two headings."""
    heads = [html.Span(word, className=name) for word, name in (("", "row-number"), ("", "row-sign"),
             ("before", "row-before"), ("now", "row-now"), ("line", "row-where"))]  # fmt: skip
    head = html.Div(heads, className="row row-head")
    return html.Div([head, *rendered(blocks)], className="listing", role="table")


def rendered(blocks: Iterable[Block]) -> list[html.Div]:
    """Rows and folds."""
    return [_fold(block) if isinstance(block, Fold) else _row(block) for block in blocks]


def _fold(fold: Fold) -> html.Div:
    bounds = {"start": fold.start, "stop": fold.stop}
    button = html.Button(
        fold_sentence(fold), id={"type": Recompilations.UNFOLD.value, **bounds}, className="fold-button", n_clicks=0
    )
    name = "fold fold-differs" if fold.holds_differences else "fold"
    return html.Div(button, id={"type": Recompilations.FOLD.value, **bounds}, className=name)


def _row(row: Row) -> html.Div:
    alike = row.before == row.after
    cells: list[Any] = [
        html.Span(numbers.count(row.number), className="row-number"),
        html.Span(_SIGNS[row.mark], className="row-sign", title=_MEANINGS[row.mark]),
    ]
    if alike:
        cells.append(html.Code(_pieces(row.after), className="row-both"))
    else:
        cells.append(html.Code(_pieces(row.before), className="row-before"))
        cells.append(html.Code(_pieces(row.after), className="row-now"))
    cells.append(_where(row))
    return html.Div(cells, className=f"row row-{row.mark.value}", title=row.operation or None, role="row")


def _pieces(pieces: Sequence[Part]) -> list[Any]:
    """What differs as spans, all between them as plain text."""
    told: list[Any] = []
    for differs, group in groupby(pieces, key=lambda piece: piece.differs):
        text = "".join(piece.text for piece in group)
        told.append(html.Span(text, className="differs") if differs else text)
    return told


def _where(row: Row) -> html.Span:
    if row.site is None:
        return html.Span(f"inside {row.inside}" if row.inside else "", className="row-where place")
    mark = "~" if row.inferred else ""
    why = " (the line of its partner: this graph was traced without lines)" if row.inferred else ""
    return html.Span(
        mark + parts.middle(numbers.place(row.site.file, row.site.line), _PLACE), className="row-where place",
        title=f"{row.site.file}:{row.site.line}{why}",
    )  # fmt: skip
