"""Finding `host_sync`: Python reads a tensor's value again and again, so that host and device take turns.

Owns which reads count: not one read at the end, not those that a step closure makes after the cut, not those of a
checkpoint (see ``checkpoint_stall``). One finding a place in the code.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.reads import INSIDE, INSIDE_BACKWARD, Role, classified_reads
from xla_insight.analysis.findings.repeated_work import repeated_work
from xla_insight.analysis.tables import Place
from xla_insight.analysis.time_account import process_account
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Severity

MANY_READS = 3
MANY_EXECUTING_READS = 2
MANY_COMPILES = 3
"""So many graphs compiled for the reads of one line are a cost of the reads; one or two are start-up."""
FEW_STEPS = 2
"""A run that ended so early shows in one step what repeats in the next."""
FREQUENT_STEPS = 2
"""Reads at least once in this many steps disturb a run."""
NOTABLE_SHARE = 0.02
"""Rarer reads disturb it when they wait for this share of wall time."""
NOTABLE_COMPILE_SHARE = 0.1
"""The same for compiles that only they need, which come once."""
_WHOLE = ("cpu", "to", "to_cpu", "numpy")
"""Methods that copy a tensor of any size."""
_TRAINER = "transformers/trainer.py"
_PACKED = "find_packed_sequence_indices"


def host_sync(context: Context) -> tuple[Finding, ...]:
    """One finding for each place that reads values repeatedly."""
    reads = classified_reads(context.tables)
    if not reads.places:
        return ()
    keys = list(dict.fromkeys(_key(place) for place in reads.places))
    by_key = {_key(place): place for place in reads.places}
    line_of = np.array([keys.index(_key(place)) for place in reads.places], np.int64)
    training = reads.of(Role.TRAINING)
    stepped = set(context.tables["steps"]["process"].unique())
    groups = training.groupby(line_of[training["stack"].to_numpy()], sort=False)
    few = len(context.tables["steps"]) <= FEW_STEPS * max(1, len(context.tables.processes))
    lines = [(by_key[keys[int(number)]], rows) for number, rows in groups if _repeated(rows, stepped, few)]
    return tuple(_finding(context, place, rows) for place, rows in lines)


def _key(place: Place) -> Hashable:
    def spot(site: object) -> Hashable:
        return (getattr(site, "file", None), getattr(site, "line", None))

    return (spot(place.site), spot(place.user_site))


def _repeated(rows: pd.DataFrame, stepped: set[int], few: bool) -> bool:
    """Whether reads at one place recur during training: in more than one step, where steps are known; in a run of few
    steps (it was stopped, since it was so slow) also within a step, when graphs are compiled for them.
    """
    for process, own in rows.groupby("process"):
        during = own[own["step"].notna()] if process in stepped else own
        if few and int((own["compile_ns"] > 0).sum()) >= MANY_COMPILES:
            return True
        if process in stepped and during["step"].nunique() < 2:
            continue
        if len(during) >= MANY_READS or int((during["executions"] > 0).sum()) >= MANY_EXECUTING_READS:
            return True
    return False


def _idle_s(rows: pd.DataFrame) -> float | None:
    """Seconds that the device stood idle because these reads had waited for it; None when it was not observed."""
    return None if rows["idle_ns"].isna().all() else float(rows["idle_ns"].sum()) / 1e9


def _compile_s(rows: pd.DataFrame) -> float:
    """Seconds of compiling that the reads alone needed: parts of the step, each as a graph of its own."""
    return float(rows["compile_ns"].sum()) / 1e9 if _compiles(rows) >= MANY_COMPILES else 0.0


def _compiles(rows: pd.DataFrame) -> int:
    """Graphs compiled for reads; a backward pass may have needed several."""
    compiling = rows[(rows["compile_ns"] > 0).to_numpy(dtype=np.bool_)]
    return int(compiling["compiles"].fillna(1).clip(lower=1).sum())


def _cost_s(context: Context, rows: pd.DataFrame) -> float:
    """Seconds that these reads cost at most: the idle time they leave behind, but no more than the training thread
    waits for the device in all, because done side by side host and device take as long as the longer of them; and what
    moving the values takes. All that the reads waited, where the device was not observed."""
    if _elsewhere(rows):
        return 0.0
    idle_s = _idle_s(rows)
    if idle_s is None:
        return float(rows["wait_ns"].sum()) / 1e9
    column = STATES.index(HostState.DEVICE_WAIT)
    accounts = [process_account(context.tables, int(process)).whole.host for process in rows["process"].unique()]
    return min(idle_s, sum(int(host[:, column].sum()) for host in accounts) / 1e9) + _moving_s(context, rows)


def _moving_s(context: Context, rows: pd.DataFrame) -> float:
    """Their part of the time in which the thread moved values while the device had nothing to run: by what they waited,
    of all reads."""
    column, found = STATES.index(HostState.TRANSFER), 0.0
    everything = classified_reads(context.tables).rows
    for process, own in rows.groupby("process"):
        idle = process_account(context.tables, int(process)).whole.idle
        all_ns = float(everything["wait_ns"][(everything["process"] == process).to_numpy(np.bool_)].sum())
        if idle is None or not all_ns:
            continue
        spans = context.tables.of("spans", int(process))
        uploads = spans[(spans["name"] == "upload").to_numpy(np.bool_) & (spans["thread"] == 0).to_numpy(np.bool_)]
        moved_ns = max(0.0, float(idle[:, column].sum()) - float(uploads["duration_ns"].sum()))
        found += min(moved_ns, all_ns) * float(own["wait_ns"].sum()) / all_ns
    return found / 1e9


def _finding(context: Context, place: Place, rows: pd.DataFrame) -> Finding:
    waited_s, idle_s = float(rows["wait_ns"].sum()) / 1e9, _idle_s(rows)
    compile_s = _compile_s(rows)
    cost_s = _cost_s(context, rows) + compile_s
    executing = int((rows["executions"] > 0).sum())
    steps = int(rows.dropna(subset=["step"]).groupby("process")["step"].nunique().sum())
    all_steps = len(context.tables["steps"])
    again = repeated_work(context, rows)
    frequent = all_steps == 0 or steps * FREQUENT_STEPS >= all_steps
    notable = context.share_of_wall(cost_s - compile_s) >= NOTABLE_SHARE
    notable = notable or context.share_of_wall(compile_s) >= NOTABLE_COMPILE_SHARE
    # A read of what is computed already loses nothing, but part of a step that runs twice each time does.
    costs = cost_s > 0 or (executing >= MANY_EXECUTING_READS and again is not None and again[0] > 0)
    loud = (frequent or notable) and costs and not _elsewhere(rows)
    return Finding(
        id="host_sync",
        severity=context.severity(cost_s, warns=True) if loud else Severity.INFO,
        site=place.site,
        user_site=place.user_site,
        count=len(rows),
        cost_s=cost_s,
        summary=_summary(context, place, rows, steps, again),
        advice=_advice(place, executing, rows, frequent),
        details={
            "methods": {str(name): int(n) for name, n in rows["method"].value_counts().items()},
            "reads_that_ran_a_graph": executing,
            "graphs_run": int(rows["executions"].fillna(0).sum()),
            "steps": steps,
            "run_again": list(again) if again is not None else None,
            "waited_s": waited_s,
            "device_idle_s": idle_s,
            "compile_s": compile_s,
        },
    )


def _summary(context: Context, place: Place, rows: pd.DataFrame, steps: int, again: tuple[int, int] | None) -> str:
    cost_s = float(rows["wait_ns"].sum()) / 1e9
    executing = int((rows["executions"] > 0).sum())
    often = f" in {numbers.count(steps)} of {numbers.plural(len(context.tables['steps']), 'step')}" if steps else ""
    inside = bool(rows["method"].isin(INSIDE).all())
    backward = bool((rows["method"] == INSIDE_BACKWARD).all())
    number = numbers.plural(len(rows), *(("backward pass", "backward passes") if backward else ("read", "reads")))
    text = (
        f"A tensor's value is read{_who(rows)} at {numbers.where(place.site, place.user_site)}:"
        f" {number}{often}, waiting {numbers.duration(cost_s, inferred=inside)}"
        f" ({context.percent_of_wall(cost_s)} of wall)"
    )
    if executing:
        who = "each" if executing == len(rows) else numbers.count(executing)
        text += f"; {who} of them first had to run part of the pending graph"
        if again is not None and again[0]:
            text += (
                f" (the next sync ran {numbers.count(again[0])} of these {numbers.count(again[1])} operations again)"
            )
    compile_s, compiled = _compile_s(rows), _compiles(rows)
    if compile_s:
        text += f"; {numbers.plural(compiled, 'graph')} had to be compiled for it ({numbers.duration(compile_s)})"
    idle_s = _idle_s(rows)
    if not idle_s:
        return text + "."
    idle, spared = (numbers.duration(seconds, inferred=True) for seconds in (idle_s, _cost_s(context, rows)))
    return (
        f"{text}. Nothing was queued behind them, so the device then stood idle for {idle} while the host went on;"
        f" when the host need not wait, both work at once, and up to {spared} is saved."
    )


def _who(rows: pd.DataFrame) -> str:
    """What reads, where it is not the line itself."""
    if (rows["method"] == INSIDE_BACKWARD).all():
        return " inside the backward pass"
    if rows["method"].isin(INSIDE).all():
        return " inside an operation"
    return " in another thread, for which the training does not wait," if _elsewhere(rows) else ""


def _elsewhere(rows: pd.DataFrame) -> bool:
    """Whether another thread reads what is computed already: the training thread goes on meanwhile."""
    return not (rows["thread"].fillna(0) == 0).any() and not (rows["executions"].fillna(0) > 0).any()


def _inside_logging(place: Place) -> bool:
    """Whether a Trainer of transformers was logging, and not evaluating: that comes from the same function."""
    functions = [function for file, _, function in place.stack if _TRAINER in file.replace("\\", "/")]
    return "_maybe_log_save_evaluate" in functions and "evaluate" not in functions


def _inside_saving(place: Place) -> bool:
    """Whether a Trainer of transformers was writing a checkpoint."""
    functions = [function for file, _, function in place.stack if _TRAINER in file.replace("\\", "/")]
    return "_save_checkpoint" in functions


def _advice(place: Place, executing: int, rows: pd.DataFrame, frequent: bool) -> str:
    if any("torch/distributions/" in file.replace("\\", "/") for file, _, _ in place.stack):
        return (
            "torch.distributions looks at the values to check its arguments: pass validate_args=False (or"
            " torch.distributions.Distribution.set_default_validate_args(False) once, at the start)."
        )
    if (rows["method"] == INSIDE_BACKWARD).all():
        return (
            "Something in the backward pass asks for values. torch.autograd.set_detect_anomaly(True) does so after each"
            " operation: turn it off but for a search. Else it is a hook or a backward of your own."
        )
    if rows["method"].isin(INSIDE).all():
        return (
            "An operation in this line asks for a value to know a size or to check an argument. Say the size yourself"
            " (num_classes of one_hot, output_size of repeat_interleave, minlength), or do this part on the host,"
            " before the upload."
        )
    if place.site is not None and place.site.function == _PACKED:
        return (
            "Without a mask, the library looks at the positions in Python for packed sequences; with a 4-D float mask"
            " it does not: torch.full((length, length), torch.finfo(torch.float32).min).triu(1).expand(batch, 1, -1,"
            " -1), made once."
        )
    if place.site is not None and place.site.file.replace("\\", "/").endswith("transformers/masking_utils.py"):
        return (
            "The library looks at the attention mask in Python on every forward pass. Leave attention_mask out when"
            " nothing is padded, or pass a 4-D float mask: then it does not look. In the collator of an encoder: (1 -"
            " mask[:, None, None, :].float()).expand(-1, 1, mask.shape[1], -1) * torch.finfo(torch.float32).min; a"
            " decoder's also hides later positions."
        )
    if _inside_saving(place):
        return "Writing a checkpoint reads what it writes: save less often (save_steps in TrainingArguments)."
    if _inside_logging(place):
        return (
            "The Trainer reads the loss each time it logs: raise logging_steps in TrainingArguments, and read nothing"
            " else in callbacks of every step."
        )
    if place.site is not None and "num_input_tokens_seen" in place.site.source:
        return "The Trainer counts tokens in each step: set include_num_input_tokens_seen of TrainingArguments to 'no'."
    if executing:
        return (
            "Keep the value on the device and read it after the sync, every N steps or in a step closure; for a"
            " decision, use torch.where instead of a Python branch; a counter or position, keep in Python."
        )
    if rows["method"].isin(_WHOLE).all():
        return (
            "Work on it on the device: averages, metrics and counters can be tensors there, too. What the host must"
            " have, read rarely, as one tensor (torch.stack), in a step closure (xm.add_step_closure)."
        )
    if not frequent:
        return "Read it in a step closure (xm.add_step_closure): the next step is traced while the device works."
    return "Read it every N steps or in a step closure, so that the next step is traced while the device works."
