"""Names that clients give the streams, and the stream that each of them means."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta

from shoal.api.context import Front
from shoal.api.http.calls import Caller
from shoal.api.http.convert import Id
from shoal.api.http.errors import Malformed, NeedsMember, OutsideScopes
from shoal.api.http.pages import WithData
from shoal.api.http.scopes import granted
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import MemberList
from shoal.core.text import check_tag
from shoal.graph.schema import tag_id
from shoal.queries.foryou.feed import FOR_YOU_LIST
from shoal.streaming.subscriptions import (
    CONVERSATIONS,
    HOME,
    NOTIFICATIONS,
    PRESENCE,
    Everybody,
    Interest,
    Listed,
    TagInterest,
)

NOTIFIED = "read:notifications"
_ENTRIES = "read:statuses"
_SCOPES = {"user:notification": NOTIFIED}
_PLAIN: dict[str, Interest] = {
    "user": HOME,
    "user:notification": NOTIFICATIONS,
    "direct": CONVERSATIONS,
    "public": Everybody(),
    "public:local": Everybody(),
    "public:media": Everybody(only_media=True),
    "public:local:media": Everybody(only_media=True),
    # Everybody is local here.
    "public:remote": PRESENCE,
    "public:remote:media": PRESENCE,
}


class StreamName(WithData, frozen=True):
    """A stream as a client asks for it."""

    stream: Annotated[str, Meta(max_length=100)] = ""
    list: Id | None = None
    tag: Annotated[str, Meta(max_length=400)] = ""
    last_event_id: Annotated[str, Meta(max_length=100)] | None = None
    """After which event to go on; a client that gives one, and be it empty, is told the id of each event."""


class Stream(NamedTuple):
    """A stream that is there."""

    label: tuple[str, ...]
    """The name and parameters of the stream, as messages to the client carry them."""
    interest: Interest


async def stream_of(front: Front, caller: Caller, asked: StreamName) -> Stream:
    """The stream that is meant. Raises `NotFound`, `Malformed`, or `OutsideScopes` when the token is not good for it."""
    if caller.member_id is None:
        raise NeedsMember
    if not granted(caller.scopes, _SCOPES.get(asked.stream, _ENTRIES)):
        raise OutsideScopes
    if (plain := _PLAIN.get(asked.stream)) is not None:
        return Stream((asked.stream,), plain)
    if asked.stream in {"hashtag", "hashtag:local"}:
        return Stream((asked.stream, asked.tag), TagInterest(tag_id(_tag(asked.tag))))
    if asked.stream == "list":
        if asked.list is None:
            raise Malformed("Missing list name parameter")
        return Stream(
            (asked.stream, str(int(asked.list))), Listed(await _own_list(front, caller.member_id, asked.list))
        )
    raise Malformed("Unknown stream type")


def _tag(text: str) -> str:
    if not text:
        raise Malformed("Missing tag name parameter")
    try:
        return check_tag(text)
    except InvalidInput:
        raise NotFound("Record not found") from None


async def _own_list(front: Front, member_id: int, list_id: int) -> int:
    if list_id == FOR_YOU_LIST and front.settings.for_you_list:
        # Nothing is ever said on it: what is best is not what is newest.
        return list_id
    found = (await front.graph.obj_get((list_id,))).get(list_id)
    if not isinstance(found, MemberList) or found.owner_id != member_id:
        raise NotFound("Record not found")
    return found.id
