"""Masked-language-model training with the Hugging Face Trainer on the XLA device: to run, to read and to copy.

Owns the training of the workload `mlm`. Knows nothing of being recorded.
"""

from __future__ import annotations

import sys
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from xla_insight.runner import child, text
from xla_insight.runner.mlm import MaskedLanguageModel
from xla_insight.runner.models import BUILT_IN

SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}


class Progress(TrainerCallback):
    """Passes steps on to the progress bar, and ends the training after a step when that is wished."""

    def __init__(self, live: child.Live) -> None:
        self.live = live

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Training begins: from here on it ends after a step."""
        self.live.training = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step was traced."""
        self.live.step(state.global_step, state.max_steps)
        if self.live.stopping:
            control.should_training_stop = True


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A Unigram tokenizer."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=4000, special_tokens=list(SPECIAL.values()), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


def train(options: MaskedLanguageModel, live: child.Live) -> dict[str, Any]:
    """Train; returns the result."""
    child.require_device()
    set_seed(1)
    live.phase("reading the text")
    texts = list(text.documents(options.data))
    tokenizer = train_tokenizer(texts)
    encoded = tokenizer(texts, truncation=True, max_length=options.sequence_length)["input_ids"]
    config = AutoConfig.for_model(**BUILT_IN[options.model])
    trainer = Trainer(
        model=AutoModelForMaskedLM.from_config(config),
        args=TrainingArguments(
            output_dir=options.save_to,
            num_train_epochs=1,
            max_steps=options.steps or -1,
            per_device_train_batch_size=options.global_batch_size,
            learning_rate=options.learning_rate,
            optim="adamw_torch",
            save_strategy="no",
            disable_tqdm=True,
            report_to=[],
            dataloader_pin_memory=False,
        ),
        train_dataset=[{"input_ids": ids} for ids in encoded],
        data_collator=DataCollatorForLanguageModeling(tokenizer, pad_to_multiple_of=8),
        callbacks=[Progress(live)],
    )
    done = trainer.train()
    return {"steps": done.global_step, "loss": done.training_loss}


if __name__ == "__main__":
    sys.exit(child.run(MaskedLanguageModel, train))
