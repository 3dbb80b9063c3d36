"""Loaded by Python itself at start-up of each process below ``xla-insight run``: arms the recording, then steps aside.

A ``sitecustomize`` of the user's own, further down the path, is loaded as if this one were not there.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _arm() -> None:
    if not os.environ.get("XLA_INSIGHT_RUN"):
        return
    try:
        from xla_insight.record import autostart
    except ImportError:  # another interpreter, without xla-insight: not ours to record
        return
    autostart.arm()


def _load_users_own() -> None:
    path = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_arm()
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
_load_users_own()
