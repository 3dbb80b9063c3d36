"""A Trainer run of a two-layer BERT in which all batches have one shape.

MASK: "plain" hands the model the mask as collators make it, which transformers reads in each step; "4d" hands it the
same mask as floats of four dimensions, which are added to the scores as they are.
"""

import os
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

ROWS, WIDTH, STEPS = 16, 48, 30


class Rows(Dataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.randint(5, 500, (ROWS * STEPS, WIDTH), generator=generator)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "length": torch.tensor(WIDTH - index % 5)}


def collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    ids = torch.stack([row["input_ids"] for row in rows])
    mask = torch.arange(WIDTH)[None, :] < torch.stack([row["length"] for row in rows])[:, None]
    labels = torch.where(mask, ids, -100)
    if os.environ["MASK"] == "plain":
        return {"input_ids": ids, "attention_mask": mask.long(), "labels": labels}
    added = torch.zeros(len(rows), 1, WIDTH, WIDTH).masked_fill(~mask[:, None, None, :], torch.finfo(torch.float32).min)
    return {"input_ids": ids, "attention_mask": added, "labels": labels}


torch.manual_seed(0)
model = BertForMaskedLM(
    BertConfig(
        vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256,
        max_position_embeddings=WIDTH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
)  # fmt: skip
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=ROWS, max_steps=STEPS, logging_steps=STEPS,
    save_strategy="no", optim="adamw_torch", report_to=[], disable_tqdm=True, seed=0, data_seed=0,
    remove_unused_columns=False,
)  # fmt: skip
Trainer(model=model, args=arguments, train_dataset=Rows(), data_collator=collate).train()
