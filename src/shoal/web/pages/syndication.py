"""Atom feeds of members and of tags, for feed readers: what everybody may see, and nothing else."""

from __future__ import annotations

from hashlib import sha256

from starlette.responses import Response

from shoal.core.media_files import still_of
from shoal.core.model import Member
from shoal.core.text import plain_excerpt
from shoal.graph.contract import Cursor
from shoal.queries import posts, public_timelines
from shoal.queries.pipeline import Page
from shoal.queries.posts import MemberFeedQuery
from shoal.web.views.syndication import CONTENT_TYPE, AtomChannel, atom
from shoal.web.visit import Visit

_ENTRIES = 20
_OURS, _COMMON = "atom", "rss"
"""The ending of our feeds; and the one that readers try, which leads to ours."""


def ending_of(name: str) -> tuple[str, str]:
    """Return a name of a path without the ending that asks for a feed, and that ending; empty where there is none."""
    stem, dot, ending = name.rpartition(".")
    return (stem, ending.lower()) if dot and ending.lower() in {_OURS, _COMMON} else (name, "")


async def of_member(visit: Visit, member: Member, ending: str) -> Response:
    """The public posts of a member, newest first, without comments and shares."""
    at, path = visit.front.at, f"/@{member.name}"
    if ending == _COMMON:
        return visit.go(f"{path}.{_OURS}")
    query = MemberFeedQuery(no_comments=True, no_shares=True, public_only=True)
    found = await posts.authored_page(visit.front.reads, None, member.id, Cursor(limit=_ENTRIES), query)
    page = at.account(member.name)
    shown = f"{member.shown_name} (@{member.name})"
    icon = at.avatar(still_of(member.avatar))
    return _feed(visit, AtomChannel(f"{page}.{_OURS}", page, shown, plain_excerpt(member.note, 300), icon), found)


async def of_tag(visit: Visit, tag: str, ending: str) -> Response:
    """The newest public posts under a tag."""
    if ending == _COMMON:
        return visit.go(f"/tags/{tag}.{_OURS}")
    query = public_timelines.TagQuery(frozenset((tag,)))
    found = await public_timelines.tag_page(visit.front.reads, None, query, Cursor(limit=_ENTRIES))
    page = visit.front.at.tag(tag)
    return _feed(visit, AtomChannel(f"{page}.{_OURS}", page, f"#{tag} · {visit.front.settings.title}"), found)


def _feed(visit: Visit, channel: AtomChannel, found: Page) -> Response:
    body = atom(visit, channel, found.entries)
    version = f'"{sha256(body).hexdigest()[:20]}"'
    headers = {"ETag": version, "Cache-Control": visit.kept_by_anybody(300), "Vary": "Accept-Language"}
    if version in visit.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=CONTENT_TYPE)
