"""A change to start from: a line or two of code for a cause, with the names that the recording knows.

Owns the code. Leaves the advice in words to ``recompiles``, and whether to show it to surfaces.
"""

from __future__ import annotations

import re
from typing import Any

from xla_insight.facts.report import Recompile, ShapeFacts

_MULTIPLE = 64
_SLICES = frozenset({"slice", "dynamic-slice", "dynamic-update-slice", "gather"})
_SELECT = (
    "start = torch.tensor(start, device=device)  # a tensor is an input; a Python number is part of the graph\n"
    "part = x.index_select(0, start + torch.arange(size, device=device))"
)
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


def code_change(entry: Recompile, shapes: ShapeFacts | None = None) -> str:
    """Code to copy for a cause that should be changed; empty when there is none or nothing should be.

    ``shapes``: the plan of padding of the run; where it is about what changes here, its code is the one to copy.
    """
    if entry.expected or not entry.advice:
        return ""
    name = str(entry.root.get("input") or "")
    if entry.cause == "input_shape":
        if shapes is not None and name and shapes.covers(name, entry.root.get("dimension")):
            return shapes.code
        return _padding(entry.root, name)
    if entry.cause == "baked_value" and entry.root.get("opcode") in _SLICES:
        return _SELECT
    return _FIXED.get(entry.cause, "").format(name=_variable(name))


def _padding(root: dict[str, Any], name: str) -> str:
    """Padding of the dimension that moves where no plan could be made: the batch by dropping what is short."""
    dimension, sizes = root.get("dimension"), [_dims(str(root.get(key) or "")) for key in ("now", "before")]
    if dimension == 0:
        return "DataLoader(dataset, batch_size=batch_size, drop_last=True)  # or dataloader_drop_last=True of a Trainer"
    if not isinstance(dimension, int) or any(dimension >= len(dims) for dims in sizes):
        return f"DataCollatorWithPadding(tokenizer, pad_to_multiple_of={_MULTIPLE})"
    x = _variable(name)
    sides = ", ".join(["0, 0"] * (len(sizes[0]) - 1 - dimension) + [f"0, -{x}.shape[{dimension}] % {_MULTIPLE}"])
    return f"{x} = torch.nn.functional.pad({x}, ({sides}))  # before it goes to the device; mask what is added"


def _variable(name: str) -> str:
    return name if name.isidentifier() else "x"


def _dims(shape: str) -> tuple[int, ...]:
    """The sizes of a type such as ``s64[8,137]``; none when the text is no type."""
    match = re.search(r"\[(\d+(?:,\d+)*)\]", shape)
    return tuple(map(int, match[1].split(","))) if match else ()
