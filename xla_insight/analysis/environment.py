"""What two runs, or two ranks of one, were started with and what differs: versions, devices, flags, command.

Owns which facts are compared, and which of them a compiler's key depends on.
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
_KEY_PARTS = ("version of", "device", "spmd", "number of devices", "world size", "XLA_FLAGS", "LIBTPU", "TPU_",
              "XLA_USE_", "XLA_IR_DEBUG", "XLA_HLO_DEBUG", "NEURON_", "CPU_NUM_DEVICES")  # fmt: skip
"""Beginnings of what is, or may be, part of a key."""


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


def key_differences(before: Setting, now: Setting) -> tuple[EnvironmentDifference, ...]:
    """What differs of the parts that can give the same computation another key."""
    return tuple(part for part in environment_differences(before, now) if part.name.startswith(_KEY_PARTS))


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
