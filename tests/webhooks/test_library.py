"""Webhooks in the library, with and without `await`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal.sync
from shoal import Shoal
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.webhooks import Pause
from shoal.webhooks import endpoints
from shoal.webhooks.worker import WebhookWorker
from tests.async_runner import in_loop
from tests.push.service import PushService
from tests.webhooks.scene import LOCAL, body, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with running_service(tmp_path_factory.mktemp("receiver")) as running:
        yield running


@in_loop
async def test_library_webhooks_receive_events_and_are_managed(
    service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The worker would deliver an event by itself within a second, before the test has seen that it waits.
    monkeypatch.setattr(WebhookWorker, "start", lambda _: None)
    monkeypatch.setattr(endpoints, "REQUEST_SECONDS", 60.0)
    async with Shoal.open("memory://", event_log="on", webhook_networks=(LOCAL,)) as network:
        webhooks, ann = network.webhooks, await network.register("ann")
        made = await webhooks.create(f"{service.url}/hook", ["post.created", "member"], private=True)
        await ann.create("Low tide")
        worker = network.network.webhooks
        assert worker is not None
        await worker.settle()
        assert [body(request)["data"]["text"] for request in service.at("/hook")] == ["Low tide"]
        await webhooks.update(made, types=["post.created"], filter_=[f"author_id={ann.id}", "tags="])
        (view,) = await webhooks.all()
        assert (view.types, view.filter, view.lag) == ("post.created", f"author_id={ann.id},tags=", (0, 0.0))
        await webhooks.update(made, url=f"{service.url}/new", types="post.created,member", filter_=())
        await ann.create("High tide")
        (view,) = await webhooks.all()
        assert (view.url, view.lag and view.lag.events) == (f"{service.url}/new", 1)
        await worker.settle()
        assert [body(request)["data"]["text"] for request in service.at("/new")] == ["High tide"]
        assert (view.id, view.types, view.private, view.format) == (made.id, "post.created,member", True, "standard")
        assert [one.type for one in await webhooks.deliveries(view)] == ["post.created"] * 2
        await webhooks.pause(view)
        assert (await webhooks.test(made)).status == 201
        assert (await webhooks.get(made.id)).paused is Pause.MANUAL
        await webhooks.resume(view)
        assert await webhooks.replay(view) == 0
        assert (await webhooks.rotate(made, 60)).secret != made.secret
        with pytest.raises(InvalidInput, match="expected one of standard, mastodon"):
            await webhooks.create(f"{service.url}/hook", format_="xml")  # type: ignore[arg-type]
        await webhooks.delete(made)
        with pytest.raises(NotFound):
            await webhooks.get(made)


def test_library_webhooks_work_without_await(service: PushService, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/shoal.db"
    with shoal.sync.Shoal.open(store, shared=True, event_log="on", webhook_networks=(LOCAL,)) as network:
        made = network.webhooks.create(f"{service.url}/sync", "post")
        assert [view.url for view in network.webhooks.all()] == [f"{service.url}/sync"]
        assert network.webhooks.test(made).type == "webhook.test"
        network.webhooks.delete(made)
        assert network.webhooks.all() == []
