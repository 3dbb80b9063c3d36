"""The hub is asked once, briefly, and only by trainings that need it; a training without it says that in one line."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from xla_insight.errors import UsageError
from xla_insight.runner import hub, models
from xla_insight.runner.from_scratch import FromScratch
from xla_insight.runner.mlm import MaskedLanguageModel
from xla_insight.runner.spmd import ManyDevices

WRONG = {hub.UNREACHABLE: "https://there: Name or service not known"}


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's own environment counts."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT", "http_proxy", "HTTP_PROXY", hub.UNREACHABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server() -> Iterator[str]:
    """A server that refuses every request: it answers."""
    refusing = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    refusing.RequestHandlerClass.log_message = lambda *_: None  # type: ignore[attr-defined]
    threading.Thread(target=refusing.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{refusing.server_port}"
    refusing.shutdown()


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_any_answer_is_an_answer(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server)
    assert hub.variables() == {}


def test_no_answer_is_said_to_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    place = closed_port()
    monkeypatch.setenv("HF_ENDPOINT", place)
    assert hub.variables() == {"HF_HUB_OFFLINE": "1", hub.UNREACHABLE: f"{place}: Connection refused"}
    assert "unknown url type" in (hub.failure("nonsense") or "")


def test_silence_ends_the_wait() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begin = time.monotonic()
        said = hub.failure(f"http://127.0.0.1:{silent.getsockname()[1]}", wait_s=0.2)
    assert said is not None and ("timed out" in said or "no answer" in said)
    assert time.monotonic() - begin < 30, "it must not wait for ever; how long exactly is the machine's matter"


def test_whoever_asks_for_no_network_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(hub, "failure", lambda *_: pytest.fail("the network was used"))
    assert hub.variables() == {hub.UNREACHABLE: "HF_HUB_OFFLINE is set"}


def test_reasons() -> None:
    missing = OSError("We couldn't connect to the server\nand more")
    assert hub.reason_of(missing, {}) == "We couldn't connect to the server"
    said = "it was not downloaded earlier, and the hub cannot be reached (https://there: Name or service not known)"
    assert hub.reason_of(missing, WRONG) == said
    assert hub.reason_of(ValueError("a bad file"), WRONG) == "a bad file"
    assert hub.reason_of(ValueError(), {}) == "ValueError"


def test_only_trainings_that_need_the_hub_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "failure", lambda *_: "no network")
    here = (str(tmp_path),)
    for local in (MaskedLanguageModel(), MaskedLanguageModel(data=here, model=str(tmp_path)), FromScratch(data=here)):
        assert local.variables() == {}
    for remote in (MaskedLanguageModel(data=("wikitext",)), MaskedLanguageModel(model="owner/name")):
        assert hub.UNREACHABLE in remote.variables()
    several = ManyDevices(devices=2, data=("wikitext",)).variables()
    assert several["CPU_NUM_DEVICES"] == "2" and hub.UNREACHABLE in several


def test_what_can_be_no_model_is_said_at_once(tmp_path: Path) -> None:
    for name in ("bert-tiny", "owner/name", str(tmp_path)):
        models.check(name)
    for name in ("", "missing.json", "./folder", "/no/such", "a/b/c"):
        with pytest.raises(UsageError, match="no model"):
            models.check(name)
