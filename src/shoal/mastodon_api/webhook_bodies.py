"""The bodies of Mastodon's admin webhooks, made from events."""

from __future__ import annotations

from functools import partial

from shoal.core.model import Member, Report
from shoal.graph.contract import Reader, find_object
from shoal.http.pagination import LISTED_DATA
from shoal.http.responses import encode, raw
from shoal.mastodon_api.admin.accounts import admin_accounts
from shoal.mastodon_api.admin.reports import admin_reports
from shoal.mastodon_api.entities.presenter import Presenter
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.queries.event_data import AuditData, MemberData, PostData, ReportData
from shoal.queries.events import Event
from shoal.queries.hydration import hydrate_reported
from shoal.settings import Settings

_CACHE = 1_000


class MastodonBodies:
    """Renders events like Mastodon's admin webhooks, with objects as moderators see them in the API."""

    def __init__(self, graph: Reader, settings: Settings, root: str, domain: str) -> None:
        self._graph = graph
        self._settings = settings
        self._at = Addresses(root, domain)
        self._present = Presenter(graph, self._at, _CACHE)

    async def render(self, name: str, event: Event) -> bytes | None:
        """Return the body of an event with this name, such as `status.created`; None if its object is gone."""
        made = await self._object(event)
        return None if made is None else encode({"event": name, "created_at": event.time, "object": made})

    async def _object(self, event: Event) -> object | None:
        graph, accounts_of = self._graph, partial(admin_accounts, self._graph, self._at, sees_address=lambda _: True)
        match event.data:
            case MemberData(id=id_) | AuditData(target_id=str(id_)):
                member = await find_object(graph, Member, int(id_))
                return (await accounts_of([member]))[0] if member else None
            case ReportData(id=id_):
                report = await find_object(graph, Report, int(id_))
                if report is None:
                    return None
                return (await admin_reports(graph, self._present, self._settings, [report], accounts_of))[0]
            case PostData(id=id_):
                entries = await hydrate_reported(graph, [int(id_)])
                return raw(await self._present.status(None, entries[0], LISTED_DATA)) if entries else None
        return None
