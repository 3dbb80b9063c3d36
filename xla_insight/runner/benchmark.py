"""The workload `benchmark`: the same training in each precision, for the table of training minutes.

Each precision is a training of its own (workload `mlm`, fixed chunks), recorded to a run of its own. Leaves the figures
to ``analysis.benchmark`` and the table to ``report``. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xla_insight.runner import text
from xla_insight.runner.mlm import MaskedLanguageModel, Precision, expected_graphs
from xla_insight.runner.models import BUILT_IN
from xla_insight.runner.workload import Plan, Workload, option

FEWEST_STEPS = 5
"""Below this nothing is left after the warm-up to extrapolate from."""


@dataclass(frozen=True)
class Benchmark(Workload):
    """Time a training in FP32 and BF16 and print the table: name, batch, precision, minutes, and where they went."""

    model: str = option("bert-tiny", f"{', '.join(BUILT_IN)}; a folder, a config.json, or a name on the hub.")
    data: tuple[str, ...] = option(
        (), "Text file, `datasets` folder, or NAME[:CONFIG] on the hub; several times for more (default: demo text)."
    )
    precision: Literal["both", "fp32", "bf16"] = option("both", "What the model computes in; both: in turn.")
    global_batch_size: int = option(16, "Chunks of a step, over all devices.", minimum=1)
    sequence_length: int = option(128, "Tokens of a chunk.", minimum=8)
    epochs: int = option(1, "Passes over the text that a full training takes.", minimum=1)
    steps: int = option(20, "Measure so many steps; a longer training is extrapolated.", minimum=FEWEST_STEPS)

    name: ClassVar[str] = "benchmark"
    saves: ClassVar[bool] = False
    module: ClassVar[str] = MaskedLanguageModel.module
    needs: ClassVar[tuple[str, ...]] = MaskedLanguageModel.needs

    def check(self) -> None:
        """Raise UsageError for what a training would refuse."""
        super().check()
        self._training("fp32").check()

    def parts(self) -> tuple[tuple[str, Workload], ...]:
        """One training for each precision."""
        precisions: tuple[Precision, ...] = ("fp32", "bf16") if self.precision == "both" else (self.precision,)
        return tuple((precision, self._training(precision)) for precision in precisions)

    def _training(self, precision: Precision) -> MaskedLanguageModel:
        return MaskedLanguageModel(
            model=self.model,
            data=self.data,
            precision=precision,
            global_batch_size=self.global_batch_size,
            sequence_length=self.sequence_length,
            epochs=self.epochs,
            most_steps=self.steps,
        )

    def plan(self) -> Plan:
        """The trainings, and what is measured of them."""
        rows = (
            ("model", self.model),
            ("data", text.describe(self.data)),
            ("trainings", ", then ".join(f"{name} to RUN-{name}" for name, _ in self.parts())),
            ("full training", f"{self.epochs} x the text in chunks of {self.sequence_length}"),
            ("measured", f"{self.steps} steps each; the rest is extrapolated from the steps after the warm-up"),
            ("padded sizes", f"{self.global_batch_size} x {self.sequence_length}"),
            ("graphs expected", f"in each training {expected_graphs(1)}"),
        )
        return Plan(f"Training minutes of {self.model}", rows)
