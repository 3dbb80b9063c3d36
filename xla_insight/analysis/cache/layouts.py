"""Which files of a folder are cache entries: the layouts of torch_xla, JAX and Neuron.

Owns the names that each of them uses; everything else in a folder is foreign and never touched.

- torch_xla (``xr.initialize_cache``): one file an entry, named by the graph's hash as a decimal number.
- JAX (``jax_compilation_cache_dir``): ``NAME-HASH-cache``, with a size limit beside it ``NAME-HASH-atime``: the time of
  its last use, ns since the epoch in eight bytes, least significant first; and one ``.lockfile``.
- Neuron: ``neuronxcc-VERSION/MODULE_HASH+FLAGS/`` with the module, the program, a mark that it is done, a log, locks.
"""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from xla_insight.analysis.cache.files import CacheFolder, CacheNotFoundError, FileFact
from xla_insight.facts.cache import Entry, Layout, State

_JAX = re.compile(r"(.+-[0-9a-f]{64})-(cache|atime)", re.DOTALL)
_VERSION = re.compile(r"neuronxcc-([0-9][\w.+-]*)")
_MODULE = re.compile(r"MODULE_[\w.+-]+")
_NEURON_FILE = re.compile(r"model\.(hlo\.pb|hlo_module\.pb|neff|done|log)|compile_flags\.json|[\w.+-]+\.lock")
JAX_LOCK = ".lockfile"
MAX_HASH = 1 << 128
_HASH_DIGITS = len(str(MAX_HASH))


@dataclass
class Listing:
    """What is in a folder. ``parts`` are the files of entries of several files, by their names below the folder."""

    entries: list[Entry] = field(default_factory=list)
    parts: dict[str, FileFact] = field(default_factory=dict)
    foreign: int = 0
    locks: list[str] = field(default_factory=list)

    @property
    def newest_unix_s(self) -> float:
        """When anything of the cache was last written; 0 when there is nothing."""
        return max((entry.modified_unix_s for entry in self.entries), default=0.0)

    def fact(self, entry: Entry, file: str) -> FileFact:
        """What was seen of a file of an entry."""
        if entry.parts:
            return self.parts[file]
        return tuple.__new__(FileFact, (file, entry.size, entry.modified_unix_s, True, False))

    def add(self, entry: Entry, parts: dict[str, FileFact]) -> None:
        """One more entry of several files."""
        self.entries.append(entry)
        self.parts |= parts


