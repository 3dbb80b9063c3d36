"""A small Trainer run whose collator hands out the attention mask as MASK says: `2d` as usual, or `4d`, to be added.

Each batch is padded to the same width, so that nothing but the form of the mask differs between the two.
"""

import os
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

WIDTH, BATCH, STEPS = 64, 16, 30


class Rows(Dataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.rows = [torch.randint(5, 200, (20 + i % 40,), generator=generator) for i in range(STEPS * BATCH)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index]}


def collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    ids = torch.zeros(len(rows), WIDTH, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row["input_ids"])] = row["input_ids"]
    mask = (ids > 0).long()
    if os.environ["MASK"] == "4d":
        mask = torch.where(ids > 0, 0.0, torch.finfo(torch.float32).min)[:, None, None, :].expand(-1, 1, WIDTH, -1)
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(ids > 0, ids, -100)}


torch.manual_seed(0)
model = BertForMaskedLM(
    BertConfig(
        vocab_size=200, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=WIDTH,
    )
)  # fmt: skip
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=BATCH, max_steps=STEPS, logging_steps=100,
    save_strategy="no", optim="adamw_torch", report_to=[], disable_tqdm=True, seed=0, data_seed=0,
)  # fmt: skip
Trainer(model=model, args=arguments, train_dataset=Rows(), data_collator=collate).train()
