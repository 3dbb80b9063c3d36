"""Whether the advice on shapes holds: record a training with dynamic padding, take the advised plan, and run that.

Three real length distributions: the demo's paragraphs, short sentences, and whole chapters with a long tail. Each is
trained as it comes (padded to multiples of 8, as the Trainer's own collators do) and recorded; the advised plan is then
trained and recorded too, and what was predicted stands beside what was measured. The rules of thumb are judged by the
same model, and trained as well with ``--rules``.

Seconds can only be compared when the machine is as fast the second time. So each training says what share of the
machine other programs took meanwhile; with ``--nice -10`` (as root) they take less. With ``--control`` the training as
recorded runs once more at the end: how far it is from itself is how far any prediction may be off, and predictions are
the mean of both then.

    python benchmarks/advisor.py [--texts paragraphs sentences chapters] [--steps 80] [--rules] [--control] [--json]
    python benchmarks/advisor.py --million
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TEXTS = {"paragraphs": 96, "sentences": 64, "chapters": 192}
"""Name -> the longest text that is kept, in tokens."""
LATER_STEPS = 5_000
BATCH = 16


def texts_of(name: str) -> list[str]:
    """The texts of a distribution, cut from the manual that every Python ships."""
    from pydoc_data.topics import topics

    from xla_insight.runner.demo_train import paragraphs

    if name == "paragraphs":
        return paragraphs()
    if name == "sentences":
        found = (" ".join(part.split()) for text in paragraphs() for part in re.split(r"(?<=[.:;])\s", text))
        return [part for part in found if 3 <= part.count(" ") <= 24]
    # A chapter, and its paragraphs: few texts are long, most are short.
    whole = [" ".join(text.split()) for text in topics.values()]
    return [*whole, *(part for part in paragraphs() if part.count(" ") <= 12)]


def train(name: str, steps: int, buckets: list[int], rows: int | None) -> None:
    """Train a small BERT on a distribution, padded to ``buckets`` when there are any."""
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments, set_seed

    from xla_insight.padding import BucketCollator
    from xla_insight.runner import demo_train

    set_seed(1)
    demo_train.LONGEST = TEXTS[name]
    texts = texts_of(name)
    tokenizer = demo_train.train_tokenizer(texts)
    collator: Any = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, pad_to_multiple_of=8)
    if buckets or rows:
        fields = ("input_ids", "attention_mask", "labels")
        collator = BucketCollator(collator, buckets={fields: buckets} if buckets else None, rows=rows)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="advisor-"),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        optim="adamw_torch",
        logging_steps=steps,
        save_strategy="no",
        dataloader_pin_memory=False,
        report_to=[],
        disable_tqdm=True,
    )
    dataset = [{"input_ids": ids} for ids in tokenizer(texts, truncation=True)["input_ids"]]
    model = demo_train.build_model(tokenizer, layers=1, width=64)
    Trainer(model=model, args=arguments, train_dataset=dataset, data_collator=collator).train()


def recorded(folder: Path, name: str, steps: int, buckets: tuple[int, ...] = (), rows: int | None = None) -> Any:
    """The shapes of a training, recorded in a process of its own."""
    from xla_insight.analysis.shapes import shape_problem
    from xla_insight.store.reader import open_run

    options = ["--train", name, "--steps", str(steps), "--buckets", json.dumps(buckets), "--rows", json.dumps(rows)]
    command = [sys.executable, "-m", "xla_insight", "run", "--out", str(folder), __file__, *options]
    before = processor_s()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = processor_s()
    if done.returncode:
        raise SystemExit(f"the training of {name} failed:\n{done.stderr[-2000:]}")
    with open_run(folder) as run:
        problem = shape_problem(run)
        compiles = len(run.sql("select 1 from compiles"))
    assert problem is not None
    return problem, {
        # From its first batch on, with the compiles before it.
        "total_s": problem.recorded_s + problem.compiles.fixed_s,
        "compiles": compiles,
        "others_pct": others_pct(before, after),
    }


def prioritise(nice: int) -> None:
    """Change the priority of this program and of what it starts; Linux weighs whole sessions first."""
    os.nice(nice)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(os.nice(0)), encoding="ascii")


def processor_s() -> tuple[float, float, float] | None:
    """(now, seconds that all processors were busy, those of the trainings) so far; None where the system hides it."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _idle, _waiting, *interrupts = map(int, file.readline().split()[1:9])
    except OSError:
        return None
    ticks = user + nice + system + sum(interrupts)
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def others_pct(before: tuple[float, float, float] | None, after: tuple[float, float, float] | None) -> float | None:
    """Percent of all processors' time that other programs took between two readings."""
    if before is None or after is None:
        return None
    passed_s, busy_s, own_s = (now - then for now, then in zip(after, before, strict=True))
    return max(0.0, 100 * (busy_s - own_s) / (passed_s * (os.cpu_count() or 1)))


