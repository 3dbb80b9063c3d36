"""The dashboard as a program: builds the Dash application and serves it until it is stopped.

Owns the address it listens on and everything around the application: assets, headers, the production server. Only reads
below the folder it is given.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import dash
import waitress
from flask import Flask

from xla_insight.errors import InsightError, UsageError

from . import guard, shell, strip
from .data import Library
from .pages import PAGES

DEFAULT_PORT = 8050
_THREADS = 8
_PATIENCE_S = 1.0
"""How long the end waits for answers that are being worked out."""
_PAGE = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <title>{%title%}</title>
        <link rel="icon" type="image/svg+xml" href="/assets/mark.svg">
        <script src="/assets/early/scheme.js"></script>
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <footer>{%config%}{%scripts%}{%renderer%}</footer>
    </body>
</html>"""


def create_app(
    runs: Path, *, host: str = "127.0.0.1", library: Library | None = None, caches: Sequence[str] = ()
) -> dash.Dash:
    """The application over a folder of runs (or one run), to be served on ``host``."""
    server = Flask("xla_insight_app")
    app = dash.Dash(
        "xla_insight_app",
        server=server,
        assets_folder=str(Path(__file__).parent / "assets"),
        assets_ignore=r"scheme\.js",
        index_string=_PAGE,
        title="xla-insight",
        update_title="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        enable_mcp=False,
        use_pages=False,
    )
    library = library or Library(runs, caches=caches)
    app.layout = shell.layout()
    shell.register(app, library, PAGES)
    strip.register(app, library)
    for page in PAGES:
        page.register(app, library)
    guard.protect(server, host, lambda: list(app.csp_hashes()))
    return app


def serve(
    runs: Path,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    open_browser: bool = False,
    caches: Sequence[str] = (),
) -> None:
    """Serve the dashboard until Ctrl-C. ``port`` 0 takes any free port; ``caches``: compile caches to show.

    Raises UsageError when the address cannot be listened on.
    """
    listening = _listen(host, port)
    logging.getLogger("waitress").setLevel(logging.ERROR)  # a busy moment is no news to the person at the terminal
    try:
        library = Library(runs, caches=caches)
        # Until a browser has started, what it will most likely ask for can be read.
        threading.Thread(target=_read_newest, args=(library,), daemon=True).start()
        app = create_app(runs, host=host, library=library)
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listening.getsockname()[1]}/"
        server = waitress.create_server(app.server, sockets=[listening], threads=_THREADS, ident=None)
        dispatcher = server.task_dispatcher
        dispatcher.shutdown = partial(dispatcher.shutdown, timeout=_PATIENCE_S)
        print(f"xla-insight shows {runs} at {url} (Ctrl-C stops it)", flush=True)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        try:
            server.run()
        finally:
            server.close()
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
    print("stopped", flush=True)
    if any(thread.daemon for thread in threading.enumerate()):
        # Something is still being read. Python would take the database away under it, which aborts the process; there
        # is nothing to be saved.
        sys.stderr.flush()
        os._exit(0)


def _read_newest(library: Library) -> None:
    """Read the run that is shown when none is asked for; what is wrong with it is told to whoever asks."""
    with contextlib.suppress(InsightError):
        entries = library.entries()
        if entries:
            library.view(entries[0].id)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. It is taken before anything is built, so that a busy port is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} is in use; choose another with --port, or --port 0 for any free one"
            ) from error
        raise UsageError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another with --host and --port"
        ) from error
    return listening
