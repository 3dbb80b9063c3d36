"""The change to make for each cause, named in the API of the user's own framework.

Owns the advice only; leaves the sentence to ``wording``. Advice for a user who reads it once, at night: what to write
where, not why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from xla_insight.analysis.recompiles.evidence import Explanation
from xla_insight.analysis.recompiles.explain import Explained
from xla_insight.facts.report import ShapeFacts

Words = Callable[[Sequence[Explained]], str]
FEW_SIZES = 2
"""The batch and the last batch; more sizes than that are no matter of the last batch."""


def shown(members: Sequence[Explained]) -> Explanation:
    """The member shown as the example: the first that says both now and before, else one of them."""
    told = [m.explanation for m in members if m.explanation.now or m.explanation.before]
    return next((e for e in told if e.now and e.before), told[0] if told else members[0].explanation)


def advice(members: Sequence[Explained], shapes: ShapeFacts | None = None, *, harmless: bool = False) -> str:
    """What to change; empty when nothing should be. ``shapes``: the plan of padding of the run, which is the one named.

    Of what is ``harmless`` as often as it happened, only for causes that a reader may want to end all the same.
    """
    if harmless:
        return _HARMLESS.get(members[0].explanation.cause, "")
    planned = _planned(members, shapes)
    if planned:
        return planned
    words = _ADVICE.get(members[0].explanation.cause)
    return words(members) if words is not None else ""


def _planned(members: Sequence[Explained], shapes: ShapeFacts | None) -> str:
    """Padding to the sizes that the plan of this run has; empty when there is no plan for what changes here."""
    dims = {pair for m in members for pair in m.explanation.dims}
    if members[0].explanation.cause != "input_shape" or shapes is None or not dims:
        return ""
    if not all(shapes.covers(name, dimension) for name, dimension in dims):
        return ""
    if shapes.plan is None:
        return (
            "Padding to fewer sizes would end it, but over the steps recorded no plan pays for itself; `xla-insight"
            " shapes` with --horizon looks at a longer run."
        )
    return (
        f"Pad where the batch is made, with xla_insight.padding.BucketCollator around your collator: for this run"
        f" {shapes.change} is best, and `xla-insight shapes` has the lines to paste.{_last_batch(dims)}"
    )


def _last_batch(dims: set[tuple[str, int]]) -> str:
    return " For a last batch that is smaller, drop_last=True in the DataLoader does as well." if {
        dimension for _, dimension in dims
    } == {0} else ""  # fmt: skip


def _input_shape_advice(members: Sequence[Explained]) -> str:
    dims = Counter(d for m in members for _, d in m.explanation.dims)
    if dims and set(dims) == {0}:
        if _sizes(members) > FEW_SIZES:
            return (
                "Give it a fixed number of rows, or a few (8, 16, 32, ...): fill it up on the host, before the upload,"
                " and mask the added rows where they are used."
            )
        return (
            "Keep the batch size constant: drop_last=True in the DataLoader (dataloader_drop_last=True in"
            " TrainingArguments), or fill the last batch up with masked rows."
        )
    return (
        'Pad to a fixed size or to a few buckets where the batch is made: padding="max_length" or pad_to_multiple_of in'
        " a transformers collator, or xla_insight.padding.BucketCollator around yours; `xla-insight shapes`"
        " computes the"
        " buckets."
    )


def _sizes(members: Sequence[Explained]) -> int:
    """How many types an input had, as far as they were compared."""
    texts = {text for m in members for text in (m.explanation.before, m.explanation.now) if text}
    return len(texts)


def _input_dtype_advice(members: Sequence[Explained]) -> str:
    if shown(members).note == "state":
        return "Cast the module once, before the first step: each dtype of its tensors is a graph of its own."
    return "Give the tensor one dtype wherever it is made, before it goes to the device: .to(dtype) in the collator."


def _data_dependent_advice(members: Sequence[Explained]) -> str:
    if shown(members).note == "read":
        return (
            "Take the size on the host, from the batch before its upload, and round it up to one of a few (8, 16, 32,"
            " ...); or compute on the full size and mask the rest. Then no value has to be read for it either."
        )
    return (
        "Keep the shape and mask instead: multiply by the mask, torch.where or masked_fill for selections,"
        " ignore_index=-100 in cross_entropy for labels, a fixed capacity with one-hot for routing."
    )


def _python_shape_advice(members: Sequence[Explained]) -> str:
    if shown(members).note == "state":
        return (
            "Allocate the full size once and write into it: index_copy_ at a position that is a tensor on the"
            " device, and"
            ' a mask for what is not filled yet (a static cache in transformers: cache_implementation="static").'
        )
    return (
        "Make the size constant: compute on the full length and mask the rest, or allow a few fixed sizes and pad up to"
        " them on the host."
    )


def _baked_advice(members: Sequence[Explained]) -> str:
    example = shown(members)
    if example.opcode in ("slice", "dynamic-slice", "dynamic-update-slice", "pad", "gather", "concatenate"):
        return (
            "Pass the position as a tensor on the device: index_select or gather to read, index_copy_ to write (for a"
            " box, a mask made on the host and torch.where); or cut on the host, before the upload."
        )
    if example.opcode in ("power", "multiply"):
        return (
            "Pass the exponent as a tensor on the device: torch.exp(exponent * torch.log(x)), or change it in a few"
            " steps instead of every step."
        )
    return (
        "Pass the number as a tensor on the device (torch.tensor(value).to(device)), or let it change rarely: each new"
        " value is a new graph."
    )


def _special_advice(members: Sequence[Explained]) -> str:
    return f"To keep its value out of the graph, {_ONE_ELEMENT}. As a rare event it is harmless."


def _shared_advice(members: Sequence[Explained]) -> str:
    return f"Harmless as a rare event. If it recurs, {_ONE_ELEMENT}: that is never shared."


def _control_flow_advice(members: Sequence[Explained]) -> str:
    if shown(members).note == "weights":
        return (
            "Each module that is chosen in Python has a graph of its own (two, with the optimizer's first state)."
            " With few of them, let each come once; else run all and choose with torch.where, or hold their weights in"
            " one stacked tensor and pick with index_select."
        )
    return (
        "Do both branches and choose with torch.where, or take the decision rarely. For a loop, use a fixed number of"
        " rounds with a mask, or torch_xla's scan."
    )


def _growth_advice(members: Sequence[Explained]) -> str:
    if dict(members[0].explanation.details).get("reads"):
        return (
            "Cut the graph in every step: torch_xla.sync() at its end (or xm.optimizer_step(optimizer,"
            " barrier=True), or"
            " MpDeviceLoader). Reading a value runs the pending graph and does not end it."
        )
    return (
        "Detach what is carried into the next step (hidden = hidden.detach(), loss.detach() before it is summed"
        " up), and"
        " do not keep lists of tensors that still have a history or stack a list that gets longer."
    )


def _live_outputs_advice(members: Sequence[Explained]) -> str:
    if members[0].explanation.note == "leftover":
        return "Cut the graph with torch_xla.sync() after the loop that read the values, before training goes on."
    return "Delete or detach tensors that are not needed any more before the cut, in every step the same ones."


def _unknown_advice(members: Sequence[Explained]) -> str:
    if members[0].compile.place.site is None:
        return ""
    return (
        "Look for what differs between these steps: the size of a batch, a Python number used in the model, a"
        " branch, or"
        " a tensor that stays alive."
    )


_ONE_ELEMENT = (
    "hold the scalar in a tensor of one element on the device, torch.tensor([value], device=device), instead of passing"
    " a Python number"
)
_HARMLESS = {
    "special_scalar": (
        "Nothing has to change: of one scalar there are at most four variants (0, 1, -1 and any other value), each"
        f" compiled once and then found in the cache. To have only one, {_ONE_ELEMENT}."
    ),
    "shared_scalar": (
        "Nothing has to change: each way in which scalars are equal is compiled once and then found in the cache. To"
        f" have only one, {_ONE_ELEMENT}: that is never shared."
    ),
}
"""Causes of which a few compiles are no harm: what may be done all the same."""

_ADVICE: dict[str, Words] = {
    "input_shape": _input_shape_advice,
    "input_dtype": _input_dtype_advice,
    "data_dependent_shape": _data_dependent_advice,
    "python_shape": _python_shape_advice,
    "baked_value": _baked_advice,
    "special_scalar": _special_advice,
    "shared_scalar": _shared_advice,
    "control_flow": _control_flow_advice,
    "graph_growth": _growth_advice,
    "live_outputs": _live_outputs_advice,
    "parameters_replaced": lambda _: (
        "Create the optimizer after the module is on its device, and move copies to the CPU instead of the module:"
        " {name: tensor.cpu() for name, tensor in module.state_dict().items()}."
    ),
    "donation": lambda _: (
        "Hold on to the same tensors at every cut; a reference kept for logging changes what is reused."
    ),
    "sharding": lambda _: "Set mark_sharding once, before the first step, and for every new tensor the same way.",
    "evicted": lambda _: (
        "Raise XLA_COMPILATION_CACHE_SIZE above the number of distinct graphs in use, or reduce that number (fewer"
        " shapes,"
        " fewer branches)."
    ),
    "unknown": _unknown_advice,
}
