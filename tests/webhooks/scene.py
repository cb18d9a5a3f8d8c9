"""A network whose webhooks lead to a real server with TLS, and a worker with a clock of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from shoal.admin.consistency.check import check
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.ids import now_ms
from shoal.core.model import Visibility
from shoal.core.webhooks import Delivery, Webhook
from shoal.mastodon_api.webhook_bodies import MastodonBodies
from shoal.queries.events import EventReader
from shoal.webhooks import endpoints, worker
from shoal.webhooks.worker import WebhookWorker
from tests.api.in_memory_network import BASE, NetworkFixture, Someone, network_fixture
from tests.push.service import PushService, Request, push_service

LOCAL = "127.0.0.0/8"


class Statuses(dict[str, int]):
    """Response statuses by path. Those in `first` are used once each, before the lasting ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, list[int]] = {}

    def get(self, path: str, default: Any = None) -> Any:
        """Return the next status of a path."""
        return self.first[path].pop(0) if self.first.get(path) else super().get(path, default)


class Scene:
    """The network, the receiving server, and the worker."""

    def __init__(self, here: NetworkFixture, service: PushService) -> None:
        self.here = here
        self.service = service
        self.statuses = Statuses()
        service.answers = self.statuses
        service.came.clear()
        self.now = now_ms()
        """The clock of the system, in Unix milliseconds."""
        self.elapsed = 0.0
        """The monotonic clock, in seconds."""
        self.ann: Someone = here.join("ann")
        self.worker = self.another_worker()

    def another_worker(self) -> WebhookWorker:
        """Return a worker, as another process would have."""
        effects, store = self.here.network.effects, self.here.network.store
        bodies = MastodonBodies(effects.graph, self.here.network.settings, BASE, "shoal.test")

        async def make() -> WebhookWorker:
            events = EventReader(store, BASE)
            return WebhookWorker(
                effects.graph,
                effects.new_id,
                events,
                bodies.render,
                [ip_network(LOCAL)],
                clock=lambda: self.now,
                monotonic=lambda: self.elapsed,
            )

        return self.here.run(make())

    def add(self, path: str, types: str = "post", *, private: bool = False, **more: Any) -> int:
        """Create a webhook for a path of the server, and return its id."""
        events, url = EventReader(self.here.network.store, BASE), self.service.url + path
        access = endpoints.access_for(more.get("format_", "standard"), private=private)
        return self.here.run(endpoints.create(self.here.writes, events, url, types, access, **more)).id

    def post(self, text: str, visibility: Visibility = Visibility.PUBLIC) -> int:
        """Have Ann post."""
        return self.here.run(
            posts.create(self.here.writes, self.ann.member.id, Draft(text=text, visibility=visibility))
        ).id

    def deliver(self, seconds: float = 0.0) -> None:
        """Advance the clocks, and deliver the events that are due."""
        self.now += round(1_000 * seconds)
        self.elapsed += seconds
        self.here.run(self.worker.settle())

    def fail(self, id_: int) -> float:
        """Advance the clocks to each retry until the failing event is parked or the webhook is paused; return the seconds."""
        began, parked = self.elapsed, self.parked(id_)
        while self.parked(id_) == parked and not self.hook(id_).paused:
            self.deliver(max(1, self.hook(id_).retry_at - self.now) / 1_000)
            assert self.elapsed < began + 30 * 86_400, "no event is parked"
        return self.elapsed - began

    def texts(self, path: str) -> list[str]:
        """Return the texts of the posts that a path received."""
        return [body(request)["data"]["text"] for request in self.service.at(path)]

    def hook(self, id_: int) -> Webhook:
        """Return a stored webhook."""
        return self.here.run(endpoints.find(self.here.network.effects.graph, id_))

    def log(self, id_: int) -> list[Delivery]:
        """Return the delivery log of a webhook, newest first."""
        return list(self.here.run(endpoints.deliveries(self.here.network.effects.graph, self.hook(id_))))

    def parked(self, id_: int) -> int:
        """Count the parked events of a webhook."""
        return self.here.run(endpoints.view(self.here.network.effects.graph, None, id_)).parked

    def findings(self) -> list[str]:
        """Return what the consistency check finds."""
        self.here.settle()
        report = self.here.run(check(self.here.network))
        return [
            example for invariant in report.invariants if invariant.found for example in map(str, invariant.examples)
        ]


def body(request: Request) -> Any:
    """Return the content of a request."""
    return json.loads(request.body)


@contextmanager
def running_service(folder: Path) -> Iterator[PushService]:
    """Run the receiving server, whose certificate is trusted."""
    with push_service(folder) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(running.trusted))
        yield running


@contextmanager
def opened(service: PushService, **settings: Any) -> Iterator[Scene]:
    """Open a network without the worker of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WebhookWorker, "start", lambda _: None)
        # A busy machine may need longer for a request, and for the end of a lease.
        patch.setattr(endpoints, "REQUEST_SECONDS", 60.0)
        patch.setattr(worker, "_RELEASE_SECONDS", 60.0)
        with network_fixture(event_log="on", webhook_networks=[LOCAL], base_url=BASE, **settings) as here:
            scene = Scene(here, service)
            try:
                yield scene
            finally:
                here.run(scene.worker.stop())
