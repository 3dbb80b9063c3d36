"""Finding `stale_parameters`: the optimizer holds tensors that the module has no longer, so these stop training."""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.tables import RunTables
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity

_BEFORE = (
    "Move first, then make the optimizer: module.to(device), and after it the optimizer from module.parameters() (and"
    " schedulers from that optimizer)."
)
_DURING = (
    "Do not move the module: copy its state instead, as in {name: tensor.cpu() for name, tensor in"
    " module.state_dict().items()}. When it must be moved, make the optimizer anew afterwards."
)


def stale_parameters(context: Context) -> tuple[Finding, ...]:
    """One finding for each place that replaced parameters under an optimizer."""
    found = []
    rows = context.tables["stale"]
    for (process, site), group in rows.groupby(["process", "site"], sort=False):
        place = context.tables.place(int(process), site)
        first = group.iloc[0]
        step = "" if first["step"] != first["step"] else f" from step {int(first['step'])} on"
        found.append(
            Finding(
                id="stale_parameters",
                severity=Severity.CRITICAL,
                site=place.site,
                user_site=place.user_site,
                count=len(group),
                cost_s=None,
                summary=(
                    f"The module was moved at {numbers.where(place.site, place.user_site)} and got new parameters; the"
                    f" {first['optimizer']} optimizer still holds {numbers.count(int(first['parameters']))} of the old"
                    f" ones, so the weights do not train{step}."
                ),
                advice=_DURING if _had_trained(context.tables, int(process), int(first["time_ns"])) else _BEFORE,
                details={"optimizer": str(first["optimizer"]), "parameters": int(first["parameters"])},
            )
        )
    return tuple(found)


def _had_trained(tables: RunTables, process: int, time_ns: int) -> bool:
    """Whether a graph of any size had been cut before: a module that moves earlier is on its way to the device."""
    ran = tables.of("ran", process)
    return bool((ran["first_ns"] < time_ns).any())
