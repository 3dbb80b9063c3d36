"""The workload `from-scratch`: a language model from raw text to fill-mask; its options, its check and its plan.

Leaves the training to ``from_scratch_train``. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from xla_insight.errors import UsageError
from xla_insight.runner import hub, models, text
from xla_insight.runner.mlm import expected_graphs
from xla_insight.runner.models import BUILT_IN, TOKENIZER
from xla_insight.runner.workload import Plan, Workload, option

SMALLEST_VOCABULARY = 100


@dataclass(frozen=True)
class FromScratch(Workload):
    """Train a RoBERTa from raw text: tokenizer, shards of fixed chunks, training from the shards, fill-mask."""

    data: tuple[str, ...] = option(
        (), "Text file, `datasets` folder, or NAME[:CONFIG] on the hub; several times for more (default: demo text)."
    )
    model: str = option("roberta-tiny", f"Its configuration: {', '.join(BUILT_IN)}, or a config.json.")
    vocabulary: int = option(4000, "Pieces of the Unigram tokenizer.", minimum=SMALLEST_VOCABULARY)
    sequence_length: int = option(128, "Tokens of a chunk.", minimum=8)
    shards: str = option("", "Folder or URL to write the shards to and to stream them from (default: SAVE_TO/shards).")
    shard_format: Literal["tfrecord", "parquet", "arrow"] = option("tfrecord", "Format of the shards.")
    chunks_per_shard: int = option(1000, "Chunks of a shard, at most.", minimum=1)
    shuffle_buffer: int = option(1000, "Chunks held in memory to draw the next one from.", minimum=1)
    use_shards: bool = option(False, "Train on the shards and the tokenizer that an earlier training left.")
    precision: Literal["fp32", "bf16"] = option("fp32", "What the model computes in.")
    global_batch_size: int = option(16, "Chunks of a step, over all devices.", minimum=1)
    steps: int | None = option(None, "Stop after so many steps (default: one pass over the text).", minimum=1)
    learning_rate: float = option(1e-4, "Of AdamW, falling to 0 in a line.", minimum=0)
    save_steps: int = option(0, "Write a checkpoint every so many steps; 0: none but the model at the end.", minimum=0)
    resume: bool = option(False, "Go on from the last checkpoint in --save-to, with its shards and tokenizer.")
    prompt: str = option("", "Text with one <mask> to fill in at the end (default: from the training text).")

    name: ClassVar[str] = "from-scratch"
    module: ClassVar[str] = "xla_insight.runner.from_scratch_train"
    needs: ClassVar[tuple[str, ...]] = ("torch_xla", "transformers", "accelerate", "tokenizers")

    def check(self) -> None:
        """Raise UsageError for options that contradict each other, and for files that are not there."""
        super().check()
        text.check(self.data)
        models.check(self.model)
        if self.use_shards or self.resume:
            if not self.save_to:
                raise UsageError("--use-shards and --resume need --save-to FOLDER of an earlier training")
            if not (Path(self.save_to) / TOKENIZER).is_file():
                raise UsageError(f"no {TOKENIZER} in {self.save_to}: it is no folder of an earlier training")
        if self.prompt and self.prompt.count("<mask>") != 1:
            raise UsageError("--prompt needs <mask> once, at the word to fill in")

    def variables(self) -> dict[str, str]:
        """Whether the hub answers, when it is needed."""
        return {} if text.is_local(self.data) and models.is_local(self.model) else hub.variables()

    @property
    def shard_place(self) -> str:
        """Where the shards lie."""
        return self.shards or f"{self.save_to}/shards"

    def plan(self) -> Plan:
        """Each stage, with what it writes."""
        folder = self.save_to or "RUN-files"
        tokenizer = f"Unigram, at most {self.vocabulary} pieces, to {folder}/tokenizer.json"
        chunks = f"{self.sequence_length} tokens each, no text lost (the last one is filled up from the beginning)"
        place = self.shards or f"{folder}/shards"
        shards = f"{self.shard_format}, at most {self.chunks_per_shard} chunks a file, to {place}"
        rows = (
            ("text", text.describe(self.data)),
            ("tokenizer", "the one left earlier" if self.use_shards or self.resume else tokenizer),
            ("chunks", chunks),
            ("shards", f"those in {place}" if self.use_shards or self.resume else shards),
            ("streaming", f"files in random order, {self.shuffle_buffer} chunks in memory"),
            ("model", f"{self.model}, random weights, {self.precision}"),
            ("steps", "one pass over the text" if self.steps is None else str(self.steps)),
            ("learning rate", f"{self.learning_rate:g}"),
            ("padded sizes", f"{self.global_batch_size} x {self.sequence_length}"),
            ("graphs expected", expected_graphs(1)),
            ("at the end", f"the model to {folder}, and fill-mask with it on the CPU"),
        )
        return Plan("From raw text to fill-mask", rows)
