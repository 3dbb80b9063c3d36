"""Routes and component ids: every name that two places of the dashboard must agree on."""

from __future__ import annotations

from enum import StrEnum


class Route(StrEnum):
    """Paths of pages."""

    OVERVIEW = "/"
    RECOMPILATIONS = "/recompilations"
    TIMELINE = "/timeline"
    IDLE = "/idle"
    SHAPES = "/shapes"
    CACHE = "/cache"
    RANKS = "/ranks"
    GRAPHS = "/graphs"
    COMPARE = "/compare"


class Parameter(StrEnum):
    """Query parameters: the state of a view, so that a view can be sent to someone else."""

    RUN = "run"
    PROCESS = "process"
    STEPS = "steps"
    GRAPH = "graph"
    CAUSE = "cause"
    SORT = "sort"
    FILTER = "filter"
    AGAINST = "against"
    TIME = "time"
    GAP = "gap"


class Shell(StrEnum):
    """Components that every page shares."""

    LOCATION = "location"
    SCOPE = "scope"
    """Store: which run, process and state of its files a page shows."""
    STEPS = "selected-steps"
    """Store: selected first and last step, or null."""
    GRAPH = "selected-graph"
    """Store: selected graph hash, or null."""
    CAUSE = "selected-cause"
    """Store: key of the selected cause, or null."""
    BODY = "body"
    BODY_KEY = "body-key"
    TICK = "tick"
    CLOCK = "clock"
    PICKER = "run-picker"
    RUN_STATE = "run-state"
    AGE = "age"
    NAVIGATION = "navigation"
    THEME = "theme"
    SCREEN = "screen"
    """Store: `width` of the page in CSS pixels and colour `scheme`, as they are now."""
    TITLE = "title"


class Strip(StrEnum):
    """The step figure and what belongs to it."""

    FIGURE = "steps-figure"
    DRAGGED = "steps-dragged"
    """Store: as on the timeline."""
    RANGE = "steps-range"
    RESET = "steps-reset"
    PROCESS = "steps-process"
    PROCESS_BOX = "steps-process-box"
    HEIGHT = "steps-height"
    HEIGHT_BOX = "steps-height-box"
    LEGEND = "steps-legend"
    STATES = "steps-states"


class Overview(StrEnum):
    """Components of the page Overview."""

    HEAD = "overview-head"
    COSTS = "overview-costs"


class Recompilations(StrEnum):
    """Components of the page Recompilations."""

    HEAD = "recompilations-head"
    GRID = "recompilations-grid"
    DETAIL = "recompilations-detail"
    ROOT = "recompilations-root"
    CHANGE = "recompilations-change"
    DIFFERENCE = "recompilations-difference"
    MEMBERS = "recompilations-members"
    MEMBERS_HEAD = "recompilations-members-head"
    EXPORT = "recompilations-export"
    SHOWN = "recompilations-shown"
    """Store: what the difference shows, so that it is not drawn again while a run records."""
    FOLD = "listing-fold"
    UNFOLD = "listing-unfold"
    """Types of pattern ids: a folded stretch of rows, and the button that opens it."""


class Timeline(StrEnum):
    """Components of the page Timeline."""

    HEAD = "timeline-head"
    FIGURE = "timeline-figure"
    DRAGGED = "timeline-dragged"
    """Store: the range that was last dragged over the figure, as plotly gives it."""
    DRAWN = "timeline-drawn"
    """Store: what the page shows, so that it is not drawn again when the address follows."""
    LEGEND = "timeline-legend"
    OUT = "timeline-out"
    WHOLE = "timeline-whole"
    EARLIER = "timeline-earlier"
    LATER = "timeline-later"
    DETAIL = "timeline-detail"


class Idle(StrEnum):
    """Components of the page Idle."""

    HEAD = "idle-head"
    FIGURE = "idle-figure"
    DRAGGED = "idle-dragged"
    """Store: as on the timeline."""
    LEGEND = "idle-legend"
    TABLES = "idle-tables"


class Graphs(StrEnum):
    """Components of the page Graphs."""

    HEAD = "graphs-head"
    GRID = "graphs-grid"
    DETAIL = "graphs-detail"
    EXPORT = "graphs-export"
    CLEAR = "graphs-clear"
    SEARCH = "graphs-search"
    TEXT = "graphs-text"
    TEXT_SECTION = "graphs-text-section"


class Shapes(StrEnum):
    """Components of the page Shapes."""

    HEAD = "shapes-head"
    FIGURES = "shapes-figures"
    FIGURE = "shapes-figure"
    """One of them, with the number of its axis."""
    OUTCOME = "shapes-outcome"
    PLANS = "shapes-plans"
    CODE = "shapes-code"
    GRID = "shapes-grid"
    EXPORT = "shapes-export"
    BUCKETS = "shapes-buckets"
    """How many buckets; 0: as many as pay."""
    HORIZON = "shapes-horizon"
    OBJECTIVE = "shapes-objective"
    OWN = "shapes-own"
    """Bucket ends of someone's own choice, as text."""
    PROBLEM = "shapes-own-problem"


class Caches(StrEnum):
    """Components of the page Cache."""

    HEAD = "cache-head"
    CURVE = "cache-curve"
    FOLDERS = "cache-folders"


class Ranks(StrEnum):
    """Components of the page Ranks & devices."""

    HEAD = "ranks-head"
    BODY = "ranks-body"
    TABLES = "ranks-tables"
    COLLECTIVES = "ranks-collectives"
    SHARDINGS = "ranks-shardings"
    EXPORT_COLLECTIVES = "ranks-export-collectives"
    EXPORT_SHARDINGS = "ranks-export-shardings"


class Compare(StrEnum):
    """Components of the page Compare."""

    HEAD = "compare-head"
    PICKER = "compare-picker"
    CONTENT = "compare-content"
    TREND = "compare-trend"
