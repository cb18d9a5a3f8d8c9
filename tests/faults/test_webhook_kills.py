"""Webhooks of a server that is killed while posts are written: every post arrives, and repeats have equal ids."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal import Shoal
from shoal.commands import oauth
from shoal.queries.events import EventReader
from shoal.webhooks import endpoints
from tests.async_runner import in_loop
from tests.faults.test_event_log_kills import Writer
from tests.push.service import push_service
from tests.server_process import served
from tests.webhooks.scene import LOCAL

KILLS = 3
BEFORE_KILL = 25
"""Requests that the receiver gets before each kill."""
SECONDS = 120.0


async def prepare(store: Path, url: str) -> str:
    """Create a network with a webhook, and return the token of a member."""
    async with Shoal.open(f"sqlite:///{store}", event_log="on") as shoal:
        writes, ann = shoal.network.writes, await shoal.register("ann")
        app = (await oauth.register(writes, "Test", redirect_uris=("urn:x",), scopes=("write",))).app
        await endpoints.create(writes, EventReader(shoal.network.store, ""), url, "post.created")
        return (await oauth.issue_token(writes, app.id, ann.id, ("write",))).text


@in_loop
async def test_webhook_events_of_killed_server_arrive_in_order(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    with push_service(tmp_path) as service:
        token = await prepare(store, f"{service.url}/hook")
        environment = {"SHOAL_WEBHOOK_NETWORKS": json.dumps([LOCAL]), "SSL_CERT_FILE": str(service.trusted)}

        def received() -> list[Any]:
            return [json.loads(request.body) for request in service.came]

        def wait_for(condition: Callable[[], bool]) -> None:
            until = time.monotonic() + SECONDS
            while not condition():
                assert time.monotonic() < until, f"{len(service.came)} requests arrived"
                time.sleep(0.05)

        acknowledged: set[str] = set()
        for _ in range(KILLS):
            with served(store, files=0, log=None, **environment) as server:
                writer = Writer(server.url, token)
                writer.start()
                number = len(service.came) + BEFORE_KILL
                wait_for(lambda number=number: len(service.came) >= number)  # type: ignore[misc]
                server.kill()
                writer.join()
                acknowledged |= writer.acknowledged
        with served(store, files=0, log=None, **environment):
            # Before the lease of the killed server ends, nothing arrives.
            wait_for(lambda: acknowledged <= {event["data"]["id"] for event in received()})
        events = received()
    first: dict[str, str] = {}
    for event in events:
        assert first.setdefault(event["data"]["id"], event["id"]) == event["id"]
    assert len(first) >= KILLS * BEFORE_KILL / 2
    assert list(first) == sorted(first, key=int)
