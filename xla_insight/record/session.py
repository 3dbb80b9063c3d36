"""Starting and ending a recording in this process: the public ``profile``, ``prepare`` and what stands behind them.

Owns the one session of a process, the choice of the run folder and everything that must happen when training ends in
an ordinary or an extraordinary way. Nothing here raises into the user's program: what fails is said once on stderr.
"""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.util import Finalize
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from xla_insight.errors import InsightError, RunExistsError, UsageError
from xla_insight.facts.events import Event, Kind, StepSource
from xla_insight.record import torch_xla as framework
from xla_insight.record import transformers_hooks
from xla_insight.record.capabilities import capabilities
from xla_insight.record.faults import Faults
from xla_insight.record.graph_keeper import DEFAULT_LIMIT_BYTES
from xla_insight.record.imports import ImportWatch
from xla_insight.record.patches import Patches
from xla_insight.record.window_plan import NO_WINDOWS, Asked, WindowPlan, parse_windows

if TYPE_CHECKING:
    from xla_insight.record.recorder import Recorder

LEVELS = ("light", "full")
RUN_VARIABLE = "XLA_INSIGHT_RUN"
GROUP_VARIABLE = "XLA_INSIGHT_GROUP"
LEVEL_VARIABLE = "XLA_INSIGHT_LEVEL"
GRAPH_BYTES_VARIABLE = "XLA_INSIGHT_MAX_GRAPH_BYTES"
WINDOWS_VARIABLE = "XLA_INSIGHT_WINDOWS"
MAX_NAMES = 1000


def say(text: str) -> None:
    """One line to the user, on stderr."""
    print(f"xla-insight: {text}", file=sys.stderr, flush=True)


def prepare() -> None:
    """Set what must be set before the runtime starts. Call it at the top of a script; safe to call at any time."""
    try:
        settings = framework.arrange_settings(text=_level(None) == "full")
        if Session.current is None:
            # What runs before a recording is not part of it, and nothing may grow meanwhile.
            if settings.file is not None:
                settings.file.leave()
            if settings.dump is not None:
                settings.dump.leave()
    except Exception as error:
        say(f"preparing failed ({type(error).__name__}: {error}); training is not affected")


