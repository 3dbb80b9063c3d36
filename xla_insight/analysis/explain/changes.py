"""A change to start from: a line or two of code for a cause, with the names that the recording knows.

Owns the code. Leaves the advice in words to ``recompiles``, and whether to show it to surfaces.
"""

from __future__ import annotations

from typing import Any

from xla_insight.facts.report import Recompile

_MULTIPLE = 64
_FIXED = {
    "input_dtype": "{name} = {name}.to(torch.int64)  # one dtype for every batch",
    "data_dependent_shape": (
        "# keep the shape, let the values decide\n"
        "loss = torch.where(mask, loss_of_each, 0.0).sum() / mask.sum().clamp(min=1)"
    ),
    "python_shape": (
        "# one size for every step, what is beyond it masked\nmask = torch.arange(longest, device=device) < length"
    ),
    "baked_value": "value = torch.tensor(value, device=device)  # an input now, no longer a part of the graph",
    "special_scalar": "value = torch.tensor([value], device=device)  # one element: 0 and 1 stay inputs, too",
    "shared_scalar": "value = torch.tensor([value], device=device)  # one element: never shared with an equal scalar",
    "control_flow": "out = torch.where(condition, then_value, else_value)  # both sides, in one graph",
    "graph_growth": "total += loss.detach()\ntorch_xla.sync()  # at the end of each step",
    "live_outputs": "torch_xla.sync()  # before tensors of this step are stored or dropped",
    "parameters_replaced": "parameter.data.copy_(new_value)  # in place, instead of a new nn.Parameter",
    "evicted": "export XLA_COMPILATION_CACHE_SIZE=4096",
}


def code_change(entry: Recompile) -> str:
    """Code to copy for a cause that should be changed; empty when there is none or nothing should be."""
    if entry.expected or not entry.advice:
        return ""
    name = str(entry.root.get("input") or "") or "tensor"
    name = name if name.isidentifier() else "tensor"
    if entry.cause == "input_shape":
        return _padding(entry.root, name)
    return _FIXED.get(entry.cause, "").format(name=name)


def _padding(root: dict[str, Any], name: str) -> str:
    """Padding of the dimension that moves: the batch by dropping what is short, any other to a few sizes."""
    dimension, rank = root.get("dimension"), _rank(str(root.get("now") or ""))
    if dimension == 0:
        return "DataLoader(dataset, batch_size=batch_size, drop_last=True)  # or dataloader_drop_last=True of a Trainer"
    if not isinstance(dimension, int) or rank is None or dimension >= rank:
        return f"DataCollatorWithPadding(tokenizer, pad_to_multiple_of={_MULTIPLE})"
    sides = ", ".join(["0, 0"] * (rank - 1 - dimension) + [f"0, -{name}.shape[{dimension}] % {_MULTIPLE}"])
    return (
        f"{name} = torch.nn.functional.pad({name}, ({sides}))  # before it goes to the device\n"
        f"# with a Trainer: DataCollatorWithPadding(tokenizer, pad_to_multiple_of={_MULTIPLE})"
    )


def _rank(shape: str) -> int | None:
    """The rank of a type such as ``s64[8,137]``; None when the text is none."""
    _, bracket, rest = shape.partition("[")
    dims = rest.partition("]")[0]
    return None if not bracket else len(dims.split(",")) if dims else 0
