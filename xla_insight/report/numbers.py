"""The wording of numbers for surfaces: the names of `facts.numbers`, where sentences and surfaces share one wording."""

from xla_insight.facts.numbers import (
    NOT_MEASURED,
    THIN_SPACE,
    age,
    ago,
    count,
    duration,
    nanoseconds,
    percent,
    place,
    plural,
    share,
    short_hash,
    short_path,
    significant,
    size,
    where,
)

__all__ = [
    "NOT_MEASURED",
    "THIN_SPACE",
    "age",
    "ago",
    "count",
    "duration",
    "nanoseconds",
    "percent",
    "place",
    "plural",
    "share",
    "short_hash",
    "short_path",
    "significant",
    "size",
    "where",
]