def judge(name: str, steps: int, folder: Path, rules: bool, control: bool) -> dict[str, Any]:
    """Record a distribution, take the advice, run it; with ``rules``, run the rules of thumb too."""
    from xla_insight.analysis.shapes import advise
    from xla_insight.analysis.shapes.plans import evaluate

    problem, took = recorded(folder / name, name, steps)
    advice, later = advise(problem), advise(problem, LATER_STEPS)
    chosen = advice.best
    result: dict[str, Any] = {
        "texts": name,
        "batches": problem.units,
        "sizes": {
            axis.word: dict(zip(axis.values.tolist(), axis.value_counts.tolist(), strict=True)) for axis in problem.axes
        },
        "as_recorded": {"predicted": _predicted(advice.recorded), "measured": took},
        "rules": {plan.id: _predicted(plan) for plan in advice.plans if not plan.id.startswith("optimal")},
        "later": {plan.id: round(plan.total_s, 1) for plan in (later.recorded, *later.plans)},
        "later_best": {"id": later.best.id, "buckets": later.best.buckets},
        "advised": {"id": chosen.id, "buckets": chosen.buckets, "predicted": _predicted(chosen)},
    }
    rows = int(problem.rows.values[-1]) if problem.rows else None
    if chosen.buckets is not None:
        ends = chosen.buckets[0] if chosen.buckets else ()
        _, result["advised"]["measured"] = recorded(folder / f"{name}-advised", name, steps, ends, rows)
    for plan in advice.plans if rules else ():
        if plan.id in ("pad_to_max", "powers_of_two") and plan.buckets and plan.buckets != chosen.buckets:
            place = folder / f"{name}-{plan.id}"
            _, result["rules"][plan.id]["measured"] = recorded(place, name, steps, plan.buckets[0], rows)
    if control:
        after, again = recorded(folder / f"{name}-after", name, steps)
        again_s = evaluate(after, (chosen.id, chosen.word), chosen.buckets).total_s
        result["control"] = {**again, "predicted_s": again_s}
        result["advised"]["predicted"]["total_s"] = (chosen.total_s + again_s) / 2
    return result


def _predicted(plan: Any) -> dict[str, Any]:
    return {
        "total_s": plan.total_s,
        "range_s": plan.range_s,
        "compiles": plan.compiles,
        "padding_pct": 100 * plan.waste,
    }


def show(result: dict[str, Any]) -> None:
    """One distribution as text."""
    print(f"\n{result['texts']}: {result['batches']} batches of sizes {result['sizes']}", flush=True)
    rows = {"as recorded": result["as_recorded"], f"advised {result['advised']['buckets']}": result["advised"]}
    rows |= {
        name: ({"predicted": rule} if "measured" not in rule else {"predicted": rule, "measured": rule["measured"]})
        for name, rule in result["rules"].items()
    }
    heads = f"{'predicted s':>12}{'90 % likely':>16}{'measured s':>12}{'error':>9}{'compiles':>10}{'measured':>10}"
    print(f"{'plan':<32}{heads}{'other programs':>16}")
    for name, row in rows.items():
        print(f"{name:<32}{_row(row['predicted'], row.get('measured'))}")
    if "control" in result:
        control = result["control"]
        drift = control["total_s"] / result["as_recorded"]["measured"]["total_s"] - 1
        print(f"as recorded once more: {control['total_s']:.1f} s ({drift:+.1%}); the mean of both predicts")
    best = result["later_best"]
    later = {name: seconds for name, seconds in result["later"].items() if not name.startswith("optimal")}
    print(
        f"with {LATER_STEPS:,} steps to come: {best['id']} {best['buckets']}"
        f" {result['later'][best['id']]:.1f} s; {later}"
    )


