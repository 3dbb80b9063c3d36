"""What a browser may do with the dashboard: only this machine's names may be asked for, and nothing outside is loaded.

Owns the check of the Host header (a page of another site that rebinds its name to 127.0.0.1 is refused) and the headers
that keep pages from loading or sending anything elsewhere.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

from flask import Flask, Response, abort, request

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def allowed_names(host: str) -> frozenset[str] | None:
    """Names a request may be addressed to when listening on ``host``; None when any IP address may be used.

    A rebinding attack needs a *name*, so when listening beyond this machine, IP addresses and this machine's own names
    are accepted and every other name is refused.
    """
    if host in _LOCAL_NAMES or _is_loopback(host):
        return _LOCAL_NAMES | {host}
    return None


def protect(server: Flask, host: str, script_hashes: Callable[[], list[str]]) -> None:
    """Add the checks to a server that listens on ``host``. ``script_hashes``: of the inline scripts that pages have."""
    names = allowed_names(host)
    own_names = {socket.gethostname().lower(), socket.getfqdn().lower(), "localhost", host.lower()}
    policy = ""

    def check_host() -> None:
        asked = _name_of(request.host)
        allowed = asked in names if names is not None else asked in own_names or _is_address(asked)
        if not allowed:
            abort(Response("This dashboard is not served under that name.\n", status=421, mimetype="text/plain"))

    def add_headers(response: Response) -> Response:
        nonlocal policy
        policy = policy or _policy(script_hashes())
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response

    server.before_request(check_host)
    server.after_request(add_headers)


def _policy(script_hashes: list[str]) -> str:
    """Everything from this server only. Styles may be inline: component kit and figures set them from scripts."""
    scripts = " ".join(["'self'", *script_hashes])
    return (
        f"default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _name_of(host_header: str) -> str:
    name = host_header.lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if name.count(":") == 1 else name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback
