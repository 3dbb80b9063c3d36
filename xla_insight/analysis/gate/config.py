"""The budget of a project: ``[tool.xla_insight.check]`` of its pyproject.toml.

Owns finding the file (the nearest one upwards from the working folder) and reading it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from xla_insight.errors import UsageError
from xla_insight.facts.budget import Budget

FILE = "pyproject.toml"
TABLE = "tool.xla_insight.check"


def configured_budget(path: Path | None = None, folder: Path | None = None) -> Budget:
    """The budget of a file, or of the nearest pyproject.toml from ``folder`` upwards; empty when there is none.

    A baseline is taken relative to the file. Raises UsageError for a file that cannot be read or is not valid.
    """
    found = path or _nearest(folder or Path.cwd())
    if found is None:
        return Budget()
    try:
        content = tomllib.loads(found.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {found} ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{found} is not valid TOML: {error}") from error
    section = _table(content, TABLE)
    if section is None and _table(content, TABLE.replace("_", "-")) is not None:
        raise UsageError(f"{found}: [{TABLE.replace('_', '-')}] is not looked at; the table is called [{TABLE}]")
    if section is None:
        if path is not None:
            raise UsageError(f"{found} has no table [{TABLE}]")
        return Budget()
    if not isinstance(section, dict):
        raise UsageError(f"{found}: {TABLE} must be a table")
    budget = Budget.of(section, f"{found} [{TABLE}]")
    if budget.baseline is None or "://" in budget.baseline:
        return budget
    return budget.merged(Budget(baseline=str(found.parent / budget.baseline)))


def _nearest(folder: Path) -> Path | None:
    return next((file for place in (folder, *folder.parents) if (file := place / FILE).is_file()), None)


def _table(content: object, name: str) -> object:
    """What stands at a dotted name; None when there is nothing."""
    for part in name.split("."):
        content = content.get(part) if isinstance(content, dict) else None
    return content
