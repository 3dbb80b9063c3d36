"""The pages, one module each: what is shown, and thin callbacks that fill it from ``data``.

Owns the list of pages; navigation shows exactly these, in this order.
"""

from .cache import PAGE as CACHE
from .compare import PAGE as COMPARE
from .graphs import PAGE as GRAPHS
from .overview import PAGE as OVERVIEW
from .page import Page
from .recompilations import PAGE as RECOMPILATIONS
from .shapes import PAGE as SHAPES

PAGES: tuple[Page, ...] = (OVERVIEW, RECOMPILATIONS, SHAPES, CACHE, GRAPHS, COMPARE)
