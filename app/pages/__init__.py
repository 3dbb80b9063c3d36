"""The pages, one module each: what is shown, and thin callbacks that fill it from ``data``.

Owns the list of pages; navigation shows exactly these, in this order.
"""

from .cache import PAGE as CACHE
from .compare import PAGE as COMPARE
from .graphs import PAGE as GRAPHS
from .idle import PAGE as IDLE
from .overview import PAGE as OVERVIEW
from .page import Page
from .ranks import PAGE as RANKS
from .recompilations import PAGE as RECOMPILATIONS
from .shapes import PAGE as SHAPES
from .timeline import PAGE as TIMELINE

PAGES: tuple[Page, ...] = (OVERVIEW, RECOMPILATIONS, TIMELINE, IDLE, SHAPES, RANKS, CACHE, GRAPHS, COMPARE)
