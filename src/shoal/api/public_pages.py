"""Plain pages for people who follow a link to a member or a post: readable without a script, and public things only."""

from __future__ import annotations

from html import escape

from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from shoal.api.errors import MethodNotAllowed, reply_for
from shoal.api.front import Front
from shoal.api.present import moment
from shoal.core.errors import Gone, NotFound, ShoalError
from shoal.core.ids import MAX_ID
from shoal.core.text import plain_excerpt
from shoal.feeds import user
from shoal.feeds.hydrate import Entry, hydrate
from shoal.feeds.pull import Cursor
from shoal.services import members

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src *; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


class PublicPages:
    """The application of `/`, `/@name` and `/@name/ID`."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        try:
            response = await self._page(scope["method"], scope["path"])
        except Exception as error:  # noqa: BLE001 (whatever it is, the table of errors answers it)
            reply = reply_for(error, where=f"{scope['method']} {scope['path']}")
            words = str(error) if isinstance(error, ShoalError) and reply.status != 500 else "Something went wrong"
            response = _page(words or "Not found", f"<h1>{escape(words or 'Not found')}</h1>", reply.status)
        await response(scope, receive, send)

    async def _page(self, method: str, path: str) -> Response:
        if method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(("GET",))
        if path == "/":
            settings = self._front.settings
            return _page(settings.title, f"<h1>{escape(settings.title)}</h1><p>{escape(settings.description)}</p>")
        name, _, id_ = path.removeprefix("/@").rstrip("/").partition("/")
        if not path.startswith("/@"):
            raise NotFound("There is no such page")
        return await (self._post(name, id_) if id_ else self._member(name))

    async def _member(self, name: str) -> Response:
        front = self._front
        member = await members.find(front.writes, name) if "@" not in name else None
        if member is None:
            raise NotFound("There is no such member")
        if member.suspended:
            raise Gone("This member is suspended")
        page = await user.page(front.reads, None, member.id, Cursor())
        shown = escape(member.display_name or member.name)
        head = f"<h1>{shown}</h1><p>@{escape(member.name)}</p>{front.at.html(member.note)}"
        return _page(shown, head + "".join(map(self._article, page.entries)))

    async def _post(self, name: str, id_: str) -> Response:
        front = self._front
        number = int(id_) if id_.isascii() and id_.isdigit() and len(id_) < 20 else MAX_ID
        found = await hydrate(front.graph, None, (min(number, MAX_ID),), unasked=False)
        if not found or name.lower() not in _names(found[0]):
            raise NotFound("There is no such post")
        title = plain_excerpt(found[0].post.text, 60) or f"A post by {name}"
        return _page(escape(title), self._article(found[0]))

    def _article(self, entry: Entry) -> str:
        at, post, author = self._front.at, entry.post, entry.author.member
        pictures = "".join(
            f'<p><img src="{escape(at.media(item.preview_key))}" alt="{escape(item.description)}"'
            f' width="{item.preview_width}" height="{item.preview_height}"></p>'
            for item in entry.media
        )
        body = at.html(post.text, post.mentions) + pictures
        if post.spoiler:
            body = f"<details><summary>{escape(post.spoiler)}</summary>{body}</details>"
        return (
            f'<article><p><a href="{escape(at.account(author.name))}">{escape(author.display_name or author.name)}</a> '
            f'<a href="{escape(at.status(author.name, post.id))}"><time>{moment(post.written)}</time></a></p>'
            f"{body}</article>"
        )


def _names(entry: Entry) -> set[str]:
    """Whose name may stand before the id: the author's, or the sharer's."""
    return {entry.sharer.member.name if entry.sharer else entry.author.member.name}


def _page(title: str, body: str, status: int = 200) -> Response:
    """`title` and `body` are HTML."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><meta name="referrer" content="same-origin">'
        f"</head><body>{body}</body></html>",
        status,
        _HEADERS,
    )
