"""A budget for a run and what came of checking it: the limits that ``check``, pyproject.toml and pytest share.

Owns the names of the limits, one spelling everywhere (``max_recompiles``, on the command line ``--max-recompiles``),
and their types. Leaves measuring to ``analysis.gate``. Standard library only: pytest loads it at its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from xla_insight.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: its name, the type of its value and what it means."""

    name: str
    type: type
    help: str

    @property
    def option(self) -> str:
        """Its spelling on the command line."""
        return f"--{self.name.replace('_', '-')}"


LIMITS = (
    Limit("max_recompiles", int, "Compiles that are not expected (see --after-step)."),
    Limit("max_graphs", int, "Distinct graphs over the whole run."),
    Limit("max_compile_s", float, "Seconds of all compiles together."),
    Limit("max_reads_per_step", float, "Tensor values read in Python, on average per step (see --after-step)."),
    Limit("max_fallbacks", int, "Operations that ran on the CPU because the backend does not compile them."),
    Limit("min_overlap_pct", float, "Share of host work hidden behind the device, in percent."),
    Limit("max_slowdown_pct", float, "With --baseline: by how much a step may be slower, in percent (default 5)."),
    Limit("after_step", int, "Recompiles and reads up to this step are warm-up and do not count; steps start at 0."),
    Limit("baseline", str, "An earlier run to compare with: its folder or URL."),
)
DEFAULT_SLOWDOWN_PCT = 5.0
_SETTINGS = ("after_step", "baseline")
"""Names that limit nothing by themselves, or only together with something."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may cost. ``None``: no limit. See `LIMITS` for the meaning of each."""

    max_recompiles: int | None = None
    max_graphs: int | None = None
    max_compile_s: float | None = None
    max_reads_per_step: float | None = None
    max_fallbacks: int | None = None
    min_overlap_pct: float | None = None
    max_slowdown_pct: float | None = None
    after_step: int | None = None
    baseline: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str) -> Budget:
        """A budget from named values; ``max-graphs`` and ``max_graphs`` are one name, None is no limit.

        Raises UsageError, naming ``where`` the values come from, for an unknown name or a value of the wrong type.
        """
        known = {limit.name: limit for limit in LIMITS}
        checked: dict[str, Any] = {}
        for given, value in values.items():
            name = str(given).replace("-", "_")
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
                raise UsageError(f"{where}: there is no limit {given!r}; {hint}")
            if name in checked:
                raise UsageError(f"{where}: {name} is given twice, with - and with _")
            if value is not None:
                checked[name] = _checked(known[name], value, where)
        return cls(**checked)

    def merged(self, over: Budget) -> Budget:
        """This budget with the values of ``over`` where it has some."""
        values = {field.name: getattr(over, field.name) for field in fields(over)}
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return Budget(**{name: own[name] if value is None else value for name, value in values.items()})

    @property
    def limits_something(self) -> bool:
        """Whether there is anything to check."""
        names = [field.name for field in fields(self) if field.name not in (*_SETTINGS, "max_slowdown_pct")]
        return self.baseline is not None or any(getattr(self, name) is not None for name in names)


def _checked(limit: Limit, value: Any, where: str) -> Any:
    if limit.type is str:
        if isinstance(value, str) and value.strip():
            return value
    elif isinstance(value, bool):
        pass
    elif limit.type is int:
        if isinstance(value, int) and value >= 0:
            return value
    elif isinstance(value, int | float) and 0 <= value < float("inf"):
        return float(value)
    wanted = {str: "a text", int: "a whole number, 0 or more", float: "a number, 0 or more"}[limit.type]
    raise UsageError(f"{where}: {limit.name} must be {wanted}, not {value!r}")


@dataclass(frozen=True, slots=True)
class CheckedLimit:
    """One limit and the number held against it. ``value`` is None when the run does not say: then it is not held.

    ``measured`` and ``allowed`` are both in a few words, ``sentence`` says it in one; ``reasons`` name what costs most,
    each with its line of code.
    """

    name: str
    limit: float
    value: float | None
    held: bool
    sentence: str
    reasons: tuple[str, ...] = ()
    measured: str = ""
    allowed: str = ""


@dataclass(frozen=True, slots=True)
class GateResult:
    """What came of checking a run against a budget. ``notes``: why a number may be too low."""

    run: str
    limits: tuple[CheckedLimit, ...]
    notes: tuple[str, ...] = ()

    @property
    def broken(self) -> tuple[CheckedLimit, ...]:
        """The limits that do not hold."""
        return tuple(limit for limit in self.limits if not limit.held)

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready values."""
        rows = [
            {"name": c.name, "limit": c.limit, "value": c.value, "held": c.held, "sentence": c.sentence,
             "reasons": list(c.reasons), "measured": c.measured, "allowed": c.allowed}
            for c in self.limits
        ]  # fmt: skip
        return {"schema": 1, "run": self.run, "held": not self.broken, "limits": rows, "notes": list(self.notes)}
