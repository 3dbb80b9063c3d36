"""A small training whose graph holds custom calls: to run, to read and to copy.

Owns the training of the workload `kernels`. Knows nothing of being recorded.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch_xla
from torch_xla import runtime
from torch_xla.experimental.stablehlo_custom_call import stablehlo_custom_call

from xla_insight.runner import child
from xla_insight.runner.kernels import Kernels

HEADS = 2
KEPT = 4


def attend(hidden: torch.Tensor) -> torch.Tensor:
    """Self-attention over [1, heads, tokens, width]: a Pallas kernel on a TPU, plain operations elsewhere."""
    if runtime.device_type() == "TPU":
        from torch_xla.experimental.custom_kernel import flash_attention

        attended: torch.Tensor = flash_attention(hidden, hidden, hidden, causal=False)
        return attended
    return torch.nn.functional.scaled_dot_product_attention(hidden, hidden, hidden)


def largest(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest `KEPT` values of each row and their places, by the kernel that XLA calls TopK.

    ``scores`` is [rows, columns]. torch.topk would sort instead.
    """
    rows = scores.shape[0]
    if runtime.device_type() != "CPU":
        values, places = scores.topk(KEPT)
        return values, places
    values, places = stablehlo_custom_call(
        [scores], "TopK", [[rows, KEPT], [rows, KEPT]], [torch.float32, torch.int32], has_side_effect=False
    )
    return values, places


def train(options: Kernels, live: child.Live) -> dict[str, Any]:
    """Train a projection so that attention, its spectrum and its largest scores have custom calls in every step."""
    device = child.require_device()
    torch.manual_seed(1)
    projection = torch.nn.Linear(options.width, options.width * HEADS).to(device)
    optimizer = torch.optim.SGD(projection.parameters(), lr=1e-3)
    live.training = True
    steps, loss = 0, torch.zeros((), device=device)
    while steps < options.steps and not live.stopping:
        batch = torch.randn(options.tokens, options.width).to(device)
        hidden = projection(batch).view(1, options.tokens, HEADS, options.width).transpose(1, 2)
        attended = attend(hidden)
        flat = attended.transpose(1, 2).reshape(options.tokens, -1)
        covariance = (flat.T @ flat).detach() / options.tokens
        spectrum = torch.linalg.eigh(covariance).eigenvalues
        values, _ = largest(flat.detach())
        loss = (flat - batch.repeat(1, HEADS)).square().mean() + 0.0 * (spectrum.sum() + values.sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        steps += 1
        live.step(steps, options.steps)
    return {"steps": steps, "loss": loss.item()}


if __name__ == "__main__":
    sys.exit(child.run(Kernels, train))
