"""Message classes for ``hlo.proto``, made from its compiled descriptor in a private pool.

Owns loading of ``hlo_descriptor``. A private pool, because programs that read our graphs may also have registered
TensorFlow's or XLA's own definitions of these messages; the descriptor, because it loads under every protobuf release,
while generated Python code is bound to one.
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pool, message_factory

from xla_insight.graph.hlo_descriptor import DESCRIPTOR

PACKAGE = "xla_insight.hlo"

_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(base64.b64decode(DESCRIPTOR))


def message_class(name: str) -> Any:
    """The class of one message of ``hlo.proto``, for example ``message_class("HloProto")``."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