class Session:
    """One recording of this process, from ``open`` to ``close``. Recording starts once torch_xla is imported."""

    current: Session | None = None
    opening = threading.Lock()

    def __init__(self, out: str, level: str, group: str | None) -> None:
        # The program may change its directory while we record.
        self.out = out if "://" in out else os.path.abspath(out)
        self.level = level
        self.group = group
        self.path = self.out
        self.max_graph_bytes: int | None = None
        self.windows = NO_WINDOWS
        self.pid = os.getpid()
        self.faults = Faults()
        self.recorder: Recorder | None = None
        self._patches = Patches(self.faults)
        self._watch = ImportWatch()
        self._hooks: Any = None
        self._lock = threading.Lock()
        self._closed = False
        self._module: ModuleType | None = None
        self._capabilities: dict[str, Any] = {}
        self._ending: Callable[[], Any] = lambda: None

    def open(self, module: ModuleType | None = None) -> None:
        """Begin now, or as soon as the user's program imports torch_xla. ``module``: torch_xla, when just imported."""
        Session.current = self
        if module is not None:
            self._imported(module)
        else:
            self._watch.after(framework.MODULE, self._imported)

    def _imported(self, module: ModuleType) -> None:
        try:
            self._start(module)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._patches.restore()
        reason = str(error) if isinstance(error, InsightError) else f"{type(error).__name__}: {error}"
        say(f"not recording: {reason}")
        if os.environ.get("XLA_INSIGHT_DEBUG"):
            traceback.print_exception(error)

    def _start(self, module: ModuleType) -> None:
        from xla_insight.record.capture import Ways
        from xla_insight.record.dynamo import hide_recorder
        from xla_insight.record.recorder import Recorder
        from xla_insight.record.torch_hooks import TorchHooks

        self._module = module
        phase = framework.phase(module)
        if not framework.is_tested(module):
            version = f"torch_xla {module.__version__}, made for {framework.TESTED_VERSION}"
            say(f"{version}: what cannot be recorded is counted as faults in the report")
        full = self.level == "full"
        settings = framework.arrange_settings(text=full)
        if settings.dump is not None:
            settings.dump.attend()
        writer = self._writer(capabilities(phase, settings, self.windows), settings.users_environment())
        # Lines change the "Computation hash" in the framework's debug output, so not where a user reads that.
        unseen = settings.file is not None and settings.file.owned
        lines = unseen and not framework.lines_are_the_users()
        sessions = settings.dump is None and settings.file is not None
        text = settings.text if full else None
        ways = Ways(settings.dump, text, sessions, lines, full, self._graph_limit(), self.windows)
        recorder = Recorder(framework.framework(module), settings.file, ways, writer, self.faults)
        self._hooks = TorchHooks(recorder, self._patches)
        self.faults.guard("hooks")(hide_recorder)()
        self.faults.guard("hooks")(self._hooks.install)()
        xla_hooks = framework.XlaHooks(module, self._hooks, self._patches)
        self.faults.guard("hooks")(xla_hooks.install)()
        self._ending = self.faults.guard("ending")(xla_hooks.ending)
        recorder.start()
        self.recorder = recorder
        marks = transformers_hooks.StepMarks(self._hooks)
        guard = self.faults.guard("hooks")
        self._watch.after("transformers.trainer_callback", guard(lambda found: marks.install(found, self._patches)))
        self._watch.after(
            "transformers.trainer",
            guard(lambda found: transformers_hooks.install_trainer(found, self._hooks, self._patches)),
        )
        self._watch.after(
            framework.CHECKPOINT_MODULE,
            guard(lambda found: framework.install_checkpoints(found, self._hooks, self._patches)),
        )
        atexit.register(self._at_exit)
        if multiprocessing.parent_process() is not None:  # such a process may end without running atexit
            Finalize(None, self._at_exit, exitpriority=100)

    def _graph_limit(self) -> int:
        if self.max_graph_bytes is not None:
            return self.max_graph_bytes
        text = os.environ.get(GRAPH_BYTES_VARIABLE, "")
        if text and not text.isdigit():
            kept = f"keeping {DEFAULT_LIMIT_BYTES} bytes of graphs"
            say(f"{GRAPH_BYTES_VARIABLE} is {text!r} and no number of bytes; {kept}")
        return int(text) if text.isdigit() else DEFAULT_LIMIT_BYTES

    def _writer(self, found: dict[str, Any], environment: dict[str, str]) -> Any:
        self._capabilities = found
        anchor_mono, anchor_wall = time.perf_counter_ns(), time.time_ns()
        facts = {
            **framework.process_facts(environment),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "command": list(getattr(sys, "orig_argv", sys.argv)),
            "cwd": os.getcwd(),
            "started_unix_ns": anchor_wall,
            "start_mono_ns": anchor_mono,
            "wall_anchor_ns": anchor_wall,
            "level": self.level,
            "capabilities": self._capabilities,
        }
        run_facts = {"command": facts["command"], "started_unix_ns": anchor_wall, "level": self.level}
        return self._create(run_facts, facts)

    def _create(self, run_facts: dict[str, Any], facts: dict[str, Any]) -> Any:
        from xla_insight.store.writer import RunWriter

        def create(path: str) -> Any:
            writer = RunWriter.create(path, group=self.group, run_facts=run_facts, process_facts=facts)
            self.path = path
            return writer

        try:
            return create(self.out)
        except RunExistsError as error:
            return self._elsewhere(create, error)
        except OSError as error:
            return self._in_temporary_folder(create, error.strerror or str(error))

    def _elsewhere(self, create: Callable[[str], Any], taken: RunExistsError) -> Any:
        """Record beside what is there already, under the first free number."""
        if "://" not in self.out and not os.path.isdir(os.path.dirname(self.out)):
            return self._in_temporary_folder(create, "its parent is not a folder")
        for number in range(2, MAX_NAMES):
            try:
                writer = create(f"{self.out.rstrip('/')}-{number}")
            except RunExistsError:
                continue
            say(f"{self.out} already holds something; recording to {self.path}")
            return writer
        raise taken

    def _in_temporary_folder(self, create: Callable[[str], Any], why: str) -> Any:
        """The place asked for cannot be written: what training shows now is worth more than where it lies."""
        writer = create(os.path.join(tempfile.mkdtemp(prefix="xla-insight-run-"), "run"))
        say(f"cannot write to {self.out} ({why}); recording to {self.path}")
        return writer

    def step(self, source: StepSource) -> None:
        """Mark the end of a step."""
        recorder = self.recorder
        if recorder is not None and recorder.active:
            self.faults.guard("step")(recorder.mark_step)(source)

    def close(self, error: BaseException | None = None, how: str = "clean") -> None:
        """End the recording. Never raises; a second call does nothing."""
        with self._lock:
            if self._closed or os.getpid() != self.pid:
                return
            self._closed = True
        try:
            self._close(error, how)
        except Exception as failure:
            say(f"ending the recording failed ({type(failure).__name__}: {failure}); what was written is kept")
        finally:
            if Session.current is self:
                Session.current = None

    def _close(self, error: BaseException | None, how: str) -> None:
        self._watch.remove()
        recorder = self.recorder
        if recorder is None:
            return
        atexit.unregister(self._at_exit)
        self._ending()
        if error is not None:
            how = "exception"
            detail, now = f"{type(error).__name__}: {error}"[:1000], time.perf_counter_ns()
            recorder.span(Event(now, None, Kind.MARK, name="exception", detail=detail))
        self._patches.restore()
        self._hooks.remove()
        recorder.stop(lambda: {"ended": how, **self._final_facts(recorder)}, say)
        settings = framework.arrange_settings()
        settings.restore()
        if settings.file is not None:
            settings.file.stop()
        if settings.dump is not None and how != "exit":
            settings.dump.leave()

    def _final_facts(self, recorder: Recorder) -> dict[str, Any]:
        """What is known only at the end: the devices, and whether graphs were described as promised."""
        facts = framework.device_facts(self._module) if self._module is not None else {}
        if self._capabilities.get("graph_hash") and recorder.executions and not recorder.blocks_seen:
            reason = "the framework described no graph: its debug file could not be written"
            facts["capabilities"] = {**self._capabilities, "graph_hash": False, "graph_hash_reason": reason}
        return facts

    def _at_exit(self) -> None:
        self.close(getattr(sys, "last_value", None), "exit")

    def abandon(self) -> None:
        """In a forked child: this recording belongs to the parent."""
        if self.recorder is not None:
            self.recorder.active = False
        self._closed = True
        Session.current = None


