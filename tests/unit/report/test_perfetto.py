"""The trace is well formed by Perfetto's own schema: tracks with names, slices that nest, flows that meet, counters."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

from tests.synthetic import HOSTILE_SCRIPT, build_run
from xla_insight import cli
from xla_insight.analysis import load_tables
from xla_insight.errors import ExportError
from xla_insight.report.perfetto import export_perfetto
from xla_insight.store.reader import open_run


class Read:
    """A trace file, read with the schema that Perfetto publishes, as its trace processor goes through it."""

    def __init__(self, path: Path) -> None:
        trace = Trace()
        trace.ParseFromString(path.read_bytes())
        self.packets = list(trace.packet)
        assert self.packets[0].sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        assert {packet.trusted_packet_sequence_id for packet in self.packets} == {1}
        self.parents: dict[int, int] = {}
        self.tracks: dict[int, str] = {}
        self.texts: dict[str, dict[int, str]] = defaultdict(dict)
        self.slices: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
        self.counters: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self.flows: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.arguments: set[str] = set()
        self.strings: list[str] = []
        self._open: dict[int, list[tuple[str, int]]] = defaultdict(list)
        self._last: dict[int, int] = {}
        for packet in self.packets:
            self._packet(packet)
        assert not any(self._open.values()), "a slice never ended"

    def _packet(self, packet: TracePacket) -> None:
        for table in ("event_names", "debug_annotation_names"):
            for entry in getattr(packet.interned_data, table):
                assert entry.iid not in self.texts[table]
                self.texts[table][entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            self.tracks[descriptor.uuid] = descriptor.name or descriptor.process.process_name
            self.parents[descriptor.uuid] = descriptor.parent_uuid
        if packet.HasField("track_event"):
            self._event(packet.timestamp, packet.track_event)

    def _event(self, time_ns: int, event: TrackEvent) -> None:
        track = event.track_uuid
        assert track in self.tracks, "an event before its track"
        assert time_ns >= self._last.get(track, 0), "a track goes back in time"
        self._last[track] = time_ns
        if event.type == TrackEvent.TYPE_COUNTER:
            self.counters[track].append((time_ns, event.double_counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            name, begin = self._open[track].pop()
            self.slices[track].append((name, begin, time_ns))
        else:
            self._open[track].append((self.texts["event_names"][event.name_iid], time_ns))
            self.flows["out"] += [(flow, time_ns) for flow in event.flow_ids]
            self.flows["in"] += [(flow, time_ns) for flow in event.terminating_flow_ids]
            for annotation in event.debug_annotations:
                self.arguments.add(self.texts["debug_annotation_names"][annotation.name_iid])
                self.strings.append(annotation.string_value)

    def named(self, name: str, process: int = 0) -> list[tuple[str, int, int]]:
        roots = sorted(uuid for uuid, parent in self.parents.items() if not parent)
        (track,) = (u for u, text in self.tracks.items() if text == name and self.parents[u] == roots[process])
        return sorted(self.slices[track], key=lambda item: item[1])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("perfetto")
    run = build_run(folder / "run", steps=20, ranks=2, save_every=5)
    assert cli.main(["export", str(run), "--perfetto", str(folder / "run.pftrace")]) == 0
    return run, folder / "run.pftrace"


def test_every_process_has_its_tracks(exported: tuple[Path, Path]) -> None:
    trace = Read(exported[1])
    names = Counter(trace.tracks.values())
    assert names["rank 0 on node-1"] == names["rank 1 on node-1"] == 1
    for name in (
        "steps", "host state (training thread)", "cuts and value reads", "device, by graph", "device idle, by cause",
        "compiles", "transfers", "input waits", "checkpoints", "executions in flight", "step time",
    ):  # fmt: skip
        assert names[name] == 2, name


def test_slices_are_those_of_the_run(exported: tuple[Path, Path]) -> None:
    trace, run = Read(exported[1]), open_run(exported[0])
    own = run.sql("select count(*) n from executions where process = 0")["n"][0]
    assert len(trace.named("device, by graph")) == own
    assert [name for name, _, _ in trace.named("steps")] == [f"step {n}" for n in range(20)]
    cuts = trace.named("cuts and value reads")
    assert Counter(name.partition(":")[0] for name, _, _ in cuts) == {"cut": 20, "value read": 20, "backward": 20}
    assert {"site", "graph", "outcome", "opened_by", "trace ns"} <= trace.arguments
    host = trace.named("host state (training thread)")
    assert all(before[2] == after[1] for before, after in itertools.pairwise(host)), "no gap, no overlap"


def test_operations_of_a_window_have_a_track_with_their_lines(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", steps=20, window=(5, 6))
    assert cli.main(["export", str(run), "--perfetto", str(tmp_path / "run.pftrace")]) == 0
    trace = Read(tmp_path / "run.pftrace")
    operations = trace.named("device operations, measured")
    begin, end = trace.named("steps")[5][1], trace.named("steps")[6][2]
    assert operations and all(begin <= start < end for _, start, _ in operations)
    assert {"framework_operation", "self_ns"} <= trace.arguments
    assert any(text.startswith("/") or ".py:" in text for text in trace.strings)


def test_flows_lead_from_each_cut_to_its_execution(exported: tuple[Path, Path]) -> None:
    trace = Read(exported[1])
    out, into = dict(trace.flows["out"]), dict(trace.flows["in"])
    assert set(out) == set(into) and len(out) == len(trace.flows["out"]) == 80
    assert all(out[flow] <= into[flow] for flow in out)


def test_counters_go_up_and_down(exported: tuple[Path, Path]) -> None:
    trace = Read(exported[1])
    tracks = [uuid for uuid, name in trace.tracks.items() if name == "executions in flight"]
    for track in tracks:
        values = [value for _, value in trace.counters[track]]
        assert max(values) >= 1 and min(values) == 0 == values[-1]


def test_only_the_steps_asked_for(exported: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "part.pftrace"
    assert cli.main(["export", str(exported[0]), "--perfetto", str(path), "--steps", "7-8"]) == 0
    names = [name for name, _, _ in Read(path).named("steps")]
    assert "step 7" in names and "step 8" in names and len(names) <= 3
    assert path.stat().st_size < exported[1].stat().st_size / 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--steps", "1-2"], "--perfetto"),
        (["--perfetto", "{}", "--steps", "one"], "--steps wants"),
        (["--perfetto", "{}", "--steps", "900-901"], "no process recorded these steps"),
        (["--perfetto", "{}/no/such/folder"], "cannot write"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    exported: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    filled = [word.format(tmp_path / "x") for word in words]
    assert cli.main(["export", str(exported[0]), *filled]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unless_told(exported: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("precious")
    assert cli.main(["export", str(exported[0]), "--perfetto", str(path)]) == 2
    assert path.read_text() == "precious"
    assert cli.main(["export", str(exported[0]), "--perfetto", str(path), "--overwrite"]) == 0
    assert Read(path).packets


def test_hostile_names_stay_text_and_an_empty_run_says_so(tmp_path: Path) -> None:
    run = open_run(build_run(tmp_path / "run", steps=4, hostile=True))
    export_perfetto(load_tables(run), tmp_path / "hostile.pftrace")
    assert any(HOSTILE_SCRIPT in text for text in Read(tmp_path / "hostile.pftrace").strings)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "run.json").write_text('{"schema": 1}')
    with pytest.raises(ExportError, match="nothing to export"):
        export_perfetto(load_tables(open_run(tmp_path / "empty")), tmp_path / "x")
