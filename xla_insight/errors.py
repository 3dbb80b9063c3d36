"""Errors meant for a person: one sentence that says what is wrong and what to do, and an exit code.

Owns the exception types that cross layers. Raised by everything outside the training process; inside it nothing is
raised into the user's code (see ``record``).
"""

from __future__ import annotations


class InsightError(Exception):
    """Base of all errors shown to a user as one line. ``exit_code`` is the process's exit status."""

    exit_code = 2


class UsageError(InsightError):
    """The call itself is wrong: an option, an argument, a combination of them."""


class RunNotFoundError(InsightError):
    """The given path is not a recorded run, or is gone."""


class RunExistsError(InsightError):
    """The place to record to already holds something; nothing is overwritten."""


class RunFormatError(InsightError):
    """A run exists but its format is unknown or too damaged to open."""


class GraphFormatError(InsightError):
    """A file or a stored graph is not a module that can be read (HLO proto, HLO text, torch_xla IR text)."""


class QueryError(InsightError):
    """An SQL query of the user failed."""


class ExportError(InsightError):
    """An export could not be written."""


class MissingDependencyError(InsightError):
    """An optional dependency is needed for what was asked."""


class CheckFailedError(InsightError):
    """A budget was broken (exit code 1: the input was fine, the answer is no)."""

    exit_code = 1


class TrainingDataError(InsightError):
    """Text, a shard or a checkpoint that a training needs cannot be read."""
