"""A small masked language model, trained with the Hugging Face Trainer on XLA: an ordinary script, to run and to copy.

Nothing in here is about recording. The text is the reference manual that every Python ships, so it needs no download.
Two habits of real training scripts make it slower than it has to be: each batch is padded to its own longest text, and
the attention mask goes to the model as it comes from the collator.

    xla-insight run demo_train.py
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pydoc_data.topics import topics

os.environ.setdefault("PJRT_DEVICE", "CPU")  # must stand before torch_xla wakes up; leave it out on a TPU host

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
LONGEST = 96


def paragraphs() -> list[str]:
    """Every paragraph of Python's own manual that has at least four words."""
    found = (" ".join(part.split()) for text in topics.values() for part in re.split(r"\n\s*\n", text))
    return [part for part in found if part.count(" ") >= 3]


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A Unigram tokenizer of 4,000 pieces, trained on ``texts``."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=4000, special_tokens=list(SPECIAL.values()), unk_token=SPECIAL["unk_token"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **SPECIAL)


def build_model(tokenizer: PreTrainedTokenizerFast, layers: int, width: int) -> BertForMaskedLM:
    """A BERT of the given size with random weights."""
    return BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=4 * width,
            max_position_embeddings=LONGEST,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def main() -> None:
    """Train for one pass over the text, or for ``--steps``."""
    parser = argparse.ArgumentParser(description="Train a small masked language model on Python's own manual.")
    parser.add_argument("--steps", type=int, default=-1, help="stop after this many steps; -1: one pass over the text")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=96, help="a multiple of 4")
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    set_seed(1)
    texts = paragraphs()
    tokenizer = train_tokenizer(texts)
    encoded = tokenizer(texts, truncation=True)["input_ids"]
    print(f"{len(texts):,} paragraphs, {sum(map(len, encoded)):,} tokens", flush=True)
    trainer = Trainer(
        model=build_model(tokenizer, options.layers, options.width),
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(prefix="demo-train-"),
            num_train_epochs=1,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch_size,
            learning_rate=5e-4,
            optim="adamw_torch",  # the fused default of transformers 5 refuses XLA tensors
            logging_steps=20,
            save_strategy="no",
            dataloader_pin_memory=False,
            report_to=[],
        ),
        train_dataset=[{"input_ids": ids} for ids in encoded],
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, pad_to_multiple_of=8),
    )
    trainer.train()


if __name__ == "__main__":
    main()
