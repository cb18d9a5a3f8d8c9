"""A worker of webhooks that is killed at any of its steps loses no event, and repeats events only with equal ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shoal.core.ids import IdMaker
from shoal.outgoing import OutgoingResponse, RequestFailed
from shoal.queries.events import PUBLIC, EventReader
from shoal.webhooks import endpoints, worker
from shoal.webhooks.worker import LEASE_MS, PAGE, WebhookWorker
from tests.api.in_memory_network import BASE
from tests.async_runner import run
from tests.engines import postgres
from tests.example_counts import examples
from tests.push.service import PushService
from tests.webhooks.scene import Scene, opened

KILLS = examples(100, full=1_000)
_SENT = 6
"""Maximum posts between two kills."""


MEMORY = dict.fromkeys(("media", "search", "tags"), "memory://")


class Killed(BaseException):
    """The process was killed."""


class Doomed:
    """A graph or a receiver whose process is killed after some calls, before or after the last of them has an effect."""

    def __init__(self, graph: Any, dice: Random) -> None:
        self._graph = graph
        self._dice = dice
        self._left = dice.randint(1, 25)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._graph, name)

        async def call(*args: Any, **more: Any) -> Any:
            before = self.step()
            found = await method(*args, **more)
            if before:
                raise Killed
            return found

        return call

    def step(self) -> bool:
        """Count a call. Raise `Killed` if the process is dead, and return whether it dies after this call."""
        self._left -= 1
        if self._left < 0 or (self._left == 0 and self._dice.random() < 0.5):
            self._left = -1
            raise Killed
        return self._left == 0


class NoPool:
    """Replaces the connections of a worker."""

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.fixture(params=["memory", "sqlite", "two postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A network on each store, whose webhooks lead to `receive`."""
    monkeypatch.setattr(worker, "open_pool", lambda *_: NoPool())
    stores: dict[str, Callable[[], Any]] = {
        "memory": lambda: "memory://",
        "sqlite": lambda: f"sqlite:///{tmp_path}/shoal.db",
        "two postgres": lambda: {part: run(postgres.database(request)) for part in ("0-31", "32-63")},
    }
    with opened(PushService(Path("none"), "https://shop.example"), store=stores[request.param](), **MEMORY) as made:
        yield made


def test_webhook_worker_killed_at_any_step_loses_no_event_and_keeps_order(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Random(7)
    received: list[tuple[str, bytes]] = []
    doomed: Doomed | None = None

    async def receive(_pool: object, _method: str, _url: str, **more: Any) -> OutgoingResponse:
        dies = doomed is not None and doomed.step()
        fails = doomed is not None and dice.random() < 0.05
        if not fails:
            received.append((more["headers"]["webhook-id"], more["content"]))
        if dies:
            raise Killed
        if fails:
            raise RequestFailed("no response")
        return OutgoingResponse(200, b"")

    monkeypatch.setattr(endpoints, "request", receive)
    id_ = scene.add("/hook", "post.created")
    start = scene.hook(id_).position
    graph, events = scene.here.network.effects.graph, EventReader(scene.here.network.store, BASE)

    def process(reader: Any) -> WebhookWorker:
        return WebhookWorker(reader, IdMaker(), events, None, clock=lambda: scene.now)  # type: ignore[arg-type]

    kills = 0
    while kills < KILLS:
        for _ in range(dice.randint(0, _SENT)):
            scene.post(f"post {dice.random()}")
        doomed = Doomed(graph, dice)
        try:
            scene.here.run(process(doomed).settle())
        except Killed:
            kills += 1
        # The lease of the killed process ends, and so does the pause after a failure.
        scene.now += dice.choice((LEASE_MS, 3_600_000))
    doomed = None
    # The last failure may have delayed the next attempt.
    scene.now += 7_200_000
    scene.here.run(process(graph).settle())
    expected, position, more = [], start, True
    while more:
        page = scene.here.run(events.read(position, "post.created", PUBLIC, 200))
        expected += [event.id for event in page.events]
        position, more = page.position, page.more
    assert list(dict.fromkeys(event_id for event_id, _ in received)) == expected
    assert len(expected) > KILLS
    repeated = len(received) - len(expected)
    assert 0 < repeated <= KILLS * PAGE
    assert all(event_id == json.loads(content)["id"] for event_id, content in received)
    hook = scene.hook(id_)
    assert (hook.paused, hook.lease, scene.parked(id_)) == ("", "", 0)
    assert scene.findings() == []
