"""What the program did between the last sync and a cut: uploads, reads, operations whose result has a size of its own.

Owns the lookup by time. Each table is sorted once; a lookup costs a binary search.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from xla_insight.analysis.tables import Place, RunTables, integers
from xla_insight.facts.events import Trigger

NEVER_NS = -(1 << 62)
_PARTIAL = (Trigger.READ, Trigger.FORCED, Trigger.AUTOGRAD)
"""Cuts that run a part of the pending graph."""
MAX_SCALARS = 64
MAX_LOOKBACK = 5_000
"""Uploads looked through for one that came long before its use."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A tensor on its way to the device. ``name`` is its key in the batch, empty when it came from no batch."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    place: Place
    maker: Place | None
    """The function that made the batch (the collator), when the tensor came from a loader."""


@dataclass(frozen=True, slots=True)
class Since:
    """What happened between the last sync and a cut. ``operations``: CPU operations with their count."""

    uploads: tuple[Upload, ...] = ()
    operations: Counter[str] | None = None
    scalars: frozenset[int] = frozenset()
    read_graphs: tuple[str, ...] = ()
    """Graphs that value reads executed."""
    previous: tuple[str, ...] = ()
    """The graphs executed since the last sync and by it, latest first."""
    replaced: Place | None = None
    """Where a module's parameters were replaced under an optimizer that still holds the old ones."""


