"""Explained compiles as JSON, schema 1: fields are added, never renamed. Leaves the facts to ``analysis.explain``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from xla_insight.analysis.explain.aligned import Block, Fold
from xla_insight.analysis.explain.explanation import Comparison, Explanation, move_sentences, root_facts, sentence_of
from xla_insight.analysis.explain.notation import plain
from xla_insight.facts.report import REPORT_SCHEMA


def render_explanations(found: Sequence[Explanation], *, diff: bool = False) -> str:
    """Each explained compile; with its rows (equal stretches folded) when ``diff``. ASCII, without NaN or Infinity."""
    plain_values = {"schema": REPORT_SCHEMA, "compiles": [_explanation(one, diff) for one in found]}
    return json.dumps(plain_values, indent=2, allow_nan=False, default=str)


def _explanation(one: Explanation, diff: bool) -> dict[str, Any]:
    entry, comparison = one.target.entry, one.comparison
    root = root_facts(one)
    told = {
        **asdict(one.target.member),
        "cause": entry.cause,
        "expected": entry.expected,
        "severity": str(entry.severity),
        "count": entry.count,
        "summary": sentence_of(one),
        "cause_summary": entry.summary,
        "advice": entry.advice,
        "site": asdict(entry.site) if entry.site is not None else {},
        "user_site": asdict(entry.user_site) if entry.user_site is not None else {},
        "root": {} if root is None else asdict(root),
        "missing": one.missing or None,
        "difference": {} if comparison is None else _difference(comparison),
    }
    if comparison is not None:
        told["against"] = comparison.against
        if diff:
            told["rows"] = [_block(block) for block in comparison.aligned.blocks()]
    return told


def _difference(comparison: Comparison) -> dict[str, Any]:
    found = comparison.diff
    return {
        "instructions_before": comparison.sizes[0],
        "instructions_now": comparison.sizes[1],
        "rows": {str(mark): count for mark, count in comparison.aligned.counts().items()},
        "merged_before": comparison.aligned.merged[0],
        "merged_now": comparison.aligned.merged[1],
        "same_computation": found.same_computation,
        "same_but_shapes": found.same_but_shapes,
        "same_but_constants": found.same_but_constants,
        "moves": move_sentences(comparison),
        "differences": [
            {"kind": str(one.kind), "before": one.before_text, "now": one.after_text} for one in found.roots
        ],
    }


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Fold):
        return {"folded": {str(mark): count for mark, count in block.counts}, "start": block.start, "stop": block.stop}
    return {
        "row": block.number,
        "mark": str(block.mark),
        "before": plain(block.before) or None,
        "now": plain(block.after) or None,
        "operation": block.operation,
        "site": None if block.site is None else block.site._asdict(),
        "inferred": block.inferred,
    }
