"""The workload `kernels`: steps whose graph holds custom calls, that is code that XLA did not make itself.

On a TPU these are Pallas kernels; XLA:CPU has a few built in. Or files of HLO, in which they are listed without a
training. Leaves the training to ``kernels_train`` and the list to ``analysis.custom_calls``. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from xla_insight.errors import UsageError
from xla_insight.runner.workload import Plan, Workload, option


@dataclass(frozen=True)
class Kernels(Workload):
    """List the custom calls of each graph: target, shapes, share. Of a small training, or of --hlo files."""

    steps: int = option(8, "Steps to train.", minimum=1)
    tokens: int = option(128, "Tokens of the sequence.", minimum=16)
    width: int = option(64, "Width of the attention.", minimum=16)
    hlo: tuple[str, ...] = option((), "Train nothing; list those of this file of HLO, text or proto. Several times.")

    name: ClassVar[str] = "kernels"
    saves: ClassVar[bool] = False
    windows: ClassVar[str | None] = "4-6"
    module: ClassVar[str] = "xla_insight.runner.kernels_train"

    def check(self) -> None:
        """Raise UsageError for files that are not there."""
        super().check()
        for file in self.hlo:
            if not Path(file).is_file():
                raise UsageError(f"no file {file}")

    def missing(self) -> list[str]:
        """Reading files needs nothing."""
        return [] if self.hlo else super().missing()

    def parts(self) -> tuple[tuple[str, Workload], ...]:
        """One training, or none."""
        return () if self.hlo else super().parts()

    def plan(self) -> Plan:
        """What is run, or read."""
        if self.hlo:
            return Plan("Custom calls of HLO files", tuple(("file", file) for file in self.hlo))
        calls = (
            ("on a TPU", "flash attention (Pallas: tpu_custom_call)"),
            ("elsewhere", "top-k (TopK) and the eigenvalues of a covariance (Eigh), which XLA:CPU has built in"),
        )
        size = f"{self.tokens} tokens, width {self.width}"
        rows = (("steps", str(self.steps)), ("size", size), *calls, ("graphs expected", "1, the same in every step"))
        return Plan("Custom calls of a small training", rows)
