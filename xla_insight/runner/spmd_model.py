"""A small causal language model over bytes, in plain torch: its layers have names, so that they can be cut by hand.

Owns the model. Knows nothing of devices.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

BYTES = 256
HEADS = 4

Checkpoint = Callable[..., torch.Tensor]


class Block(nn.Module):  # type: ignore[misc]
    """Attention and feed-forward, each with a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.feed_in, self.feed_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states of shape (texts, bytes, width) to the same."""
        texts, length, width = hidden.shape
        mixed = self.query_key_value(self.attention_norm(hidden))
        query, key, value = mixed.view(texts, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-1, -2) * (width // HEADS) ** -0.5
        future = torch.ones(length, length, device=hidden.device).triu(1) * -1e9
        weighted = (scores + future).softmax(-1) @ value
        hidden = hidden + self.attention_out(weighted.transpose(1, 2).reshape(texts, length, width))
        fed = self.feed_out(functional.gelu(self.feed_in(self.feed_norm(hidden))))
        return hidden + fed


class ByteModel(nn.Module):  # type: ignore[misc]
    """Next-byte prediction. ``checkpoint`` wraps each block, to compute its activations again in the backward pass."""

    def __init__(self, layers: int, width: int, length: int, checkpoint: Checkpoint | None = None) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(BYTES, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, BYTES)
        self.checkpoint = checkpoint

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        """Bytes of shape (texts, bytes) to logits of shape (texts, bytes, 256)."""
        places = torch.arange(texts.shape[1], device=texts.device)
        hidden = self.embedding(texts) + self.positions(places)
        for block in self.blocks:
            hidden = self.checkpoint(block, hidden) if self.checkpoint is not None else block(hidden)
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits
