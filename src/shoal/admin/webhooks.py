"""Operations on webhooks: create, list, update, pause, resume, test, replay, rotate and delete."""

from __future__ import annotations

from typing import Literal

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.core.webhooks import USUAL_GRACE_SECONDS, Delivery, WebhookFormat
from shoal.outgoing import networks_of
from shoal.queries.events import EventReader
from shoal.webhooks import endpoints
from shoal.webhooks.endpoints import NewSecret, WebhookView, access_for


class AddWebhook(Operation[NewSecret]):
    url: str
    types: str = ""
    private: bool = False
    format: WebhookFormat = "standard"
    filter: str = ""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> NewSecret:
        access, events = access_for(self.format, private=self.private), EventReader(network.store, "")
        return await endpoints.create(
            network.writes, events, self.url, self.types, access, self.format, filter_=self.filter
        )


class ListWebhooks(Operation[list[WebhookView]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[WebhookView]:
        return await endpoints.views(network.writes.graph, EventReader(network.store, ""))


class UpdateWebhook(Operation[None]):
    """Change the URL, the types or the filter of an endpoint. None keeps a value."""

    id: int
    url: str | None = None
    types: str | None = None
    filter: str | None = None

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        webhook = await endpoints.find(network.writes.graph, self.id)
        await endpoints.update(network.writes, webhook, url=self.url, types=self.types, filter_=self.filter)


class ChangeWebhook(Operation[None]):
    """Pause, resume or delete an endpoint."""

    do: Literal["pause", "resume", "delete"]
    id: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        writes = network.writes
        webhook = await endpoints.find(writes.graph, self.id)
        if self.do == "pause":
            await endpoints.pause(writes, webhook)
        elif self.do == "resume":
            await endpoints.resume(writes, EventReader(network.store, ""), webhook)
        else:
            await endpoints.delete(writes, webhook)


class TestWebhook(Operation[Delivery]):
    """Send a test event. `source` is the root URL of the network, and `networks` the setting `webhook_networks`."""

    __test__ = False
    id: int
    source: str
    networks: list[str]

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> Delivery:
        webhook = await endpoints.find(network.writes.graph, self.id)
        allowed = networks_of(self.networks, "webhook_networks")
        return await endpoints.test(network.writes, allowed, self.source, webhook)


class ReplayWebhook(Operation[int]):
    id: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> int:
        return await endpoints.replay(network.writes, await endpoints.find(network.writes.graph, self.id))


class RotateWebhook(Operation[NewSecret]):
    """Create a new secret of an endpoint. For `grace` seconds, requests are signed with the current one too."""

    id: int
    grace: int = USUAL_GRACE_SECONDS

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> NewSecret:
        webhook = await endpoints.find(network.writes.graph, self.id)
        return await endpoints.rotate(network.writes, webhook, self.grace)


class ListDeliveries(Operation[list[Delivery]]):
    id: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[Delivery]:
        graph = network.writes.graph
        return list(await endpoints.deliveries(graph, await endpoints.find(graph, self.id)))
