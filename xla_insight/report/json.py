"""The report as JSON, schema 1. Leaves the shape of it to ``facts.report``."""

from __future__ import annotations

import json

from xla_insight.facts.report import Report


def render_json(report: Report) -> str:
    """The whole report as one JSON text, indented, ASCII only, without NaN or Infinity."""
    return json.dumps(report.to_json(), indent=2, allow_nan=False, default=str)
