"""The tabs of home: the three feeds, then the member's lists, then the tags that they follow."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from shoal.core.errors import Unavailable
from shoal.graph.cache.dependencies import not_noted
from shoal.graph.contract import Cursor
from shoal.queries import lists, tags
from shoal.web.views.posts import tag_path
from shoal.web.visit import Visit

_MOST_LISTS = 5
_MOST_TAGS = 5


class Tab(NamedTuple):
    """A tab: its name for the page that is open, its address, its words."""

    key: str
    path: str
    words: str


async def home_tabs(visit: Visit, own: str = "") -> list[Tab]:
    """Return the tabs of home: at most five lists and five tags, those that the member made and followed first.

    `own` is the key of the tab that is open: it is among them whether it has a place or not. Three reads.
    """
    _, member = visit.words.text, visit.member
    fixed = [
        Tab("latest", visit.url("/"), _("Latest")),
        Tab("for-you", visit.url("/for-you"), _("For you")),
        Tab("catch-up", visit.url("/catch-up"), _("Catch up")),
    ]
    try:
        owned, followed = await asyncio.gather(
            lists.owned(visit.front.graph, member.id),
            tags.followed(visit.front.reads, member.id, Cursor(limit=_MOST_TAGS)),
        )
    except Unavailable:
        not_noted()
        return fixed
    all_lists = [Tab(f"list-{one.id}", visit.url(f"/lists/{one.id}"), one.title) for one in owned]
    shown = [tab for at, tab in enumerate(all_lists) if at < _MOST_LISTS or tab.key == own]
    names = [assoc.data.decode() for assoc in followed.tags]
    return [*fixed, *shown, *(Tab(f"tag-{name}", tag_path(visit, name), f"#{name}") for name in names)]
