"""Serving: where it listens, whom it answers, and that a page loads nothing from elsewhere."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from xla_insight_app import guard, server

from tests.synthetic import build_run
from xla_insight.errors import UsageError


@pytest.fixture
def client(tmp_path: Path) -> FlaskClient:
    """A client of an app over an empty folder."""
    flask: Flask = server.create_app(tmp_path).server
    return flask.test_client()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8050", "[::1]:8050"])
def test_this_machine_may_ask(client: FlaskClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8050", "localhost.evil", "10.0.0.1"])
def test_a_name_rebound_to_this_machine_is_refused(client: FlaskClient, host: str) -> None:
    for path in ("/", "/_dash-layout", "/_dash-update-component"):
        assert client.get(path, headers={"Host": host}).status_code == 421


def test_beyond_this_machine_addresses_and_its_own_names_are_served() -> None:
    app = Flask("test")
    app.add_url_rule("/", view_func=lambda: "")
    guard.protect(app, "0.0.0.0", list)
    answers = {host: app.test_client().get("/", headers={"Host": host}).status_code for host in
               ("192.168.1.7:8050", socket.gethostname(), "evil.example")}  # fmt: skip
    assert list(answers.values()) == [200, 200, 421]


def test_a_page_may_load_from_here_only(client: FlaskClient) -> None:
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe-eval" not in policy
    assert not re.search(r"script-src[^;]*unsafe-inline", policy)
    assert "http" not in policy


def test_no_address_of_another_server_is_in_the_page(client: FlaskClient) -> None:
    page = client.get("/").get_data(as_text=True)
    assert re.findall(r"""(?:src|href)=["'](?:https?:)?//[^"']+""", page) == []
    scripts = re.findall(r'src="(/[^"]+)"', page)
    assert scripts
    for script in scripts:
        assert client.get(script).status_code == 200, script


def test_fonts_are_served_from_here(client: FlaskClient) -> None:
    style = client.get("/assets/style.css").get_data(as_text=True)
    fonts = re.findall(r'url\("([^"]+)"\)', style)
    assert len(fonts) == 2
    for font in fonts:
        assert client.get(f"/assets/{font}").status_code == 200
    assert "http" not in style


def test_files_outside_the_assets_are_not_served(client: FlaskClient) -> None:
    for path in ("/assets/../server.py", "/assets/..%2fserver.py", "/server.py"):
        assert b"waitress" not in client.get(path).data


def test_a_busy_port_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} is in use.*--port"):
            server.serve(tmp_path, port=port)


def test_an_address_of_another_machine_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot listen on"):
        server.serve(tmp_path, host="203.0.113.7", port=0)


def test_it_serves_until_interrupted(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from xla_insight_app.server import serve; serve(Path({str(tmp_path)!r}), port=0)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        line = run.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert url is not None, line
        with urllib.request.urlopen(url[0]) as answer:
            assert answer.status == 200
            assert "Server" not in answer.headers
        run.send_signal(signal.SIGINT)
        out, errors = run.communicate(timeout=20)
    assert run.returncode == 0
    assert "Traceback" not in errors
    assert out == "stopped\n"


_ALWAYS_READING = """
import duckdb
from pathlib import Path
from xla_insight_app import data
from xla_insight_app.server import serve
def read(entry):
    print("reading", flush=True)
    while True:
        duckdb.connect().sql("select sum(i) from range(20_000_000) t(i)").fetchall()
data.read_run = read
serve(Path({folder!r}), port=0)
"""


def test_it_ends_cleanly_while_a_run_is_being_read(tmp_path: Path) -> None:
    build_run(tmp_path / "run", steps=2)
    with subprocess.Popen(
        [sys.executable, "-c", _ALWAYS_READING.format(folder=str(tmp_path))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        # The newest run is read before anyone asks for it.
        assert {"reading", "xla-insight"} == {run.stdout.readline().split()[0] for _ in range(2)}
        run.send_signal(signal.SIGINT)
        out, errors = run.communicate(timeout=60)
    assert (run.returncode, out, errors) == (0, "stopped\n", "")
