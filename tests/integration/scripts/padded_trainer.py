"""A Trainer on texts of many lengths and a last batch of two: as they are, then padded to a bucket.

Prints losses, shapes and compiles of each, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla.debug.metrics as met
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments, set_seed

from xla_insight.padding import BucketCollator

LENGTHS = (9, 12, 7, 24, 8)
"""The longest of each batch of four."""


class Pad:
    """Pads to the longest, with a mask and labels."""

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        texts = [feature["input_ids"] for feature in features]
        longest = max(map(len, texts))
        ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
        mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


class Watch:
    """Notes the shapes that the wrapped collator gives."""

    def __init__(self, collator: Any) -> None:
        self.collator = collator
        self.shapes: set[tuple[int, ...]] = set()

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = self.collator(features)
        self.shapes.add(tuple(batch["input_ids"].shape))
        return batch


class Losses(TrainerCallback):
    """Keeps every logged loss."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_log(self, _args: Any, _state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in logs:
            self.losses.append(float(logs["loss"]))


def samples() -> list[dict[str, Any]]:
    """Five batches of texts, each with one of full length; the last batch is half of the others."""
    chance = torch.Generator().manual_seed(0)
    found = []
    for number, longest in enumerate(LENGTHS):
        for place in range(4 if number < len(LENGTHS) - 1 else 2):
            length = longest if place == 0 else max(3, longest - 2 * place)
            found.append({"input_ids": torch.randint(1, 90, (length,), generator=chance).tolist()})
    return found


def compiled() -> int:
    """How often the framework has compiled."""
    data = met.metric_data("CompileTime")
    return data[0] if data else 0


def train(collator: Any) -> None:
    """Train one epoch in order, log every step."""
    set_seed(1)
    before = compiled()
    watch, losses = Watch(collator), Losses()
    config = BertConfig(
        vocab_size=96,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    arguments = TrainingArguments(
        output_dir=sys.argv[1],
        num_train_epochs=1,
        per_device_train_batch_size=4,
        optim="adamw_torch",
        logging_steps=1,
        save_strategy="no",
        train_sampling_strategy="sequential",
        report_to=[],
        dataloader_pin_memory=False,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=BertForMaskedLM(config),
        args=arguments,
        train_dataset=samples(),
        data_collator=watch,
        callbacks=[losses],
    )
    trainer.train()
    shapes = sorted(map(list, watch.shapes))
    print(json.dumps({"losses": losses.losses, "shapes": shapes, "compiles": compiled() - before}))


if __name__ == "__main__":
    train(Pad())
    train(BucketCollator(Pad(), {"input_ids": [24]}, rows=4, pad_values={"input_ids": 0}))
