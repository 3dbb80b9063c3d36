"""The ordered rules that give each compile its cause: the first that applies wins.

Each rule is a function from `Evidence` to an `Explanation`, or None when it does not apply. ``series`` looks at whole
families afterwards, since some causes show only in what came later. To tell more causes apart, add a rule.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_insight.analysis.recompiles.evidence import Evidence, Explanation
from xla_insight.analysis.recompiles.rules.initial import pending_values
from xla_insight.analysis.recompiles.rules.inputs import (
    changed_inputs,
    data_dependent_shape,
    other_weights,
    state_shape,
)
from xla_insight.analysis.recompiles.rules.known import (
    evicted,
    failed_before,
    first_graph,
    single_operation,
    unexplained,
    without_graphs,
)
from xla_insight.analysis.recompiles.rules.simplified import simplified_scalar
from xla_insight.analysis.recompiles.rules.structure import (
    control_flow,
    gradients_appeared,
    leftover,
    live_outputs,
    parameters_replaced,
    same_computation,
    sharding_marks,
    state_by_position,
)
from xla_insight.analysis.recompiles.rules.values import nearly_same_structure, optimizer_state, same_structure, scalars

Rule = Callable[[Evidence], Explanation | None]

RULES: tuple[Rule, ...] = (
    evicted,
    failed_before,
    single_operation,
    first_graph,
    without_graphs,
    same_computation,
    sharding_marks,
    optimizer_state,
    changed_inputs,
    data_dependent_shape,
    other_weights,
    state_shape,
    scalars,
    same_structure,
    parameters_replaced,
    live_outputs,
    pending_values,
    simplified_scalar,
    leftover,
    state_by_position,
    gradients_appeared,
    nearly_same_structure,
    control_flow,
    unexplained,
)


def explanation_of(evidence: Evidence) -> Explanation:
    """The explanation of the first rule that applies; `unexplained` always does."""
    return next(found for rule in RULES if (found := rule(evidence)) is not None)
