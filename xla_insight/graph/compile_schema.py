"""Compiles ``hlo.proto`` into ``hlo_descriptor.py``: ``python -m xla_insight.graph.compile_schema``.

Owns the form of the checked-in descriptor. Needs ``grpcio-tools`` (a protoc from PyPI); only maintainers run it, and
a test compares its output with the checked-in file.
"""

from __future__ import annotations

import base64
import importlib
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).parent

_HEADER = '''"""Compiled from hlo.proto by ``python -m xla_insight.graph.compile_schema``; not edited by hand."""

from __future__ import annotations

DESCRIPTOR = (
'''


def compiled() -> str:
    """The text of ``hlo_descriptor.py`` for the present ``hlo.proto``. Raises RuntimeError when protoc refuses it."""
    from google.protobuf import descriptor_pb2

    protoc = importlib.import_module("grpc_tools.protoc")

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "descriptor.pb"
        if protoc.main(["protoc", f"-I{HERE}", f"--descriptor_set_out={target}", "hlo.proto"]) != 0:
            raise RuntimeError("protoc refused hlo.proto")
        files = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes())
    encoded = base64.b64encode(files.file[0].SerializeToString(deterministic=True)).decode()
    lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(encoded, 112))
    return f"{_HEADER}{lines}\n)\n"


if __name__ == "__main__":
    (HERE / "hlo_descriptor.py").write_text(compiled())
