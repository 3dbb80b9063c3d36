"""Variables that the framework reads once and that make it describe its graphs: set for a recording, and taken back.

Owns the debug variables (a block of text for each graph) and the compiler's dump flags (the HLO of each compile). Both
are taken back after the first graph, so that child processes do not inherit them. What the user set is left as it is.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import MutableMapping
from types import ModuleType

from xla_insight.record.debug_file import DebugFile
from xla_insight.record.graph_dump import GraphDump
from xla_insight.record.ir_file import IrFile
from xla_insight.record.torch_xla.facts import MODULE, graphs_ran

MAX_FRAMES = "32"

_LEVEL, _FILE, _FRAMES = "PT_XLA_DEBUG_LEVEL", "PT_XLA_DEBUG_FILE", "PT_XLA_DEBUG_MAX_FRAME"
_OWNER = "XLA_INSIGHT_DEBUG_OWNER"
"""The process that set the variables above: in any other they are inherited, not the user's wish."""
_FLAGS = "XLA_FLAGS"
_DUMP_TO, _AS_PROTO = "--xla_dump_to=", "--xla_dump_hlo_as_proto"
"""Dump flags are no part of a graph's key: the framework leaves them out when it hashes its environment."""
_TEXT = "XLA_SAVE_TENSORS_FILE"
_IR_DEBUG = ("XLA_IR_DEBUG", "XLA_HLO_DEBUG")
"""They change every key, so they are the user's to set; with them lines are in every graph anyway."""


class Settings:
    """The variables of one process, set for us and taken back after the first graph.

    One per process: C++ reads them once, so the files named at the first graph serve all recordings of the process.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        self._saved: dict[str, str | None] = {}
        self._pid = str(os.getpid())
        self._flags_due = True
        self.file: DebugFile | None = None
        self.reason = ""
        self.dump: GraphDump | None = None
        self.dump_reason = ""
        self.text: IrFile | None = None

    def arrange(self) -> None:
        """Set what must be set before the first graph; respect what the user set. Does nothing when already done."""
        if self.file is not None or self.reason:
            return
        self._drop_inherited()
        level = self._environment.get(_LEVEL) or ("100" if self._environment.get("PT_XLA_DEBUG", "0") != "0" else None)
        file = self._environment.get(_FILE)
        if level is not None and not file:
            self.reason = f"{_LEVEL} is set and prints to stderr; set {_FILE} too and graph hashes can be read from it"
            return
        if file and level is not None:
            self.file = DebugFile(os.path.abspath(file))
            if not (level.isdigit() and int(level) >= 2):
                self.reason = f"{_LEVEL} is {level}: executions of known graphs are not described (2 is needed)"
            return
        self.file = DebugFile()
        atexit.register(self.file.remove)
        wanted = {_LEVEL: "2", _FILE: self.file.path, _OWNER: self._pid}
        if _FRAMES not in self._environment:
            wanted[_FRAMES] = MAX_FRAMES
        self._set(wanted)

    def arrange_dump(self) -> None:
        """Have the compiler write the graph of each compile. Must come before the runtime starts; done at most once."""
        if not self._flags_due:
            return
        self._flags_due = False
        self._drop_inherited()
        flags = self._environment.get(_FLAGS, "").strip()
        if flags and not flags.startswith("-"):
            self.dump_reason = f"{_FLAGS} names a file of flags, which is left as it is"
            return
        if "--xla_dump_to" in flags:
            self.dump_reason = f"{_FLAGS} makes the compiler write graphs to a folder of your own, which is left alone"
            return
        self.dump = GraphDump()
        atexit.register(self.dump.remove)
        self._set({_FLAGS: f"{flags} {_DUMP_TO}{self.dump.path} {_AS_PROTO}".strip(), _OWNER: self._pid})

    def arrange_text(self) -> None:
        """Have the framework write every graph that it runs as text. Must come before the first graph."""
        if self.text is not None or self._environment.get(_TEXT):
            return
        self.text = IrFile()
        atexit.register(self.text.remove)
        self._set({_TEXT: self.text.path})

    def refuse_dump(self, reason: str) -> None:
        """It is too late for the dump: say why."""
        if self._flags_due:
            self._flags_due = False
            self.dump_reason = reason

    def _set(self, wanted: dict[str, str]) -> None:
        for name, value in wanted.items():
            self._saved.setdefault(name, self._environment.get(name))
            self._environment[name] = value

    def _drop_inherited(self) -> None:
        """Take off what a parent process that records had set for itself."""
        if self._environment.get(_OWNER, self._pid) == self._pid:
            return
        flags = self._environment.get(_FLAGS, "").split()
        if any(flag.startswith(_DUMP_TO + GraphDump.prefix()) for flag in flags):
            kept = [flag for flag in flags if not flag.startswith((_DUMP_TO, _AS_PROTO))]
            self._environment[_FLAGS] = " ".join(kept)
            if not kept:
                del self._environment[_FLAGS]
        owned = os.path.basename(os.path.dirname(self._environment.get(_FILE, ""))).startswith("xla-insight-")
        for name in (_LEVEL, _FILE, _FRAMES, _OWNER) if owned else (_OWNER,):
            self._environment.pop(name, None)

    @property
    def is_inherited(self) -> bool:
        """Whether these are the settings of a parent that forked."""
        return self._pid != str(os.getpid())

    def users_environment(self) -> dict[str, str]:
        """The environment as it is without us."""
        found = dict(self._environment)
        for name, value in self._saved.items():
            if value is None:
                found.pop(name, None)
            else:
                found[name] = value
        return found

    def restore(self) -> None:
        """Take our variables back, so that child processes do not inherit them."""
        for name, value in self._saved.items():
            if value is None:
                self._environment.pop(name, None)
            else:
                self._environment[name] = value
        self._saved = {}


_known_settings = [Settings(os.environ)]
"""The settings of this process, last; before them those of parents it was forked from."""


def arrange_settings(text: bool = False) -> Settings:
    """The settings of this process, arranged when that is still of use. Needs no import of torch_xla.

    ``text``: every graph as text, too.
    """
    if _known_settings[-1].is_inherited:
        _known_settings.append(Settings(os.environ))
    settings = _known_settings[-1]
    module = sys.modules.get(MODULE)
    if _runtime_is_up(module):
        settings.refuse_dump("recording began after the runtime had started, when the compiler's flags had been read")
    else:
        settings.arrange_dump()
    if settings.file is None and module is not None and _is_loaded(module) and graphs_ran(module):
        settings.reason = "recording began after the first graph, when the debug settings had been read already"
        return settings
    settings.arrange()
    if text:
        settings.arrange_text()
    return settings


def current_settings() -> Settings:
    """The settings of this process as they are."""
    return _known_settings[-1]


def drop_inherited_settings() -> None:
    """In a forked child: its graphs must not be described in the parent's file."""
    _known_settings[-1].restore()


def lines_are_the_users() -> bool:
    """Whether the user decides about source lines in graphs."""
    return any(os.environ.get(name, "0") not in ("", "0", "false") for name in _IR_DEBUG)


def _is_loaded(module: ModuleType) -> bool:
    return hasattr(module, "_XLAC")


def _runtime_is_up(module: ModuleType | None) -> bool:
    return module is not None and _is_loaded(module) and bool(module._XLAC._xla_runtime_is_initialized())
