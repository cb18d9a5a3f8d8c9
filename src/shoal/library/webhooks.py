"""Webhooks, by which other programs receive the events of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, get_args

from shoal.app.network import Network
from shoal.app.paths import base_url
from shoal.core.errors import InvalidInput
from shoal.core.webhooks import USUAL_GRACE_SECONDS, Delivery, Webhook, WebhookFormat
from shoal.library.acting import id_of
from shoal.outgoing import networks_of
from shoal.queries.events import EventReader
from shoal.webhooks import endpoints
from shoal.webhooks.endpoints import NewSecret, WebhookView

AnyWebhook: TypeAlias = WebhookView | NewSecret | int
"""A webhook, given as itself, as the result of its creation, or by id."""


class Webhooks:
    """The webhooks of a network, which needs the setting `event_log`. A process that processes jobs delivers to them."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def create(
        self,
        url: str,
        types: Sequence[str] = (),
        *,
        filter_: Sequence[str] = (),
        private: bool = False,
        format_: WebhookFormat = "standard",
    ) -> NewSecret:
        """Send all events from now on to a URL, and return the secret that signs the requests. It cannot be read again.

        Args:
            url: An https URL.
            types: Types such as "post.created", or "post" for all types of posts; empty for all types.
            filter_: Conditions on the data of events, such as "author_id=123": for each field, one of its values must match.
            private: Also send what only members or moderators may see.
            format_: "mastodon" for the events of Mastodon's admin webhooks, such as "account.created".

        Raises `InvalidInput` for an invalid value and if the network keeps no event log, and `Unfit` for more than 50 webhooks.
        """
        if format_ not in get_args(WebhookFormat):
            allowed = ", ".join(get_args(WebhookFormat))
            raise InvalidInput(f"format: expected one of {allowed} (got {format_!r})", field="format")
        access, writes = endpoints.access_for(format_, private=private), self._network.writes
        return await endpoints.create(
            writes, self._events(), url, _joined(types), access, format_, filter_=_joined(filter_)
        )

    async def update(
        self,
        which: AnyWebhook,
        *,
        url: str | None = None,
        types: Sequence[str] | None = None,
        filter_: Sequence[str] | None = None,
    ) -> None:
        """Change the URL, the types or the filter of a webhook; None keeps a value. Its secrets stay.

        Events that are not delivered yet follow the new values. Raises `NotFound`, and `InvalidInput` for an invalid value.
        """
        await endpoints.update(
            self._network.writes,
            await self._found(which),
            url=url,
            types=None if types is None else _joined(types),
            filter_=None if filter_ is None else _joined(filter_),
        )

    async def all(self) -> list[WebhookView]:
        """Return all webhooks, newest first, without their secrets."""
        return await endpoints.views(self._network.writes.graph, self._events())

    async def get(self, which: AnyWebhook) -> WebhookView:
        """Return a webhook as it is now. Raises `NotFound`."""
        return await endpoints.view(self._network.writes.graph, self._events(), id_of(which))

    async def deliveries(self, which: AnyWebhook) -> list[Delivery]:
        """Return the newest 50 requests to a webhook, newest first. Raises `NotFound`."""
        return list(await endpoints.deliveries(self._network.writes.graph, await self._found(which)))

    async def pause(self, which: AnyWebhook) -> None:
        """Pause a webhook. Its events wait in the event log. Raises `NotFound`."""
        await endpoints.pause(self._network.writes, await self._found(which))

    async def resume(self, which: AnyWebhook) -> None:
        """Resume a webhook from the event at which it stopped; from now on, if that event was deleted. Raises `NotFound`."""
        await endpoints.resume(self._network.writes, self._events(), await self._found(which))

    async def test(self, which: AnyWebhook) -> Delivery:
        """Send an event of the type "webhook.test", even if the webhook is paused, and return the result.

        The result has the status 0 if there was no response. Raises `NotFound`.
        """
        settings = self._network.settings
        allowed = networks_of(settings.webhook_networks, "webhook_networks")
        return await endpoints.test(self._network.writes, allowed, base_url(settings), await self._found(which))

    async def replay(self, which: AnyWebhook) -> int:
        """Have the parked events delivered again, oldest first, until one fails. Return their number. Raises `NotFound`."""
        return await endpoints.replay(self._network.writes, await self._found(which))

    async def rotate(self, which: AnyWebhook, grace_seconds: int = USUAL_GRACE_SECONDS) -> NewSecret:
        """Create a new secret of a webhook. The current one also signs requests for `grace_seconds` (0 to 30 days).

        Raises `NotFound` and `InvalidInput`.
        """
        return await endpoints.rotate(self._network.writes, await self._found(which), grace_seconds)

    async def delete(self, which: AnyWebhook) -> None:
        """Delete a webhook with its parked events and delivery log. Raises `NotFound`."""
        await endpoints.delete(self._network.writes, await self._found(which))

    def _events(self) -> EventReader:
        return EventReader(self._network.store, base_url(self._network.settings))

    async def _found(self, which: AnyWebhook) -> Webhook:
        return await endpoints.find(self._network.writes.graph, id_of(which))


def _joined(parts: Sequence[str]) -> str:
    return parts if isinstance(parts, str) else ",".join(parts)
