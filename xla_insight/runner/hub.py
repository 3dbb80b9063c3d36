"""The hub of models and data sets: asked once, and briefly, whether it answers before a training needs it.

Its own library asks again for a minute when there is no network. So where the hub does not answer, the training is
told to look at what was downloaded earlier only, and says why when that does not hold what it needs. Standard library
only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

WAIT_S = 5.0
LONGEST = 300
"""Characters of a reason."""
UNREACHABLE = "XLA_INSIGHT_TRAIN_HUB_UNREACHABLE"
"""Set for the training where the hub did not answer, to what went wrong."""
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_YES = ("1", "true", "on", "yes")


def variables() -> dict[str, str]:
    """What the environment of a training must hold that needs the hub: nothing when the hub answers."""
    if any(os.environ.get(name, "").lower() in _YES for name in _OFFLINE):
        return {UNREACHABLE: "HF_HUB_OFFLINE is set"}
    place = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    wrong = failure(place)
    return {} if wrong is None else {"HF_HUB_OFFLINE": "1", UNREACHABLE: f"{place}: {wrong}"}


def failure(place: str, wait_s: float = WAIT_S) -> str | None:
    """Why nobody answers at a URL within ``wait_s``; None when somebody does, whatever the answer."""
    import ssl
    import urllib.error
    import urllib.request  # these take longer to load than a page of help to print

    said: list[str | None] = []

    def ask() -> None:
        try:
            request = urllib.request.Request(place, method="HEAD")
            urllib.request.urlopen(request, timeout=wait_s).close()
            said.append(None)
        except (urllib.error.HTTPError, ssl.SSLError):
            said.append(None)
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            said.append(None if isinstance(reason, ssl.SSLError) else _in_words(reason))

    thread = threading.Thread(target=ask, name="hub", daemon=True)  # looking up a name knows no time limit
    thread.start()
    thread.join(wait_s + 0.5)
    return said[0] if said else f"no answer in {wait_s:.0f} s"


def reason_of(error: Exception, environment: Mapping[str, str] = os.environ) -> str:
    """Why something of the hub could not be loaded, in one line: that the hub does not answer, where it does not."""
    wrong = environment.get(UNREACHABLE)
    if wrong is not None and isinstance(error, OSError):  # so are all errors of a connection and of what is not there
        return f"it was not downloaded earlier, and the hub cannot be reached ({wrong})"
    return str(error).strip().split("\n")[0][:LONGEST] or type(error).__name__


def _in_words(reason: object) -> str:
    said = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    return said.strip().split("\n")[0] or type(reason).__name__
