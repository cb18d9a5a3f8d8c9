"""The event stream of an open page: the HTML of the parts that change."""

from __future__ import annotations

from contextlib import AsyncExitStack

from starlette.responses import Response

from shoal.core.errors import Unauthenticated
from shoal.core.model import Visibility
from shoal.http.event_streams import EventStream, Received
from shoal.http.routes import Body, Route
from shoal.mastodon_api.context import Context
from shoal.queries.streaming import Arrived, Conversed, Edited, News, Notified, OfViewer, Removed, updates_for_viewer
from shoal.streaming.subscriptions import HOME
from shoal.web.layout import nav_links, unread_of
from shoal.web.rendering import part_html
from shoal.web.request_context import PageContext, ctx_of, logged_in
from shoal.web.view_models import answered, post_of


async def live(context: Context, _params: None) -> Response:
    app_context, request = context.app, context.request
    if context.caller.member_id is None:
        raise Unauthenticated("log in first")
    stack = AsyncExitStack()
    after = request.headers.get("last-event-id") or None
    connection = await stack.enter_async_context(app_context.streams.listening(context.caller, HOME, after))

    async def lines(received: Received) -> bytes:
        now = await ctx_of(context)
        return b"".join(
            [await _event(now, update) for update in await updates_for_viewer(app_context.reads, connection, received)]
        )

    async def check() -> None:
        app_context.ip_guard.check(request.scope)
        if await logged_in(app_context, request) is None:
            raise Unauthenticated

    return EventStream(app_context.streams, connection, stack, lines, check)


async def _event(ctx: PageContext, update: News | OfViewer) -> bytes:
    """Return an event in the `text/event-stream` format; empty if no page shows it."""
    if isinstance(update, Arrived) and update.entry.post.visibility is Visibility.DIRECT:
        return b""
    match update:
        case Arrived() | Edited():
            post = post_of(ctx, update.entry, await answered(ctx, [update.entry]))
            name = "post" if isinstance(update, Arrived) else "changed"
            return _lines(name, part_html(ctx, "post", post=post), update.position)
        case Removed():
            return _lines("gone", str(update.id), update.position)
        case Notified() | Conversed():
            unread = await unread_of(ctx)
            html = part_html(ctx, "badges", nav_links=nav_links(ctx, unread), unread=unread)
            return _lines("navigation", html, update.position)
    return b""


def _lines(name: str, data: str, position: str) -> bytes:
    text = "".join(f"data: {line}\n" for line in data.splitlines())
    return f"event: {name}\n{text}id: {position}\n\n".encode()


ROUTES = (Route("GET", "/live", live, auth="browser", limit_class="pages", answer=Body("text/event-stream")),)
