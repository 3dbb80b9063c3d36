"""What is said when a training has ended: its report and its result. Leaves the report to ``report``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from xla_insight.facts import numbers

if TYPE_CHECKING:
    from xla_insight.cli.train import Outcome


def print_reports(outcomes: Sequence[Outcome], stream: TextIO) -> None:
    """The report of each training, and below it what the training itself gave back."""
    from xla_insight.analysis import analyze
    from xla_insight.report.text import print_report

    for outcome in outcomes:
        print_report(analyze(outcome.run), stream)
        stream.write("\n")
        for line in result_lines(outcome):
            stream.write(f"{line}\n")


def result_lines(outcome: Outcome) -> list[str]:
    """The result of a training in a few lines: steps, loss, where the model lies, what it said."""
    result = outcome.result
    lines = []
    if result.get("interrupted") or outcome.status == 130:
        lines.append("Interrupted: what was recorded until then is above.")
    if "steps" in result:
        loss = result.get("loss")
        tail = "" if loss is None else f", last loss {numbers.significant(loss)}"
        lines.append(f"Trained {numbers.plural(result['steps'], 'step')}{tail}.")
        if loss is not None and not math.isfinite(loss):
            lines.append("The loss is not a number any more: the weights are of no use. Try a lower learning rate.")
    lines += [str(line) for line in result.get("lines", ())]
    return lines


def print_benchmark(outcomes: Sequence[Outcome], stream: TextIO) -> None:
    """The table of training minutes over all trainings."""
    from xla_insight.analysis import analyze
    from xla_insight.analysis.benchmark import Training, benchmark_row
    from xla_insight.report import benchmark_text

    rows = []
    for outcome in outcomes:
        facts: Any = outcome.workload
        full = outcome.result.get("steps_full")
        training = Training(facts.model, facts.global_batch_size, facts.precision, full)
        rows.append(benchmark_row(training, analyze(outcome.run)))
    benchmark_text.print_benchmark(rows, stream)


def print_custom_calls(outcomes: Sequence[Outcome], stream: TextIO) -> None:
    """The custom calls of the training's graphs and its result, or those of the files that were named instead."""
    from xla_insight.analysis.custom_calls import custom_calls, custom_calls_of_file
    from xla_insight.report import custom_calls_text
    from xla_insight.store.reader import open_run

    for outcome in outcomes:
        if not outcome.run:
            files: tuple[str, ...] = getattr(outcome.workload, "hlo", ())
            listed = tuple(custom_calls_of_file(file) for file in files)
            graphs, looked_at = tuple(calls for calls in listed if calls.calls), len(listed)
        else:
            with open_run(outcome.run) as run:
                graphs, looked_at = custom_calls(run)
        custom_calls_text.print_custom_calls(graphs, looked_at, stream)
        for line in result_lines(outcome):
            stream.write(f"{line}\n")
