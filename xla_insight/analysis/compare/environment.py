"""What two runs were started with and what differs: versions, devices, flags, command.

Owns which facts are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from xla_insight.analysis.tables import Process
from xla_insight.facts.comparison import EnvironmentDifference

_OWN = ("XLA_INSIGHT_", "PT_XLA_DEBUG", "PJRT_LOCAL_PROCESS_RANK")
"""Set by the recorder, or without influence on what is compiled."""
_FLAG_LISTS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "NEURON_CC_FLAGS")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run was started with: facts of the process that speaks for it, number of ranks, command line."""

    process: Process | None
    ranks: int
    command: tuple[str, ...]


def environment_differences(before: Setting, now: Setting) -> tuple[EnvironmentDifference, ...]:
    """Everything that differs, in a fixed order of kinds, then by name."""
    old, new = dict(facts_of(before)), dict(facts_of(now))
    names = dict.fromkeys([*old, *new])
    return tuple(_difference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))


def _difference(name: str, before: str | None, now: str | None) -> EnvironmentDifference:
    """What differs; of two lists of flags, the flags that the other does not have."""
    if name in _FLAG_LISTS:
        old, new = (before or "").split(), (now or "").split()
        if sorted(old) != sorted(new):
            before = " ".join(flag for flag in old if flag not in new) or None
            now = " ".join(flag for flag in new if flag not in old) or None
    return EnvironmentDifference(name, before, now)


def facts_of(setting: Setting) -> Iterable[tuple[str, str]]:
    """(name, value) of everything that could explain a difference."""
    facts: Mapping[str, Any] = setting.process.facts if setting.process is not None else {}
    for name, version in sorted(_mapping(facts.get("versions")).items()):
        yield f"version of {name}", str(version)
    for name in ("device", "world_size", "spmd", "host", "level"):
        if facts.get(name) is not None:
            yield name.replace("_", " "), str(facts[name])
    devices = facts.get("devices")
    if isinstance(devices, list):
        yield "number of devices", str(len(devices))
    yield "ranks", str(setting.ranks)
    for name, value in sorted(_mapping(facts.get("environment")).items()):
        if not name.startswith(_OWN):
            yield name, str(value)
    if setting.command:
        yield "command", " ".join(setting.command)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
