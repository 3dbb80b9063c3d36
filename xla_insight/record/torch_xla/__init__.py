"""The one place that names torch_xla: its private functions, its metrics, its variables and what can be had when.

Owns every assumption about torch_xla 2.9. A second framework is a second package like this one: ``facts`` says what is
read, ``settings`` what must be set early, ``hooks`` where its cuts are seen.
"""

from __future__ import annotations

from xla_insight.record.torch_xla.checkpoints import MODULE as CHECKPOINT_MODULE
from xla_insight.record.torch_xla.checkpoints import install_checkpoints
from xla_insight.record.torch_xla.facts import (
    MODULE,
    TESTED_VERSION,
    device_facts,
    framework,
    is_tested,
    phase,
    process_facts,
)
from xla_insight.record.torch_xla.hooks import XlaHooks
from xla_insight.record.torch_xla.settings import arrange_settings, drop_inherited_settings, lines_are_the_users

__all__ = [
    "CHECKPOINT_MODULE",
    "MODULE",
    "TESTED_VERSION",
    "XlaHooks",
    "arrange_settings",
    "device_facts",
    "drop_inherited_settings",
    "framework",
    "install_checkpoints",
    "is_tested",
    "lines_are_the_users",
    "phase",
    "process_facts",
]
