"""The tables with a row for every event, from columns of the log: what `tables.QUERIES` would take too long for.

Owns what the columns of an event mean in these tables; it is the same as in the views of the same name. Names are
categories from the file on. Leaves reading to ``store``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from xla_insight.facts.events import Kind, Trigger
from xla_insight.store.columns import FIRST, Wanted
from xla_insight.store.views import HOST_KINDS

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

Column: TypeAlias = NDArray[Any] | pd.Categorical

WANTED = {
    "syncs": Wanted(
        (Kind.SYNC, Kind.READ, Kind.BACKWARD),
        ("duration_ns", "thread", "kind", "name", "value", FIRST, "graph", "site"),
    ),
    "executions": Wanted((Kind.EXECUTION,), ("duration_ns", "graph", "name", "detail", FIRST, "site")),
    "reads": Wanted((Kind.READ,), ("duration_ns", "thread", "name", "value", FIRST, "detail", "site")),
    "spans": Wanted(HOST_KINDS, ("duration_ns", "thread", "kind", "name", "site"), own_thread=True),
    "waits": Wanted((Kind.SYNC, Kind.DEVICE_WAIT), ("duration_ns", "kind", "name", "detail", "site"), own_thread=True),
    "saves": Wanted((Kind.CHECKPOINT,), ("duration_ns", "thread", "name")),
    "counters": Wanted((Kind.COUNTER,), ("duration_ns", "name", "value")),
    "inputs": Wanted((Kind.INPUT,), ("name", "dims", "detail", "site", "value")),
    "samples": Wanted((Kind.SAMPLE,), ("site",)),
}
_FALLBACKS = "aten::"
_READ_COUNTER = "aten::_local_scalar_dense"
_MOST_DIMENSIONS = 16
_INT32 = 1 << 31


def event_frames(run: Run) -> dict[str, pd.DataFrame]:
    """The tables of `WANTED`, and what is made of them: ``ran``, ``uploads``, ``scalar_reads``, ``data_operations``."""
    frames = {}
    with ThreadPoolExecutor(1) as ahead:  # the next columns are read while tables are made of these
        rows = _read(run, "spans", "waits", "syncs", "reads", "saves")
        later = ahead.submit(_read, run, "executions")
        frames["spans"] = _frame(
            _timed(rows.pop("spans")), run, {"kind": "kind", "name": "name", "site": "site"}, ("thread",)
        )
        frames["waits"] = _waits(_timed(rows.pop("waits")), run)
        frames["syncs"] = _syncs(rows.pop("syncs"), run)
        frames["reads"], frames["scalar_reads"] = _reads(rows.pop("reads"), run)
        saves = _timed(rows.pop("saves"))
        frames["saves"] = pd.DataFrame({name: _column(saves, name) for name in saves.column_names}, copy=False)
        rows, later = later.result(), ahead.submit(_read, run, "counters")
        frames["executions"] = _executions(rows.pop("executions"), run)
        frames["ran"] = _ran(frames["executions"])
        rows, later = later.result(), ahead.submit(_read, run, "inputs", "samples")
        frames["counters"], frames["data_operations"] = _counters(rows.pop("counters"), run)
        rows = later.result()
    frames["inputs"], frames["uploads"] = _inputs(rows["inputs"])
    frames["samples"] = _samples(rows["samples"], run)
    del rows
    pa.default_memory_pool().release_unused()
    return frames


def _read(run: Run, *names: str) -> dict[str, pa.Table]:
    """A few at a time: what is read is in memory beside what is made of it."""
    return run.columns({name: WANTED[name] for name in names})


def _timed(rows: pa.Table) -> pa.Table:
    """Rows of known duration."""
    durations = rows["duration_ns"]
    return rows.filter(durations.is_valid()) if durations.null_count else rows


def _frame(rows: pa.Table, run: Run, names: dict[str, str], more: tuple[str, ...] = ()) -> pd.DataFrame:
    """Process, step, time, duration, ``more``, and columns renamed to the keys of ``names``."""
    found = {"process": _column(rows, "process"), "step": _steps(run, rows, _column(rows, "time_ns"))}
    found.update({name: _column(rows, name) for name in ("time_ns", "duration_ns", *more)})
    found.update({name: _column(rows, source) for name, source in names.items()})
    return pd.DataFrame(found, copy=False)


def _syncs(rows: pa.Table, run: Run) -> pd.DataFrame:
    kind, value = _codes(rows, "kind"), _column(rows, "value")
    kept = kind[0] == _code(kind[1], Kind.SYNC)
    kept |= ~(value <= 0) & rows["value"].is_valid().to_numpy()
    if not kept.all():
        rows = rows.filter(pa.array(kept))
        kind, value = _codes(rows, "kind"), _column(rows, "value")
    codes, words = _codes(rows, "name")
    trigger = codes.astype(np.int64)
    for of, word in ((Kind.READ, Trigger.READ), (Kind.BACKWARD, Trigger.AUTOGRAD)):
        trigger[kind[0] == _code(kind[1], of)] = len(words)
        words = [*words, str(word)]
    frame = _frame(rows, run, {"graph": "graph", "site": "site"}, ("thread",))
    columns = {
        "trigger": _category(trigger, words),
        "executions": _whole(value),
        "compiles": _whole(_column(rows, FIRST)),
    }
    for place, (name, column) in enumerate(columns.items(), start=frame.columns.get_loc("thread") + 1):
        frame.insert(place, name, column)
    return frame


def _waits(rows: pa.Table, run: Run) -> pd.DataFrame:
    """Syncs that were asked to wait for the device, and waits for all that was sent to it."""
    (kind, kinds), (name, names), (detail, details) = (_codes(rows, column) for column in ("kind", "name", "detail"))
    asked = (kind == _code(kinds, Kind.SYNC)) & (detail == _code(details, "wait"))
    asked |= (kind == _code(kinds, Kind.DEVICE_WAIT)) & (name == _code(names, "wait_device_ops"))
    return _frame(rows.filter(pa.array(asked)), run, {"kind": "kind", "site": "site"})


def _executions(rows: pa.Table, run: Run) -> pd.DataFrame:
    time_ns, cut_ns = _column(rows, "time_ns"), _cut_ns(rows, run)
    known = ~np.isnan(cut_ns) if cut_ns.dtype.kind == "f" else np.ones(len(cut_ns), np.bool_)
    at = time_ns if not known.any() else np.where(known, np.where(known, cut_ns, 0).astype(np.int64), time_ns)
    names = {"graph": "graph", "trigger": "name", "outcome": "detail", "site": "site"}
    found = {"process": _column(rows, "process"), "step": _steps(run, rows, at)}
    found.update({name: _column(rows, name) for name in ("time_ns", "duration_ns")})
    found.update({name: _column(rows, source) for name, source in names.items()})
    frame = pd.DataFrame(found, copy=False)
    frame.insert(frame.columns.get_loc("site"), "cut_ns", cut_ns)
    return frame


def _ran(executions: pd.DataFrame) -> pd.DataFrame:
    """How often each graph ran at each place for each trigger, and when first."""
    keys = ["process", "graph", "trigger", "site"]
    code = np.zeros(len(executions), np.int64)
    for name in keys:
        column = executions[name]
        parts = column.cat.codes.to_numpy() if name in ("graph", "trigger") else pd.factorize(column)[0]
        code = code * (int(parts.max(initial=0)) + 2) + parts + 1
    named = executions["graph"].cat.codes.to_numpy() >= 0
    numbers, first = _distinct(np.where(named, code, -1))
    counts = np.bincount(numbers, minlength=len(first))
    kept = named[first]
    found = executions.iloc[first[kept]][keys].assign(executions=counts[kept])
    found = found.assign(first_ns=executions["time_ns"].to_numpy()[first[kept]])
    return found.sort_values(["process", "first_ns"], kind="stable", ignore_index=True)


def _reads(rows: pa.Table, run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    frame = _frame(rows, run, {"method": "name", "site": "site"}, ("thread",))
    place = frame.columns.get_loc("method") + 1
    frame.insert(place, "executions", _whole(_column(rows, "value")))
    frame.insert(place + 1, "compiles", _whole(_column(rows, FIRST)))
    scalars = rows.select(["process", "time_ns", "detail"])
    scalars = scalars.filter(scalars["detail"].is_valid()) if scalars["detail"].null_count else scalars
    columns = {name: _column(scalars, name) for name in ("process", "time_ns")}
    return frame, pd.DataFrame({**columns, "scalar": _column(scalars, "detail")}, copy=False)


def _counters(rows: pa.Table, run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The sums of each counter of each process with in how many steps it moved, and the rows of CPU fallbacks."""
    codes, words = _codes(rows, "name")
    process = rows["process"].to_numpy()
    fallback = np.array([word.startswith(_FALLBACKS) and word != _READ_COUNTER for word in words] + [False], np.bool_)
    mine = rows.filter(pa.array(fallback[codes]))
    operations = pd.DataFrame({name: _column(mine, name) for name in ("process", "time_ns", "name")}, copy=False)
    operations["delta"] = _column(mine, "value")
    key = process.astype(np.int64) * (len(words) + 1) + codes + 1
    numbers, first = _distinct(key)
    step = _steps(run, rows, rows["time_ns"].to_numpy())
    table = pd.DataFrame({"number": numbers, "delta": _column(rows, "value"), "step": step}, copy=False)
    table["duration_ns"] = _column(rows, "duration_ns")
    groups = table.groupby("number", sort=True)
    sums = groups[["delta", "duration_ns"]].sum(min_count=1)
    seen = table[["number", "step"]].dropna()
    pairs = pd.unique(seen["number"].to_numpy() * (1 << 32) + seen["step"].to_numpy().astype(np.int64))
    steps = np.bincount(pairs >> 32, minlength=len(first))
    name = pd.array([words[code] if code >= 0 else None for code in codes[first]], dtype=object)
    found = pd.DataFrame({"process": process[first], "name": name, "delta": sums["delta"].to_numpy()})
    found["duration_ns"], found["steps"] = sums["duration_ns"].to_numpy(), steps
    found = found.sort_values(["process", "name"], kind="stable", ignore_index=True)
    return found.assign(name=found["name"].astype("category")), operations