def _after_fork() -> None:
    framework.drop_inherited_settings()
    if Session.current is not None:
        Session.current.abandon()


os.register_at_fork(after_in_child=_after_fork)


def _group() -> str | None:
    """What tells processes that record one run together from those that do not."""
    given = os.environ.get(GROUP_VARIABLE)
    if given:
        return given
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return None
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    return "-".join(["ranks", *(os.environ.get(name, "") for name in names), str(os.getppid())])


def _level(level: str | None) -> str:
    wanted = level or os.environ.get(LEVEL_VARIABLE) or "light"
    if wanted not in LEVELS:
        say(f"level {wanted!r} is not one of {', '.join(LEVELS)}; recording with level 'light'")
        return "light"
    return wanted


def _windows(asked: Asked | None, level: str) -> WindowPlan:
    try:
        return parse_windows(asked if asked is not None else os.environ.get(WINDOWS_VARIABLE) or None, level)
    except (UsageError, TypeError, ValueError) as error:
        say(f"windows: {error}; recording without windows")
        return NO_WINDOWS


def start_from_environment(module: ModuleType) -> str | None:
    """Open the session that ``xla-insight run`` asked for, when ``module`` (torch_xla) has just been imported.

    Returns where it records to, which is not always where it was asked to; None when it does not.
    """
    out = os.environ.get(RUN_VARIABLE)
    if out and Session.current is None:
        session = Session(out, _level(None), os.environ.get(GROUP_VARIABLE))
        session.windows = _windows(None, session.level)
        session.open(module)
        return session.path if session.recorder is not None else None
    return None


class profile:  # noqa: N801 - reads as a verb: `with xi.profile("runs/a"):`
    """Record everything inside the ``with`` block to the folder or URL ``out``.

    ``level``: ``"light"`` for runs in production, ``"full"`` for diagnosis (each graph's text with the hashes of its
    roots, source lines in every graph; tens of ms for each execution). ``max_graph_bytes``: limit of stored graphs,
    compressed (256 MB). ``windows``: the steps in which the device's own record is taken: ``"10-12,100"``, a sequence
    of steps and (first, last) pairs, ``"none"``, or ``"auto"`` (a few steps early and late, once that is cheap).
    Inside another recording it only passes step marks on. Nothing it does can raise into the block; an ``out`` that
    already holds something is left alone and a numbered name is used instead (``path``).
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        level: str | None = None,
        group: str | None = None,
        max_graph_bytes: int | None = None,
        windows: Asked | None = None,
    ) -> None:
        self._out = os.fspath(out)
        self._max_graph_bytes = max_graph_bytes
        self._windows = windows
        self._level = level
        self._group = group
        self._session: Session | None = None
        self._nested = False

    def __enter__(self) -> profile:
        try:
            self._enter()
        except Exception as error:
            say(f"not recording: {type(error).__name__}: {error}")
        return self

    def _enter(self) -> None:
        if not self._out.strip():
            raise ValueError("the folder to record to has no name")
        with Session.opening:  # two threads may begin at once; one of them records
            if Session.current is not None:
                self._nested = True
                self._session = Session.current
                if self._session.recorder is not None and self._session.out != os.path.abspath(self._out):
                    say(f"already recording to {self._session.path}; {self._out} is not written")
            else:
                self._session = Session(self._out, _level(self._level), self._group or _group())
                self._session.max_graph_bytes = self._max_graph_bytes
                self._session.windows = _windows(self._windows, self._session.level)
                self._session.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None and not self._nested:
            self._session.close(error)

    def step(self) -> None:
        """Mark the end of an optimizer step in a loop of your own."""
        if self._session is not None:
            self._session.step(StepSource.PROF_STEP)

    @property
    def path(self) -> str:
        """Where this recording is written."""
        return self._session.path if self._session is not None else self._out

    def report(self) -> Any:
        """The report of what was recorded (``facts.report.Report``). Raises ``InsightError`` when there is none yet."""
        # By name: the reading side is not part of the training process unless it is asked for.
        return importlib.import_module("xla_insight.analysis").analyze(self.path)