def list_cache(folder: CacheFolder) -> Listing:
    """All entries of a folder. Raises CacheNotFoundError."""
    with without_collection():
        return _listed(folder)


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """A million new tuples make the garbage collector look at all of them again and again; none is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _listed(folder: CacheFolder) -> Listing:
    listing = Listing()
    append, torch_xla, is_torn = listing.entries.append, Layout.TORCH_XLA, State.TORN
    new = tuple.__new__  # as in `LocalCache.items`
    jax: dict[str, dict[str, FileFact]] = {}
    for item in folder.items():
        name, size, modified_unix_s, regular, is_folder = item
        if is_folder:
            _add_folder(listing, folder, item)
        elif not regular:
            listing.foreign += 1
        elif name.isdecimal() and name.isascii() and _is_hash(name):
            append(new(Entry, (torch_xla, name, size, modified_unix_s, None, None, None if size else is_torn, ())))
        elif (match := _JAX.fullmatch(item.name)) is not None:
            jax.setdefault(match[1], {})[match[2]] = item
        elif item.name == JAX_LOCK:
            listing.locks.append(item.name)
        else:
            listing.foreign += 1
    for key, files in jax.items():
        listing.add(_jax_entry(folder, key, files), {fact.name: fact for fact in files.values()})
    return listing


def _is_hash(name: str) -> bool:
    """A decimal number of at most 128 bits, as the framework writes it: without leading zeros or other digits."""
    if name[0] == "0":
        return name == "0"
    return len(name) < _HASH_DIGITS or (len(name) == _HASH_DIGITS and int(name) < MAX_HASH)


def _jax_entry(folder: CacheFolder, key: str, files: dict[str, FileFact]) -> Entry:
    program, access = files.get("cache"), files.get("atime")
    used = _access_time(folder, access) if access is not None else None
    names = tuple(fact.name for fact in files.values())
    if program is None:
        assert access is not None
        return Entry(Layout.JAX, key, access.size, access.modified_unix_s, used, None, State.TORN, names)
    size = sum(fact.size for fact in files.values())
    damage = State.TORN if program.size == 0 else None
    return Entry(Layout.JAX, key, size, program.modified_unix_s, used, None, damage, names)


def _access_time(folder: CacheFolder, access: FileFact) -> float | None:
    try:
        content = folder.read(access.name, 9)
    except (OSError, CacheNotFoundError):
        return None
    return int.from_bytes(content, "little") / 1e9 if len(content) == 8 else None


def _add_folder(listing: Listing, folder: CacheFolder, item: FileFact) -> None:
    """A folder of one compiler version, or (when the path leads to that already) one module."""
    version = _VERSION.fullmatch(item.name)
    if version is not None:
        for module in _inner(folder, item.name):
            if module.folder and _MODULE.fullmatch(module.name):
                _add_module(listing, folder, f"{item.name}/{module.name}", version[1])
            else:
                listing.foreign += 1
    elif _MODULE.fullmatch(item.name):
        of_path = _VERSION.fullmatch(folder.path.rstrip("/").rsplit("/", 1)[-1])
        _add_module(listing, folder, item.name, of_path[1] if of_path else None)
    else:
        listing.foreign += 1


def _add_module(listing: Listing, folder: CacheFolder, name: str, version: str | None) -> None:
    found = list(_inner(folder, name))
    own = {f"{name}/{f.name}": f for f in found if f.regular and _NEURON_FILE.fullmatch(f.name)}
    listing.foreign += len(found) - len(own)
    if not own:
        return
    listing.locks += [path for path in own if path.endswith(".lock")]
    entry = Entry(
        layout=Layout.NEURON,
        name=name,
        size=sum(fact.size for fact in own.values()),
        modified_unix_s=max(fact.modified_unix_s for fact in own.values()),
        used_unix_s=None,
        version=version,
        damage=_neuron_damage({fact.name: fact for fact in own.values()}),
        parts=tuple(own),
    )
    listing.add(entry, own)


def _neuron_damage(files: dict[str, FileFact]) -> State | None:
    """Done means whole; without the mark the compiler is at it, gave up (a log says why), or was killed."""
    program = files.get("model.neff")
    if "model.done" in files and program is not None:
        return None if program.size else State.TORN
    if any(name.endswith(".lock") for name in files):
        return State.LOCKED
    return State.FAILED if "model.log" in files and program is None else State.TORN


def _inner(folder: CacheFolder, name: str) -> Iterator[FileFact]:
    """Items of an inner folder; none when it went away or cannot be read."""
    try:
        yield from folder.items(name)
    except CacheNotFoundError:
        return


MAX_FIELDS = 1_000_000


def is_whole(content: bytes) -> bool:
    """Whether a torch_xla entry ends where its outermost fields end (it is a protocol buffer): False for a torn one."""
    place = fields = 0
    while place < len(content):
        fields += 1
        if fields > MAX_FIELDS:  # no outermost message has so many: not a file to judge, and it would take minutes
            return False
        tag, place = _varint(content, place)
        kind = tag & 7
        if kind == 0:
            _, place = _varint(content, place)
        elif kind == 2:
            length, place = _varint(content, place)
            place += length
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            return False
    return place == len(content) and bool(content)


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(content) and shift < 64:
        byte = content[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if not byte & 128:
            return value, place
    return 0, len(content) + 1