def _inputs(rows: pa.Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """When each process uploaded first and last, and the tensors."""
    found = {name: _column(rows, name) for name in ("process", "time_ns", "name")}
    found["dims"] = _texts_of_lists(rows["dims"].combine_chunks())
    found.update(dtype=_column(rows, "detail"), site=_column(rows, "site"), maker=_whole(_column(rows, "value")))
    uploads = pd.DataFrame(found, copy=False)
    process, times = rows["process"].to_numpy(), rows["time_ns"].to_numpy()
    firsts = np.flatnonzero(np.diff(process, prepend=-1))
    lasts = np.append(firsts[1:], len(process))[: len(firsts)] - 1
    bounds = {"process": process[firsts], "first_ns": times[firsts], "last_ns": times[lasts]}
    return pd.DataFrame(bounds), uploads


def _samples(rows: pa.Table, run: Run) -> pd.DataFrame:
    """Where the training thread was at some instants."""
    process, times = _column(rows, "process"), _column(rows, "time_ns")
    found = {"process": process, "step": _steps(run, rows, times), "time_ns": times, "site": _column(rows, "site")}
    return pd.DataFrame(found, copy=False)


def _steps(run: Run, rows: pa.Table, times: NDArray[np.int64]) -> NDArray[Any]:
    """The step of each row; missing outside of all steps."""
    process = rows["process"].to_numpy()
    firsts = np.flatnonzero(np.diff(process, prepend=-1)).tolist()
    parts, outside = [np.zeros(0, np.int32)], [np.zeros(0, np.bool_)]
    for low, high in zip(firsts, [*firsts[1:], len(process)], strict=False):
        steps, none = run.steps_at(int(process[low]), times[low:high])
        parts.append(steps)
        outside.append(none)
    found, missing = np.concatenate(parts), np.concatenate(outside)
    return np.where(missing, np.nan, found) if missing.any() else found


def _cut_ns(rows: pa.Table, run: Run) -> NDArray[Any]:
    """When the cut of each row began; missing where it is not known."""
    cuts = _column(rows, FIRST)
    offsets = np.array([*run.offsets_ns, 0], np.int64)[rows["process"].to_numpy()]
    starts: NDArray[Any] = np.asarray(cuts) + offsets
    return starts


def _column(rows: pa.Table, name: str) -> Column:
    """A column as pandas would hold it: whole numbers beside missing ones are floats, text a category."""
    if pa.types.is_dictionary(rows.schema.field(name).type):
        return _category(*_codes(rows, name))
    values: NDArray[Any] = rows[name].to_numpy()
    return values


def _codes(rows: pa.Table, name: str) -> tuple[NDArray[np.int32], list[str]]:
    """The codes of a column, -1 where there is no text, and the texts."""
    column = rows[name].unify_dictionaries()
    if not column.num_chunks:
        return np.zeros(0, np.int32), []
    parts = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts), column.chunk(0).dictionary.to_pylist()


