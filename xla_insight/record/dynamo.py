"""Keeps torch.compile from tracing into the recorder.

Owns one thing: dynamo looks at every Python frame below a compiled function, ours too when a hook runs there (after a
graph break, say). Marked code is run as if dynamo were not there, so its graphs, guards and breaks stay the user's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

_PACKAGE = __name__.rpartition(".")[0]


def hide_recorder() -> None:
    """Mark all code of the recorder that is loaded now. Raises what torch raises when its private API has moved."""
    from torch._dynamo.eval_frame import skip_code

    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE + "."):
            for code in _codes(module):
                skip_code(code)


def _codes(module: ModuleType) -> Iterator[CodeType]:
    """Code objects of the functions and methods that the module defines, with those nested in them."""
    owners = [module, *(value for value in vars(module).values() if isinstance(value, type))]
    for owner in owners:
        for value in list(vars(owner).values()):
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield from _nested(function.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
