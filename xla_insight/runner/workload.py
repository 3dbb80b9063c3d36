"""What a training workload is to the command line: options, a check, a plan, and the module that trains.

A workload is a frozen dataclass derived from `Workload`, in a module that imports the standard library only. Its
fields, made with `option`, are its options on the command line; its docstring is its help. The training itself stands
in another module, named by ``module``, run in a recorded child process as ``python -m MODULE OPTIONS``; it ends in::

    if __name__ == "__main__":
        sys.exit(child.run(MyWorkload, train))

with ``train(options, live) -> dict``: see ``child``. So recording begins before the runtime does. A new workload is
added to the table in ``cli/train.py``. Leaves recording to ``record``, conclusions to ``analysis``, wording to
``report``.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_origin, get_type_hints

from xla_insight.errors import UsageError

if TYPE_CHECKING:
    from xla_insight.record.launch import Launched

EXCHANGE_VARIABLE = "XLA_INSIGHT_TRAIN_EXCHANGE"
"""Folder in which the child leaves its live figures and its result; set for it by `launch_recorded`."""
LIVE_FILE = "live.json"
RESULT_FILE = "result.json"
ERROR_FILE = "error.json"
"""What ended the training with one line that is said already: its exit status, whatever a launcher makes of it."""


def option(default: Any, help: str, *, minimum: float | None = None, metavar: str | None = None) -> Any:  # noqa: A002
    """A field of a workload that is an option of its command: ``global_batch_size`` becomes ``--global-batch-size``.

    The type of the field may be str, int, float, bool, one of these or None, a Literal of words, or ``tuple[str, ...]``
    for an option that may be given several times.
    """
    return field(default=default, metadata={"help": help, "minimum": minimum, "metavar": metavar})


@dataclass(frozen=True, slots=True)
class Plan:
    """What ``--dry-run`` shows: a title, rows of (label, text), and remarks."""

    title: str
    rows: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workload:
    """Base of all workloads. Options that every workload has are fields here."""

    save_to: str = option("", "Folder for checkpoints and the model (default: beside the run, RUN-files).")

    name: ClassVar[str]
    saves: ClassVar[bool] = True
    """Whether there is anything to save; else ``save_to`` is no option."""
    module: ClassVar[str]
    windows: ClassVar[str | None] = None
    """The steps to take device windows in, when nobody chose some; None: as the recording finds them cheap."""
    needs: ClassVar[tuple[str, ...]] = ("torch_xla",)
    """Modules the training imports; looked for, never imported, before it starts."""

    def check(self) -> None:
        """Raise an InsightError for what is wrong and can be seen without the framework: options, missing files."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"--{item.name.replace('_', '-')} {value} is no number to work with")

    def plan(self) -> Plan:
        """What a run would do, as far as that is known without the framework."""
        raise NotImplementedError

    def parts(self) -> tuple[tuple[str, Workload], ...]:
        """The trainings this workload consists of, as (name, workload); one without a name is recorded to RUN itself.

        Several are recorded one after the other to RUN-NAME, and saved to SAVE_TO/NAME.
        """
        return (("", self),)

    def command(self) -> list[str]:
        """The command that trains, as ``xla-insight run`` takes it; several processes of one run come from here."""
        return ["-m", self.module, self.to_json()]

    def variables(self) -> dict[str, str]:
        """Environment variables that must be set before the runtime starts."""
        return {}

    def missing(self) -> list[str]:
        """Which of ``needs`` are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def to_json(self) -> str:
        """The options that differ from their defaults, as the child takes them."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        defaults = {item.name: item.default for item in fields(self)}
        return json.dumps({name: value for name, value in values.items() if value != defaults[name]})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The workload of `to_json`. Raises UsageError for what is no such text."""
        try:
            values: dict[str, Any] = json.loads(text)
            hints = get_type_hints(cls)
            several = {name for name in values if get_origin(hints.get(name)) is tuple}
            known: dict[str, Any] = {key: tuple(value) if key in several else value for key, value in values.items()}
            return cls(**known)
        except (TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"no options of the workload {cls.name}: {text[:200]!r}") from error


def launch_recorded(workload: Workload, run: str, level: str, exchange: Path) -> Launched:
    """Train in a child process that is recorded to ``run``. Raises UsageError."""
    from xla_insight.record import launch  # loads numpy and pyarrow, which a page of help does without
    from xla_insight.record.session import WINDOWS_VARIABLE

    variables = {**os.environ, **workload.variables(), EXCHANGE_VARIABLE: str(exchange)}
    windows = None if WINDOWS_VARIABLE in os.environ else workload.windows
    return launch.run_command(workload.command(), run, level, windows, variables)


def read_exchange(exchange: Path, name: str) -> dict[str, Any]:
    """What the child left under ``name``: `LIVE_FILE`, `RESULT_FILE` or `ERROR_FILE`; empty while there is nothing."""
    try:
        found = json.loads((exchange / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_exchange(exchange: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write so that a reader sees the old or the new content. Raises OSError."""
    temporary = exchange / f".{name}.{os.getpid()}"
    temporary.write_text(json.dumps(content, default=str), encoding="utf-8")
    temporary.replace(exchange / name)
