"""Live updates. The WebSocket is no row of the table: `api/live/streaming_socket.py`."""

from __future__ import annotations

from shoal.api.http.calls import Body, Route
from shoal.api.live import streaming
from shoal.api.rows import public, route
from shoal.settings import Settings

_STREAMS = (
    ("user", "read:statuses", "The home and the notifications of the caller, as they happen."),
    ("user:notification", "read:notifications", "The notifications of the caller, as they happen."),
    ("public", "read:statuses", "New public statuses that answer nobody else's."),
    ("public:local", "read:statuses", "The same: everybody is local here."),
    ("public:remote", "read:statuses", "Nothing: nobody is remote."),
    ("hashtag", "read:statuses", "New public statuses under a tag."),
    ("hashtag:local", "read:statuses", "The same: everybody is local here."),
    ("list", "read:statuses", "What the members of a list post, as it happens."),
    ("direct", "read:statuses", "Conversations that something comes to."),
)


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        public("GET", "/api/v1/streaming/health", streaming.health, answer=Body("text/plain")),
        *(
            route(
                "GET",
                f"/api/v1/streaming/{name.replace(':', '/')}",
                streaming.stream(name),
                scope=scope,
                params=streaming.StreamQuery,
                answer=Body("text/event-stream"),
                what=what,
            )
            for name, scope, what in _STREAMS
        ),
    )
