"""The workload `mlm`: masked-language-model training with the Trainer; its options, its check and its plan.

Leaves the training to ``mlm_train``. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from xla_insight.errors import UsageError
from xla_insight.runner import hub, models, text
from xla_insight.runner.models import BUILT_IN
from xla_insight.runner.workload import Plan, Workload, option

SHORTEST_SEQUENCE = 8
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class MaskedLanguageModel(Workload):
    """Train a masked language model with the Hugging Face Trainer."""

    model: str = option("bert-tiny", f"{', '.join(BUILT_IN)}; a folder, a config.json, or a name on the hub.")
    data: tuple[str, ...] = option(
        (), "Text file, `datasets` folder, or NAME[:CONFIG] on the hub; several times for more (default: demo text)."
    )
    precision: Literal["fp32", "bf16"] = option("fp32", "What the model computes in.")
    global_batch_size: int = option(16, "Texts of a step, over all devices.", minimum=1)
    sequence_length: int = option(128, "Tokens of a chunk, and of the longest text.", minimum=SHORTEST_SEQUENCE)
    padding: Literal["fixed", "dynamic", "max", "buckets"] = option(
        "fixed", "fixed: the text in chunks of one size; or text by text, padded to the longest of its batch, to the"
        " longest of all, or to --buckets.",
    )  # fmt: skip
    buckets: str = option("", "Sizes to pad to, as in 48,96,128.", metavar="SIZES")
    epochs: int = option(1, "Passes over the text.", minimum=1)
    steps: int | None = option(None, "Train so many steps, whatever the passes.", minimum=1)
    most_steps: int | None = option(None, "Train at most so many steps of the passes.", minimum=1)
    learning_rate: float = option(5e-5, "Of AdamW, falling to 0 in a line.", minimum=0)
    save_steps: int = option(0, "Write a checkpoint every so many steps; 0: none.", minimum=0)
    resume: bool = option(False, "Go on from the last checkpoint in --save-to.")

    name: ClassVar[str] = "mlm"
    module: ClassVar[str] = "xla_insight.runner.mlm_train"
    needs: ClassVar[tuple[str, ...]] = ("torch_xla", "transformers", "accelerate", "tokenizers")

    def check(self) -> None:
        """Raise UsageError for options that contradict each other, and for files that are not there."""
        super().check()
        text.check(self.data)
        models.check(self.model)
        if (self.padding == "buckets") != bool(self.buckets):
            raise UsageError("--buckets SIZES and --padding buckets go together")
        if max(self.bucket_sizes(), default=0) > self.sequence_length:
            longest = self.sequence_length
            raise UsageError(f"a bucket of --buckets {self.buckets} is larger than --sequence-length ({longest})")
        if self.resume and not self.save_to:
            raise UsageError("--resume needs --save-to FOLDER with the checkpoints of an earlier training")
        if self.resume and not Path(self.save_to).is_dir():
            raise UsageError(f"no folder {self.save_to} to resume from")

    def variables(self) -> dict[str, str]:
        """Whether the hub answers, when it is needed."""
        return {} if text.is_local(self.data) and models.is_local(self.model) else hub.variables()

    def bucket_sizes(self) -> list[int]:
        """The sizes of ``--buckets``, in order. Raises UsageError."""
        try:
            sizes = sorted({int(word) for word in self.buckets.split(",") if word.strip()})
        except ValueError:
            sizes = [0]
        if self.buckets and (not sizes or sizes[0] < SHORTEST_SEQUENCE):
            raise UsageError(f"--buckets takes sizes from {SHORTEST_SEQUENCE} on, as 48,96,128, not {self.buckets!r}")
        return sizes

    def padded_sizes(self) -> list[int]:
        """The sizes that batches are padded to, the largest last; for dynamic padding just that."""
        return self.bucket_sizes() or [self.sequence_length]

    def plan(self) -> Plan:
        """The set-up, the padded sizes and the graphs to expect."""
        rows = (
            ("model", self.model),
            ("data", text.describe(self.data)),
            ("precision", self.precision),
            ("global batch size", str(self.global_batch_size)),
            ("padded sizes", self._sizes_in_words()),
            ("graphs expected", self._graphs_in_words()),
            ("steps", self._steps_in_words()),
            ("checkpoints", f"every {self.save_steps} steps" if self.save_steps else "none"),
        )
        return Plan(f"Masked language model on {self.model}", rows)

    def _sizes_in_words(self) -> str:
        if self.padding == "dynamic":
            return f"any multiple of 8 up to {self.sequence_length}"
        return ", ".join(f"{self.global_batch_size} x {size}" for size in self.padded_sizes())

    def _steps_in_words(self) -> str:
        if self.steps is not None:
            return str(self.steps)
        passes = "one pass over the text" if self.epochs == 1 else f"{self.epochs} passes over the text"
        return passes if self.most_steps is None else f"{passes}, at most {self.most_steps}"

    def _graphs_in_words(self) -> str:
        if self.padding == "dynamic":
            return f"{expected_graphs(1)}; and another for each size after the first: these are recompiles"
        return expected_graphs(len(self.padded_sizes()))


def expected_graphs(sizes: int) -> str:
    """How many graphs batches of so many sizes need, in words: the first step differs, as it makes optimizer state."""
    others = "one for all others" if sizes == 1 else f"up to {sizes} for all others, by size"
    return f"one for the first step, {others}; beside them small ones (set-up, the loss that is logged)"