def _code(words: list[str], word: str) -> int:
    return words.index(word) if word in words else -2


def _category(codes: NDArray[Any], words: list[str]) -> pd.Categorical:
    """Texts by their codes; the categories are those that occur, in order of appearance."""
    numbers, seen = pd.factorize(codes)
    missing = seen < 0
    places = np.cumsum(~missing) - 1
    places[missing] = -1
    texts = pd.Index([words[code] for code in seen[~missing]], dtype="str")
    return pd.Categorical.from_codes(places.astype(_small(len(texts)))[numbers], categories=texts)


def _small(count: int) -> type[np.signedinteger[Any]]:
    return np.int8 if count < 127 else np.int16 if count < 32_000 else np.int32


def _whole(values: Column) -> NDArray[Any]:
    """Numbers as whole ones; missing where there is none that 32 bits hold."""
    numbers = np.asarray(values)
    if numbers.dtype.kind == "f":
        numbers = np.rint(numbers)
    inside = (numbers >= -_INT32) & (numbers < _INT32)
    if inside.all():
        return numbers.astype(np.int32)
    found: NDArray[Any] = np.where(inside, numbers, np.nan)
    return found


def _distinct(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each distinct value in order of appearance, and where each appears first."""
    numbers, found = pd.factorize(values)
    first = np.empty(len(found), np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return numbers, first


def _texts_of_lists(lists: pa.ListArray) -> pd.Categorical:
    """Lists of numbers as texts in the notation of the database: ``[8, 128]``."""
    offsets, values = lists.offsets.to_numpy(), lists.values
    lengths = np.diff(offsets)
    if values.null_count or lengths.max(initial=0) > _MOST_DIMENSIONS:
        return _category(*_codes(pa.table({"a": pa.array(map(_text, lists.to_pylist())).dictionary_encode()}), "a"))
    numbers, flat = pd.factorize(lengths)[0], values.to_numpy()
    for place in range(int(lengths.max(initial=0))):
        has = lengths > place
        entry = np.zeros(len(lengths), np.int64)
        entry[has] = flat[offsets[:-1][has] + place]
        codes, known = pd.factorize(entry)
        numbers = pd.factorize(numbers * len(known) + codes)[0]
    if lists.null_count:
        numbers = pd.factorize(np.where(lists.is_valid().to_numpy(zero_copy_only=False), numbers, -1))[0]
    numbers, first = _distinct(numbers)
    words = [_text(lists[int(row)].as_py()) for row in first]
    codes = np.array([place if word is not None else -1 for place, word in enumerate(words)], np.int64)[numbers]
    return _category(codes if words else numbers, [word or "" for word in words])


def _text(numbers: list[int | None] | None) -> str | None:
    if numbers is None:
        return None
    return f"[{', '.join('NULL' if number is None else str(number) for number in numbers)}]"
