"""Folders as the real programs leave them, and everything that is no cache entry."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.synthetic import build_run, graph_hash
from xla_insight.analysis.cache import CacheNotFoundError, cache_status, inspect_cache
from xla_insight.analysis.cache.files import open_cache
from xla_insight.analysis.cache.layouts import is_whole, list_cache
from xla_insight.analysis.cache.usage import Usage, hash_number, newest_version, read_usage
from xla_insight.errors import RunNotFoundError, UsageError
from xla_insight.facts.cache import Entry, Layout, State

FIXTURES = Path(__file__).parent / "fixtures" / "caches"
NEURON = "neuronxcc-2.12.54.0+f631c2365"


def neuron(root: Path, module: str, *files: str, version: str = NEURON) -> Path:
    """A module folder as documented."""
    folder = root / version / f"MODULE_{module}"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).write_bytes(b"x" * 10)
    return folder


def entries(place: Path) -> dict[str, Entry]:
    return {entry.key: entry for entry in list_cache(open_cache(str(place))).entries}


def test_torch_xla_names_entries_by_the_graph() -> None:
    found = entries(FIXTURES / "torch_xla")
    assert set(found) == {
        "a61e8cbf556a3ed907006d48ab042604",
        "d14068c9f8d92485b91f2d7ab04a801b",
        "a13f48da3d20bf51810fc5458cb06dab",
    }
    for entry in found.values():
        assert (entry.layout, entry.damage) == (Layout.TORCH_XLA, None)
        assert entry.size == (FIXTURES / "torch_xla" / entry.name).stat().st_size
        content = (FIXTURES / "torch_xla" / entry.name).read_bytes()
        assert is_whole(content)
        assert not any(is_whole(content[:length]) for length in (0, 1, 2, 100, len(content) - 1))
        assert not is_whole(content + b"\xff")


def test_jax_without_and_with_access_times() -> None:
    plain, limited = entries(FIXTURES / "jax"), entries(FIXTURES / "jax_limited")
    assert len(plain) == len(limited) == 2
    assert {key.partition("-")[0] for key in plain} == {"jit_f", "jit_g"}
    assert all(entry.used_unix_s is None for entry in plain.values())
    for entry in limited.values():
        assert entry.layout is Layout.JAX and len(entry.files) == 2
        assert entry.used_unix_s is not None and 1.79e9 < entry.used_unix_s < 1.80e9
    listing = list_cache(open_cache(str(FIXTURES / "jax_limited")))
    assert (listing.foreign, listing.locks) == (0, [".lockfile"])


def test_jax_remains(tmp_path: Path) -> None:
    name = f"jit_f-{'a' * 64}"
    (tmp_path / f"{name}-atime").write_bytes(b"short")
    (tmp_path / f"jit_g-{'b' * 64}-cache").write_bytes(b"")
    found = list_cache(open_cache(str(tmp_path))).entries
    assert [entry.damage for entry in found] == [State.TORN, State.TORN]
    assert all(entry.used_unix_s is None for entry in found)


@pytest.mark.parametrize(
    ("files", "damage"),
    [
        (("model.hlo.pb", "model.neff", "model.done", "compile_flags.json"), None),
        (("model.hlo_module.pb", "model.neff", "model.done", "model.hlo_module.pb.lock"), None),
        (("model.hlo.pb", "model.log"), State.FAILED),
        (("model.hlo.pb", "model.hlo.pb.lock"), State.LOCKED),
        (("model.hlo.pb",), State.TORN),
        (("model.hlo.pb", "model.neff"), State.TORN),
    ],
)
def test_neuron_states(tmp_path: Path, files: tuple[str, ...], damage: State | None) -> None:
    neuron(tmp_path, "9214541117211669183+d41d8cd9", *files)
    (entry,) = list_cache(open_cache(str(tmp_path))).entries
    assert (entry.layout, entry.key) == (Layout.NEURON, "9214541117211669183+d41d8cd9")
    assert (entry.damage, entry.size, entry.version) == (damage, 10 * len(files), "2.12.54.0+f631c2365")
    (inner,) = list_cache(open_cache(str(tmp_path / NEURON))).entries
    assert (inner.version, inner.damage) == (entry.version, damage)


def test_older_compiler_versions_are_another_environment(tmp_path: Path) -> None:
    whole = ("model.neff", "model.done")
    neuron(tmp_path, "1+a", *whole, version="neuronxcc-2.9.1.0+aaaa")
    neuron(tmp_path, "2+b", *whole)
    cache = inspect_cache(str(tmp_path), Usage())
    assert {e.entry.key: e.state for e in cache.entries} == {"1+a": State.OTHER_ENVIRONMENT, "2+b": State.UNJOINED}
    assert newest_version(cache.listing.entries) == "2.12.54.0+f631c2365"


def test_what_is_no_entry_is_foreign(tmp_path: Path) -> None:
    for name in (
        "notes.txt",
        "007",
        "1e3",
        "-5",
        "\u0663\u0664",
        str(1 << 128),
        "9" * 200,
        "model.neff",
        "123.tmp",
        "jit_f-00-cache",
    ):
        (tmp_path / name).write_text("mine")
    (tmp_path / "17").mkdir()
    (tmp_path / "sub").mkdir()
    os.symlink("/etc/hosts", tmp_path / "18")
    os.symlink(FIXTURES, tmp_path / "neuronxcc-2.1.0")
    os.mkfifo(tmp_path / "19")
    listing = list_cache(open_cache(str(tmp_path)))
    assert not listing.entries
    assert listing.foreign == len(os.listdir(tmp_path))


def test_names_of_any_kind_do_no_harm(tmp_path: Path) -> None:
    for name in (b"\xff\xfe", b"new\nline", b"\x1b[31mred", b"' OR 1=1", "\u202eevil".encode()):
        (tmp_path / os.fsdecode(name)).write_text("x")
    assert list_cache(open_cache(str(tmp_path))).foreign == 5


def test_places_that_are_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "none"):
        with pytest.raises(CacheNotFoundError):
            open_cache(str(place))
    with pytest.raises(CacheNotFoundError):
        open_cache("memory://nothing/here")
    with pytest.raises(UsageError):
        open_cache("nosuch://bucket/cache")


def test_a_url_is_read_like_a_folder() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for path in (FIXTURES / "torch_xla").iterdir():
        memory.pipe_file(f"/test-cache/{path.name}", path.read_bytes())
    memory.pipe_file(f"/test-cache/{NEURON}/MODULE_7+a/model.neff", b"x")
    listing = list_cache(open_cache("memory://test-cache"))
    assert sorted(entry.layout for entry in listing.entries) == ["neuron", "torch_xla", "torch_xla", "torch_xla"]
    assert all(entry.modified_unix_s > 1.7e9 for entry in listing.entries)


@pytest.fixture
def joined(tmp_path: Path) -> Path:
    """A folder `cache` with graph A of a run, one that no run has and one cut off; and `runs` with the run."""
    cache = tmp_path / "cache"
    cache.mkdir()
    build_run(tmp_path / "runs" / "one", steps=10, pattern="AB")
    content = next((FIXTURES / "torch_xla").iterdir()).read_bytes()
    (cache / str(int(graph_hash("A"), 16))).write_bytes(content)
    (cache / "12345").write_bytes(content)
    (cache / "54321").write_bytes(content[:-7])
    return tmp_path


def test_entries_are_joined_by_hash(joined: Path) -> None:
    cache = inspect_cache(str(joined / "cache"), read_usage([str(joined / "runs")]), contents=True)
    states = {entry.entry.key: entry for entry in cache.entries}
    used = states[f"{int(graph_hash('A'), 16):x}"]
    assert (used.state, used.runs, used.first_step, used.executions) == (State.USED, ("one",), 0, 5)
    assert used.compile_s == pytest.approx(0.3)
    assert "train.py" in used.command
    assert states[f"{12345:x}"].state is State.ORPHAN
    assert states[f"{54321:x}"].state is State.TORN
    status = cache_status(cache)
    assert (status.entries, status.known_costs) == (3, 1)
    assert status.saves_s == pytest.approx(0.3)
    assert status.states == {"used": 1, "orphan": 1, "torn": 1}
    status.to_json()
    assert cache.entries[0].to_json()["files"]


def test_without_runs_nothing_is_called_an_orphan(joined: Path) -> None:
    cache = inspect_cache(str(joined / "cache"), Usage())
    assert {entry.state for entry in cache.entries} == {State.UNJOINED}
    assert any("--runs" in note for note in cache.notes)


def test_unreadable_runs_are_named(joined: Path) -> None:
    (joined / "runs" / "broken").mkdir()
    (joined / "runs" / "broken" / "run.json").write_text("{")
    usage = read_usage([str(joined / "runs")])
    assert usage.runs == 1 and len(usage.skipped) == 1
    with pytest.raises(RunNotFoundError):
        read_usage([str(joined / "none")])


def test_hashes_as_numbers() -> None:
    assert hash_number("0f") == hash_number("f") == 15
    assert hash_number("hlo-0011223344556677") is None and hash_number(None) is None
