"""Events over HTTP from a server that is killed while it writes: nothing is missing, and nothing uncommitted appears."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx

from shoal import Shoal
from shoal.commands import oauth
from tests.async_runner import in_loop
from tests.server_process import served

KILLS = 3
BEFORE_KILL = 25
"""Events that the consumer receives before each kill."""


class Writer(threading.Thread):
    """Writes posts until the server is gone. `acknowledged` has their ids."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__()
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self.acknowledged: set[str] = set()

    def run(self) -> None:
        with httpx.Client(base_url=self._url, headers=self._headers, timeout=60.0) as client:
            while True:
                try:
                    answer = client.post("/api/v1/statuses", json={"status": "tide"})
                except httpx.HTTPError:
                    return
                self.acknowledged.add(answer.json()["id"])


def read(url: str, secret: str, cursor: str) -> Any:
    query: dict[str, Any] = {"after": cursor, "types": "post", "limit": 10, "wait": 1}
    headers = {"Authorization": f"Bearer {secret}"}
    answer = httpx.get(f"{url}/api/shoal/v1/events", params=query, headers=headers, timeout=60.0)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def prepare(store: Path) -> tuple[str, str, str]:
    """Create a network, and return the secret of a server key, and the id and token of a member."""
    async with Shoal.open(f"sqlite:///{store}", event_log="on") as shoal:
        ann = await shoal.register("ann")
        writes = shoal.network.writes
        app = (await oauth.register(writes, "Test", redirect_uris=("urn:x",), scopes=("write",))).app
        token = (await oauth.issue_token(writes, app.id, ann.id, ("write",))).text
        return (await shoal.server_keys.create("shop", ["server:events"])).secret, str(ann.id), token


@in_loop
async def test_events_of_killed_server_are_exactly_the_committed_posts(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    secret, ann, token = await prepare(store)
    received: list[str] = []
    acknowledged: set[str] = set()
    cursor = "start"
    for _ in range(KILLS):
        with served(store) as server:
            writer = Writer(server.url, token)
            writer.start()
            until = len(received) + BEFORE_KILL
            while len(received) < until:
                page = read(server.url, secret, cursor)
                received += [event["data"]["id"] for event in page["events"]]
                cursor = page["cursor"]
            server.kill()
            writer.join()
            acknowledged |= writer.acknowledged
    with served(store) as server:
        while page := read(server.url, secret, cursor):
            received += [event["data"]["id"] for event in page["events"]]
            cursor = page["cursor"]
            if not page["events"]:
                break
    assert len(received) == len(set(received)) >= KILLS * BEFORE_KILL
    assert acknowledged <= set(received)
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        assert (await shoal.visitor.profile_of(int(ann))).posts == len(received)
