"""Helpers to read the log of a server, to lock its store, and to sign up a member."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

Line = dict[str, Any]

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


def lines(log: Path, kind: str = "") -> list[Line]:
    """Return the entries of a JSON log, optionally filtered by kind. A line that is not JSON fails the test."""
    text = log.read_text()
    try:
        found = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    except ValueError:
        raise AssertionError(f"not JSON: {text}") from None
    return [line for line in found if not kind or line.get("kind") == kind]


def logged(log: Path, holds: Callable[[Line], bool], number: int = 1, seconds: float = 60.0) -> list[Line]:
    """Wait for `number` entries for which `holds` is true, and return them. The server writes an entry after the response."""
    deadline = time.monotonic() + seconds
    while len(found := [line for line in lines(log) if holds(line)]) < number:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
    return found


def request(log: Path, id_: str) -> Line:
    """Wait for the only entry of the request with this id, and return it."""
    (line,) = logged(log, lambda line: line.get("kind") == "request" and line["id"] == id_)
    return line


LOCKED_SECONDS, SLOW_MS = 2.5, "500"
"""Duration of a lock, and a `slow_ms` setting that a locked request exceeds even if a busy machine delays it by two seconds."""


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Keep the server of a store from committing for `LOCKED_SECONDS`. The server waits five seconds for a lock."""
    with closing(sqlite3.connect(store, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(LOCKED_SECONDS, lambda: other.execute("ROLLBACK"))
        timer.start()
        try:
            yield
        finally:
            timer.join()


def signed_up(url: str, name: str) -> str:
    """Sign up a member, and return the access token."""
    asked = {"client_name": "Test", "redirect_uris": "urn:ietf:wg:oauth:2.0:oob", "scopes": "read write"}
    app = httpx.post(f"{url}/api/v1/apps", data=asked).json()
    grant = {"grant_type": "client_credentials", "scope": "read write"}
    credentials = {"client_id": app["client_id"], "client_secret": app["client_secret"]}
    token = httpx.post(f"{url}/oauth/token", data={**grant, **credentials}).json()["access_token"]
    member = {
        "username": name,
        "email": f"{name}@example.org",
        "password": "a long password",
        "agreement": "true",
        "locale": "en",
    }
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{url}/api/v1/accounts", headers=headers, data=member, timeout=60)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])
