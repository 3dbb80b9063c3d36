"""Tables of a run made by hand: one batch a step, a graph a shape, with times that are exact functions of the sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from xla_insight.analysis.shapes.batches import Frames, build_batches
from xla_insight.analysis.shapes.problem import Problem, build_problem

MS = 1_000_000
Sizes = tuple[tuple[str, tuple[int, ...]], ...]
"""The tensors of one batch: name and dimensions."""


def text_batch(length: int, rows: int = 8) -> Sizes:
    """A batch of tokenised text."""
    return tuple((name, (rows, length)) for name in ("input_ids", "attention_mask", "labels"))


def step_ms(batch: Sizes) -> float:
    """Device time: some for the step, some for each position, some for each pair of positions."""
    return 5 + sum(dims[1] for _, dims in batch) / 10 + sum(dims[1] ** 2 for _, dims in batch) / 1000


def frames_of(
    batches: Sequence[Sizes],
    *,
    compile_ms: float = 400,
    overhead_ms: float = 7,
    device_ms: Callable[[Sizes], float] = step_ms,
    names: bool = True,
    warm_up: bool = True,
) -> Frames:
    """The tables of a process that trained on ``batches``: a small read graph and the step's graph for each shape.

    ``warm_up``: the first step's graph is another one (fewer inputs). ``names``: inputs carry their keys.
    """
    now, seen = MS, set()
    rows: dict[str, list[dict[str, Any]]] = {"inputs": [], "executions": [], "compiles": []}
    graphs: dict[str, int] = {}

    def run(graph: str, inputs: int, device: float, compile_s: float) -> None:
        nonlocal now
        cut = now
        if graph not in seen:
            seen.add(graph)
            graphs[graph] = inputs
            rows["compiles"].append({"duration_ns": int(compile_s * MS), "graph": graph, "cut_ns": cut, "rank": 0})
            now += int(compile_s * MS)
        rows["executions"].append(
            {"time_ns": now, "duration_ns": int(device * MS), "graph": graph, "cut_ns": cut, "site": 1, "rank": 0}
        )
        now += int(device * MS)

    run("before", 3, 1, 20)
    for number, batch in enumerate(batches):
        for place, (name, dims) in enumerate(batch):
            rows["inputs"].append(
                {
                    "time_ns": now + place,
                    "name": name if names else None,
                    "dims": str(list(dims)),
                    "dtype": "int64",
                    "site": 1,
                    "rank": 0,
                }
            )
        now += int(overhead_ms * MS / 2)
        run(f"read {batch}", 1, 1, 10)
        now += int(overhead_ms * MS / 2)
        first = "first " if warm_up and number == 0 else ""
        run(f"{first}step {batch}", 40 if first else 100, device_ms(batch) - 1, compile_ms)
    columns = {
        "inputs": ["time_ns", "name", "dims", "dtype", "site", "rank"],
        "executions": ["time_ns", "duration_ns", "graph", "cut_ns", "rank"],
        "compiles": ["duration_ns", "graph", "cut_ns", "rank"],
    }
    frames = {name: pd.DataFrame(rows[name], columns=columns[name]) for name in columns}
    memory = ["input_bytes", "output_bytes", "aliased_bytes", "temporary_bytes"]
    known = [{"graph": graph, "inputs": inputs, **dict.fromkeys(memory, 100)} for graph, inputs in graphs.items()]
    sites = pd.DataFrame([{"site": 1, "file": "/home/me/train.py", "line": 31}])
    return Frames(**frames, graphs=pd.DataFrame(known, columns=["graph", "inputs", "outputs", *memory]), sites=sites)


def problem_of(batches: Sequence[Sizes], **settings: Any) -> Problem:
    """The problem of a run on ``batches``."""
    frames = frames_of(batches, **settings)
    built = build_batches(frames)
    assert built is not None
    problem = build_problem(frames, built)
    assert problem is not None
    return problem
