"""A tiny Trainer run: BERT of one layer, dynamic padding, an attention mask. Prints the logged losses.

TRAINER_WAY: how it is recorded from inside: "" (not at all), "profile" or "callback", to TRAINER_OUT.
"""

import contextlib
import json
import os
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

import xla_insight as xi

WAY = os.environ.get("TRAINER_WAY", "")
OUT = os.environ.get("TRAINER_OUT", "")


class Rows(Dataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        lengths = [9, 12, 9, 12]
        self.rows = [torch.randint(5, 100, (lengths[i // 4 % 4],), generator=generator) for i in range(16)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index]}


def collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    width = max(len(row["input_ids"]) for row in rows) + 1
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row["input_ids"])] = row["input_ids"]
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.where(ids > 0, ids, -100)}


torch.manual_seed(0)
model = BertForMaskedLM(
    BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32,
    )
)  # fmt: skip
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, max_steps=8, logging_steps=4, save_strategy="steps",
    save_steps=8, optim="adamw_torch", report_to=[], disable_tqdm=True, seed=0, data_seed=0,
)  # fmt: skip
callbacks = [xi.TrainerCallback(OUT)] if WAY == "callback" else []
trainer = Trainer(model=model, args=arguments, train_dataset=Rows(), data_collator=collate, callbacks=callbacks)
with xi.profile(OUT) if WAY == "profile" else contextlib.nullcontext():
    trainer.train()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
weights = [parameter.detach().cpu().double().sum().item().hex() for parameter in model.parameters()]
print(json.dumps({"losses": [float(loss).hex() for loss in losses], "weights": weights}))
