"""Push messages in a network of several processes: a web process, RabbitMQ, a worker, and two PostgreSQL databases."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import httpx
import pytest

from shoal.app.network import open_network
from shoal.commands import members, oauth
from shoal.core.placement import place, source_of
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.push.encryption import new_key
from shoal.settings import Settings, build, environment
from shoal_devcluster.program import Program
from tests.async_runner import run
from tests.engines import postgres, rabbitmq, redis
from tests.push.service import App, PushService, Request, push_service
from tests.server_process import served

SCOPES = ("read", "write", "push")
SECONDS = 60.0


class Account(NamedTuple):
    """A member with a token."""

    id: int
    token: str

    @property
    def bearer(self) -> dict[str, str]:
        """Return the authorization header."""
        return {"Authorization": f"Bearer {self.token}"}


class Net:
    """The processes, and two members stored in different PostgreSQL databases."""

    def __init__(
        self, broker: str, service: PushService, worker: Program, ann: Account, ben: Account, client: httpx.Client
    ) -> None:
        self._broker = broker
        self.service = service
        self.worker = worker
        self.ann = ann
        self.ben = ben
        self._client = client

    def subscribed(self, app: App, path: str) -> None:
        """Subscribe the app of Ann to likes and follows."""
        target = {"endpoint": self.service.url + path, "keys": app.keys, "standard": True}
        wish = {"subscription": target, "data": {"alerts": {"favourite": True, "follow": True}}}
        self._asked("POST", "push/subscription", self.ann, json=wish)

    def liked(self, text: str) -> None:
        """Have Ben like a post of Ann's."""
        made = self._asked("POST", "statuses", self.ann, json={"status": text})
        self._asked("POST", f"statuses/{made['id']}/favourite", self.ben)

    def notified(self) -> list[str]:
        """Return the ids of Ann's notifications, newest first."""
        return [one["id"] for one in self._asked("GET", "notifications", self.ann)]

    def came(self, path: str, number: int) -> list[Request]:
        """Wait for a number of messages at a path and for an empty job queue; return all messages at the path."""
        _until(lambda: len(self.service.at(path)) >= number and not self.jobs())
        return self.service.at(path)

    def jobs(self) -> int:
        """Count the jobs that wait or that a worker has claimed."""

        async def backlog() -> int:
            outbox = await RabbitOutbox.open(self._broker, taking=False)
            try:
                return await outbox.backlog()
            finally:
                await outbox.close()

        return run(backlog())

    def _asked(self, method: str, path: str, who: Account, json: object = None) -> Any:
        answer = self._client.request(method, f"/api/v1/{path}", headers=who.bearer, json=json)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Net]:
    folder = tmp_path_factory.mktemp("network")
    with ExitStack() as stack:
        service = stack.enter_context(push_service(tmp_path_factory.mktemp("push")))
        settings = build(
            store={part: run(postgres.database(request)) for part in ("0-31", "32-63")},
            timelines=redis.single(),
            broker=rabbitmq.virtual_host(),
            media=(folder / "media").as_uri(),
            run_consequences=False,
            push_key=new_key(),
            push_networks=["127.0.0.0/8"],
            rate_limits=False,
        )
        ann, ben = run(_accounts(settings))
        environ = {**environment(settings), "SSL_CERT_FILE": str(service.trusted)}
        server = stack.enter_context(served(json.dumps(settings.store), files=0, log=None, **environ))
        client = stack.enter_context(httpx.Client(base_url=server.url, timeout=SECONDS))
        command = [sys.executable, "-m", "shoal.cli", "worker", "--processes", "1"]
        worker = Program("worker", command, folder, environ={**os.environ, **environ})
        stack.callback(worker.stop)
        worker.start()
        yield Net(settings.broker, service, worker, ann, ben, client)


async def _accounts(settings: Settings) -> tuple[Account, Account]:
    names = [f"m{number}" for number in range(100)]
    first = next(name for name in names if source_of(place(name).shard) < 32)
    second = next(name for name in names if source_of(place(name).shard) >= 32)
    async with open_network(settings, background=False) as network:
        app = await oauth.register(network.writes, "app", scopes=SCOPES)
        made = []
        for name in (first, second):
            member = await members.register(network.writes, name)
            token = await oauth.issue_token(network.writes, app.app.id, member.id, SCOPES)
            made.append(Account(member.id, token.text))
        return made[0], made[1]


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_push_message_through_broker_and_worker_is_delivered_once(net: Net) -> None:
    app, path = App(), "/once"
    net.subscribed(app, path)
    net.liked("Low tide")
    (came,) = net.came(path, 1)
    said = app.read(came)
    assert (said["access_token"], said["body"]) == (net.ann.token, "Low tide")
    assert said["notification_id"] == net.notified()[0]


def test_push_message_of_worker_killed_before_sending_is_delivered_once(net: Net) -> None:
    app, path = App(), "/before"
    net.subscribed(app, path)
    # The paused worker holds its claimed jobs without processing them.
    net.worker.pause()
    net.liked("High tide")
    _until(lambda: net.jobs() > 0)
    assert net.service.at(path) == []
    net.worker.kill()
    net.worker.start()
    (came,) = net.came(path, 1)
    assert app.read(came)["body"] == "High tide"


def test_push_message_of_worker_killed_before_response_is_redelivered_with_equal_id(net: Net) -> None:
    app, path = App(), "/between"
    net.subscribed(app, path)
    net.service.answers[path] = 0
    net.liked("Spring tide")
    _until(lambda: len(net.service.at(path)) == 1)
    net.worker.kill()
    net.service.answers[path] = 201
    net.worker.start()
    first, second = net.came(path, 2)
    assert app.read(first) == app.read(second)
    assert app.read(second)["notification_id"] == net.notified()[0]
