"""The workload `ranks`: several processes train side by side, recorded into one run; its options and its plan.

Leaves the training to ``ranks_train``. Imports the standard library only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from xla_insight.errors import UsageError
from xla_insight.runner.workload import Plan, Workload, option


@dataclass(frozen=True)
class ManyProcesses(Workload):
    """Train in several processes, as torchrun starts them, recorded into one run."""

    processes: int = option(2, "How many.", minimum=2)
    steps: int = option(12, "Steps of each.", minimum=1)
    width: int = option(64, "Of the model.", minimum=1)
    batch_size: int = option(16, "Of each process.", minimum=1)
    learning_rate: float = option(1e-2, "Of SGD.", minimum=0)
    diverge: bool = option(False, "The last rank computes its loss in another way: the report names the line.")
    slow_ms: float = option(0.0, "So many milliseconds the last rank loses in each step.", minimum=0)

    name: ClassVar[str] = "ranks"
    saves: ClassVar[bool] = False
    module: ClassVar[str] = "xla_insight.runner.ranks_train"

    def check(self) -> None:
        """Raise UsageError for more processes than a machine takes."""
        super().check()
        if self.processes > 64:
            raise UsageError(f"--processes {self.processes} is more than one machine should take (64)")

    def command(self) -> list[str]:
        """All processes, started by torchrun."""
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.processes)]
        return [*launcher, "-m", self.module, self.to_json()]

    def variables(self) -> dict[str, str]:
        """One thread for each process, as torchrun would choose, with five lines about it."""
        return {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}

    def plan(self) -> Plan:
        """The processes, and the graphs to expect."""
        graphs = "2 a rank: the first step, and all after it (with momentum)"
        rows = (
            ("model", f"two layers of width {self.width}, random weights and data"),
            ("processes", str(self.processes)),
            ("steps", f"{self.steps} of {self.batch_size} rows on each"),
            ("graphs expected", f"{graphs}; others on the last rank" if self.diverge else f"{graphs}; the same on all"),
        )
        remark = "On CPU each process trains by itself: torch_xla has no exchange between CPU processes."
        return Plan(f"{self.processes} processes, side by side", rows, (remark,))
