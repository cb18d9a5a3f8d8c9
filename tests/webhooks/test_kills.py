"""A worker of webhooks that is killed at any of its steps loses no event, and repeats events only with equal ids.

Between the kills, the receiver fails until events are parked and the webhook is paused, and an operator resumes, replays, pauses
and rotates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shoal.core.ids import IdMaker
from shoal.core.webhooks import Pause
from shoal.graph.contract import Cursor
from shoal.graph.schema import PARKED_EVENTS
from shoal.outgoing import OutgoingResponse, RequestFailed
from shoal.queries.events import PUBLIC, EventReader
from shoal.webhooks import endpoints, worker
from shoal.webhooks.worker import LEASE_MS, PAGE, WebhookWorker
from tests.api.in_memory_network import BASE
from tests.async_runner import run
from tests.engines import dynamodb, postgres
from tests.example_counts import DEEP
from tests.push.service import PushService
from tests.webhooks.scene import Scene, opened

KILLS = {"memory": 1_000, "sqlite": 1_000, "two postgres": 1_000, "dynamodb": 200} if DEEP else {}
_FEW_KILLS = 20
_SENT = 6
"""Maximum posts between two kills."""
MEMORY = dict.fromkeys(("media", "search", "tags"), "memory://")


class Killed(BaseException):
    """The process was killed."""


class Fate:
    """The calls that are left until a process is killed, before or after the last of them has an effect."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._left = dice.randint(1, 25)

    def step(self) -> bool:
        """Count a call. Raise `Killed` if the process is dead, and return whether it dies after this call."""
        self._left -= 1
        if self._left < 0 or (self._left == 0 and self._dice.random() < 0.5):
            self._left = -1
            raise Killed
        return self._left == 0


class Doomed:
    """A graph, or a reader of events, of a process that will be killed."""

    def __init__(self, target: Any, fate: Fate) -> None:
        self._target = target
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        async def call(*args: Any, **more: Any) -> Any:
            dies = self._fate.step()
            found = await method(*args, **more)
            if dies:
                raise Killed
            return found

        return call


