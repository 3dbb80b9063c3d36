"""Problems beside recompiles: one module a finding, each a pure rule over the prepared tables.

Owns the list of rules and the order of their results. Each rule returns the findings it can prove, or none.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_insight.analysis.findings.checkpoint_stall import checkpoint_stall
from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.device_bound import device_bound
from xla_insight.analysis.findings.donation_wait import donation_wait
from xla_insight.analysis.findings.eager_mode import eager_mode
from xla_insight.analysis.findings.fallback import fallback
from xla_insight.analysis.findings.gc_pauses import gc_pauses
from xla_insight.analysis.findings.host_sync import host_sync
from xla_insight.analysis.findings.input_bound import input_bound
from xla_insight.analysis.findings.loader_error import loader_error
from xla_insight.analysis.findings.missing_sync import missing_sync
from xla_insight.analysis.findings.persistent_cache import persistent_cache_unusable
from xla_insight.analysis.findings.rank_divergence import rank_divergence
from xla_insight.analysis.findings.slow_compile import slow_compile
from xla_insight.analysis.findings.stale_parameters import stale_parameters
from xla_insight.analysis.findings.trace_bound import trace_bound
from xla_insight.analysis.findings.transfer_bound import transfer_bound
from xla_insight.analysis.findings.waiting_sync import waiting_sync
from xla_insight.facts.report import Finding, Severity

FindingRule = Callable[[Context], tuple[Finding, ...]]

RULES: tuple[FindingRule, ...] = (
    loader_error,
    stale_parameters,
    rank_divergence,
    missing_sync,
    slow_compile,
    eager_mode,
    persistent_cache_unusable,
    host_sync,
    waiting_sync,
    fallback,
    input_bound,
    checkpoint_stall,
    trace_bound,
    transfer_bound,
    gc_pauses,
    donation_wait,
    device_bound,
)
_SEVERITY_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)

__all__ = ["RULES", "Context", "all_findings"]


def all_findings(context: Context) -> tuple[Finding, ...]:
    """The findings of all rules, most severe and most costly first."""
    found = [finding for rule in RULES for finding in rule(context)]
    return tuple(sorted(found, key=lambda f: (_SEVERITY_ORDER.index(f.severity), -(f.cost_s or 0.0), -f.count)))
