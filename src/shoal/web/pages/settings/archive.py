"""The member's own data, to take along."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from babel.numbers import format_decimal
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from shoal.commands.audit import note_alone
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import Unavailable
from shoal.core.model import Member
from shoal.ops.transfer.streamed_export import streamed
from shoal.queries.hydration import profiles_by_id
from shoal.web import rows
from shoal.web.pages.settings.frame import settings_page
from shoal.web.visit import Form, Visit

_AT_ONCE = 4
"""Archives that one process sends at a time."""
_MEGABYTE = 1_000_000
_RETRY_SECONDS = 60.0

_under_way: set[int] = set()
"""Members who are being sent their archive: one each."""


async def show(visit: Visit, _params: None) -> Response:
    """The contents of an archive, and its size."""
    member, words = visit.member, visit.words
    found = await profiles_by_id(visit.front.graph, member.id, (member.id,))
    posts = found[0].posts if found else 0
    megabytes = member.media_bytes / _MEGABYTE
    size = format_decimal(round(megabytes, 1 if megabytes < 100 else 0), locale=words.code)
    written = words.plural("%(n)s post", "%(n)s posts", posts) % {"n": words.number(posts)}
    return await settings_page(visit, "archive", posts=written, megabytes=size)


async def download(visit: Visit, asked: Form) -> Response:
    """Send all data of the member as a zip, which is made while it is sent."""
    member, _ = visit.checked(asked), visit.words.text
    if member.id in _under_way or len(_under_way) >= _AT_ONCE:
        raise Unavailable(
            _("An archive is being sent already. Please try again in a minute."), retry_after=_RETRY_SECONDS
        )
    # From now on, and not only when the first piece is asked for: there is time for another request in between.
    _under_way.add(member.id)
    try:
        await note_alone(visit.front.writes, AuditVerb.EXPORT_REQUESTED, member_target(member))
    except BaseException:
        _under_way.discard(member.id)
        raise
    name = f"{member.name}-{visit.now_ms // 1000}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "private, no-store"}
    return _Archive(visit, member, headers)


class _Archive(StreamingResponse):
    """An archive on its way. Its member is under way until it is sent or breaks off."""

    def __init__(self, visit: Visit, member: Member, headers: Mapping[str, str]) -> None:
        super().__init__(_pieces(visit, member), headers=headers, media_type="application/zip")
        self._member_id = member.id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            _under_way.discard(self._member_id)


async def _pieces(visit: Visit, member: Member) -> AsyncGenerator[bytes, None]:
    async with aclosing(streamed(visit.front.store, visit.front.reads, visit.front.media, member)) as pieces:
        async for piece in pieces:
            yield piece


ROUTES = (
    rows.page("/settings/archive", show),
    rows.form("/settings/archive", download, Form, limit_class="archives"),
)