class NoPool:
    """Replaces the connections of a worker."""

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.fixture(params=["memory", "sqlite", "two postgres", "dynamodb"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scene(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> Iterator[Scene]:
    """A network on each store."""
    stores: dict[str, Callable[[], Any]] = {
        "memory": lambda: "memory://",
        "sqlite": lambda: f"sqlite:///{tmp_path}/shoal.db",
        "two postgres": lambda: {part: run(postgres.database(request)) for part in ("0-31", "32-63")},
        "dynamodb": dynamodb.new_table,
    }
    with opened(PushService(Path("none"), "https://shop.example"), store=stores[store](), **MEMORY) as made:
        yield made


class Receiver:
    """Requests that arrive, and the answers: failures at random, or all of them while the receiver is `down`."""

    def __init__(self, dice: Random) -> None:
        self.came: list[tuple[str, bytes]] = []
        self.down = False
        self.fate: Fate | None = None
        self._dice = dice

    async def receive(self, _pool: object, _method: str, _url: str, **more: Any) -> OutgoingResponse:
        dies = self.fate is not None and self.fate.step()
        if self.down or (self.fate is not None and self._dice.random() < 0.05):
            if dies:
                raise Killed
            raise RequestFailed("no response")
        self.came.append((more["headers"]["webhook-id"], more["content"]))
        if dies:
            raise Killed
        return OutgoingResponse(200, b"")


class Operator:
    """Resumes and replays a webhook, and sometimes pauses or rotates it."""

    def __init__(self, scene: Scene, id_: int, events: EventReader) -> None:
        self.parked: set[str] = set()
        """Ids of all events that were ever parked."""
        self._scene, self._id, self._events = scene, id_, events

    def act(self, dice: Random) -> None:
        """Do what an operator may do between two kills."""
        chance = dice.random()
        if chance < 0.05:
            self._run(endpoints.rotate(self._scene.here.writes, self._hook(), 0))
        elif chance < 0.1:
            self._run(endpoints.pause(self._scene.here.writes, self._hook()))
        elif chance < 0.6:
            self.resume()
        if chance > 0.8:
            self.replay()

    def resume(self) -> None:
        """Resume the webhook, if it is paused."""
        self._run(endpoints.resume(self._scene.here.writes, self._events, self._hook()))

    def replay(self) -> int:
        """Replay all parked events."""
        rows = self._run(self._scene.here.network.effects.graph.assoc_range(self._id, PARKED_EVENTS, Cursor(limit=100)))
        self.parked |= {endpoints._entry_decoder.decode(row.data).id for row in rows}
        return int(self._run(endpoints.replay(self._scene.here.writes, self._hook())))

    def _hook(self) -> Any:
        return self._scene.hook(self._id)

    def _run(self, work: Any) -> Any:
        return self._scene.here.run(work)


def test_webhook_worker_killed_at_any_step_loses_no_event_and_keeps_order(
    scene: Scene, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Random(7)
    receiver = Receiver(dice)
    monkeypatch.setattr(worker, "open_pool", lambda *_: NoPool())
    monkeypatch.setattr(endpoints, "request", receiver.receive)
    # A few failures park an event, and fewer then pause the webhook.
    monkeypatch.setattr(worker, "RETRY_MS", 20_000)
    monkeypatch.setattr(worker, "PROBE_MS", 5_000)
    id_ = scene.add("/hook", "post.created")
    start = scene.hook(id_).position
    graph, events = scene.here.network.effects.graph, EventReader(scene.here.network.store, BASE)
    operator = Operator(scene, id_, events)

    def settle(fate: Fate | None) -> None:
        """Deliver all due events in a new process."""
        receiver.fate = fate
        readers: tuple[Any, Any] = (Doomed(graph, fate), Doomed(events, fate)) if fate else (graph, events)
        made = WebhookWorker(readers[0], IdMaker(), readers[1], scene.worker.render, clock=lambda: scene.now)
        scene.here.run(made.settle())

    posts = kills = pauses = 0
    while kills < KILLS.get(store, _FEW_KILLS):
        for _ in range(dice.randint(0, _SENT)):
            scene.post(f"post {dice.random()}")
            posts += 1
        receiver.down = dice.random() < (0.8 if receiver.down else 0.1)
        try:
            settle(Fate(dice))
        except Killed:
            kills += 1
        pauses += scene.hook(id_).paused is Pause.FAILING
        operator.act(dice)
        # The lease of the killed process ends, and so may the pause after a failure.
        scene.now += dice.choice((LEASE_MS, 3_600_000))
    receiver.down = False
    while len({event_id for event_id, _ in receiver.came}) < posts or scene.parked(id_):
        operator.resume()
        operator.replay()
        settle(None)
        # The last failure may have delayed the next attempt.
        scene.now += 7_200_000
    expected, position, more = list[str](), start, True
    while more:
        page = scene.here.run(events.read(position, "post.created", PUBLIC, 200))
        expected += [event.id for event in page.events]
        position, more = page.position, page.more
    first = list(dict.fromkeys(event_id for event_id, _ in receiver.came))
    assert (len(expected), set(first)) == (posts, set(expected))
    in_turn = [event_id for event_id in expected if event_id not in operator.parked]
    assert [event_id for event_id in first if event_id not in operator.parked] == in_turn
    assert len(in_turn) > posts / 2
    repeated = len(receiver.came) - posts
    assert 0 < repeated <= kills * PAGE
    assert all(event_id == json.loads(content)["id"] for event_id, content in receiver.came)
    hook = scene.hook(id_)
    assert (hook.paused, hook.lease, scene.parked(id_)) == ("", "", 0)
    assert scene.findings() == []
    if kills > 500:
        assert pauses > 0
        assert operator.parked