def _row(predicted: dict[str, Any], found: dict[str, Any] | None) -> str:
    likely = "n/a" if predicted["range_s"] is None else "{:.1f} to {:.1f}".format(*predicted["range_s"])
    text = f"{predicted['total_s']:>12.1f}{likely:>16}"
    if found is None:
        return f"{text}{'':>12}{'':>9}{predicted['compiles']:>10}"
    error = f"{predicted['total_s'] / found['total_s'] - 1:+.1%}"
    others = "n/a" if found["others_pct"] is None else f"{found['others_pct']:.0f} %"
    return f"{text}{found['total_s']:>12.1f}{error:>9}{predicted['compiles']:>10}{found['compiles']:>10}{others:>16}"


def million() -> dict[str, float]:
    """Seconds from the tables of a million batches to the advice; the tables are made here."""
    from xla_insight.analysis.shapes import advise
    from xla_insight.analysis.shapes.batches import build_batches
    from xla_insight.analysis.shapes.problem import build_problem

    frames = _million_frames()
    begin = time.perf_counter()
    batches = build_batches(frames)
    assert batches is not None
    problem = build_problem(frames, batches)
    assert problem is not None
    joined = time.perf_counter()
    advise(problem, 100_000)
    return {"batches": problem.units, "join_and_fit_s": joined - begin, "plan_s": time.perf_counter() - joined}


def _million_frames() -> Any:
    import numpy as np
    import pandas as pd

    from xla_insight.analysis.shapes.batches import Frames

    count, chance = 1_000_000, np.random.default_rng(0)
    lengths = np.minimum(512, 16 + chance.gamma(2, 40, count).astype(np.int64))
    begin = np.arange(count, dtype=np.int64) * 20_000_000 + 1
    words = pd.Index([f"[16, {length}]" for length in range(513)])
    inputs = pd.DataFrame(
        {
            "time_ns": (begin[:, None] + np.arange(3)).ravel(),
            "name": pd.Categorical.from_codes(np.tile(np.arange(3), count), ["input_ids", "attention_mask", "labels"]),
            "dims": pd.Categorical.from_codes(np.repeat(lengths, 3), words),
            "dtype": pd.Categorical.from_codes(np.zeros(3 * count, np.int8), ["int64"]),
            "site": 1,
            "rank": 0,
        }
    )
    graphs = pd.Index([f"{length:032x}" for length in range(513)])
    device = 1_000_000 + 20_000 * lengths
    executions = pd.DataFrame(
        {
            "time_ns": begin + 2_000_000,
            "duration_ns": device + chance.integers(0, 200_000, count),
            "graph": pd.Categorical.from_codes(lengths, graphs),
            "cut_ns": begin + 1_000_000,
            "rank": 0,
        }
    )
    first = np.unique(lengths, return_index=True)[1]
    compiles = executions.iloc[np.sort(first)].assign(duration_ns=4_000_000_000)[
        ["duration_ns", "graph", "cut_ns", "rank"]
    ]
    known = pd.DataFrame({"graph": graphs, "inputs": 100, "outputs": 90})
    for name in ("input_bytes", "output_bytes", "aliased_bytes", "temporary_bytes"):
        known[name] = 1000
    return Frames(inputs, executions, compiles, known, pd.DataFrame({"site": [1], "file": ["train.py"], "line": [31]}))


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", nargs="*", choices=TEXTS, default=list(TEXTS))
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--rules", action="store_true", help="train the rules of thumb too")
    parser.add_argument("--control", action="store_true", help="train as recorded once more, after the plan")
    parser.add_argument("--million", action="store_true", help="only time the advice on a million batches")
    parser.add_argument("--nice", type=int, default=0, help="priority of the trainings, as of nice(1)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the recordings there")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--train", choices=TEXTS, help=argparse.SUPPRESS)
    parser.add_argument("--buckets", type=json.loads, default=[], help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=json.loads, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train, options.steps, options.buckets, options.rows)
        return
    if options.million:
        print(json.dumps(million(), indent=2))
        return
    prioritise(options.nice)
    with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
        results = []
        for name in options.texts:
            results.append(judge(name, options.steps, options.keep or Path(folder), options.rules, options.control))
            if not options.json:
                show(results[-1])
    if options.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
