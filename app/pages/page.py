"""What a page is. Owns the record that a page module fills in; leaves the list of pages to the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dash import Dash

from ..address import Address
from ..data import Library
from ..ids import Route


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path, its word in the navigation, its layout for an address, and its callbacks."""

    route: Route
    word: str
    layout: Callable[[Address], Any]
    register: Callable[[Dash, Library], None]
