"""Events as clients of the streaming API get them: the name of an event and its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.api.context import Front
from shoal.api.http.calls import Caller
from shoal.api.http.scopes import granted
from shoal.api.live.notification_events import conversation_json, notification_json
from shoal.api.live.stream_names import NOTIFIED
from shoal.graph.cache.coherence import another_request
from shoal.queries import streaming
from shoal.streaming.hub import Connection, Missed, PlacedUpdate

REFRESH = "refresh"
"""Something may have been missed. No client knows it that was not written for Shoal; it is passed over like any unknown event."""


class StreamEvent(NamedTuple):
    """One event. `payload` is JSON in one line; None where there is nothing more to say."""

    name: str
    payload: bytes | None
    position: str


async def events(
    front: Front, caller: Caller, connection: Connection, heard: Sequence[PlacedUpdate | Missed], data: int
) -> list[StreamEvent]:
    """Turn messages into events as the viewer may see them, with up to `data` bytes of data. Raises `Unavailable`."""
    told = await streaming.told(front.reads, connection, heard)
    with another_request():
        made = [await _event(front, caller, connection.viewer, one, data) for one in told]
    return [event for event in made if event is not None]


async def _event(
    front: Front, caller: Caller, viewer: int, one: streaming.News | streaming.OfViewer, data: int
) -> StreamEvent | None:
    if isinstance(one, streaming.Arrived | streaming.Edited):
        name = "update" if isinstance(one, streaming.Arrived) else "status.update"
        return StreamEvent(name, await front.present.status(viewer, one.entry, data), one.position)
    if isinstance(one, streaming.Removed):
        return StreamEvent("delete", b"%d" % one.id, one.position)
    if isinstance(one, streaming.Notified):
        known = await notification_json(front, viewer, one.time, data) if granted(caller.scopes, NOTIFIED) else None
        return StreamEvent("notification", known, one.position) if known is not None else None
    if isinstance(one, streaming.Conversed):
        talk = await conversation_json(front, viewer, one.root_id, data)
        return StreamEvent("conversation", talk, one.position) if talk is not None else None
    return StreamEvent("filters_changed" if isinstance(one, streaming.Refiltered) else REFRESH, None, one.position)
