"""Plain pages for people who follow a link to a member or a post: readable without a script, and public things only."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal.api.context import Front
from shoal.api.entities.presenter import moment
from shoal.api.http.errors import MethodNotAllowed, reply_for
from shoal.api.http.html import sheet
from shoal.api.public import recipe_page
from shoal.api.public.style import STYLE
from shoal.core.errors import Gone, InvalidInput, NotFound, ShoalError, Unavailable
from shoal.core.ids import MAX_ID
from shoal.core.model import Member
from shoal.core.text import check_tag, plain_excerpt
from shoal.core.visibility import is_sensitive
from shoal.feeds import tagged, thread, user
from shoal.feeds.discover import related
from shoal.feeds.hydrate import Entry, hydrate, profiles_by_id
from shoal.graph.contract import Cursor
from shoal.services import members

_ABOVE, _BELOW = 10, 40
"""How much of a thread a post's page shows."""

_ALIKE = 8
"""Related tags on the page of a tag."""

_POLICY = "default-src 'none'; img-src *; style-src 'self'; base-uri 'none'; form-action 'none'"


class PublicPages:
    """The application of `/`, `/@name`, `/@name/ID`, `/tags/name`, `/recipe` and their style sheet."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        try:
            response = await self._page(scope["method"], scope["path"], scope["query_string"])
        except Exception as error:  # noqa: BLE001 (whatever it is, the table of errors answers it)
            reply = reply_for(error, where=f"{scope['method']} {scope['path']}")
            words = str(error) if isinstance(error, ShoalError) and reply.status != 500 else "Something went wrong"
            response = self._sheet(words or "Not found", f"<h1>{escape(words or 'Not found')}</h1>", reply.status)
        await response(scope, receive, send)

    async def _page(self, method: str, path: str, query: bytes) -> Response:
        if method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(("GET",))
        if path == "/style.css":
            return Response(STYLE, media_type="text/css", headers={"Cache-Control": "public, max-age=3600"})
        if path == "/":
            return self._root()
        if path == "/recipe":
            return self._sheet("A recipe for a feed", recipe_page.body(query.decode("latin-1"), self._front.at))
        if path.startswith("/tags/"):
            return await self._tag(path.removeprefix("/tags/"))
        name, _, id_ = path.removeprefix("/@").rstrip("/").partition("/")
        if not path.startswith("/@"):
            raise NotFound("There is no such page")
        return await (self._post(name, id_) if id_ else self._member(name))

    def _root(self) -> Response:
        settings = self._front.settings
        lines = (
            f"<h1>{escape(settings.title)}</h1><p>{escape(settings.description)}</p>"
            "<p>Log in with any app that speaks to Mastodon servers; the server is "
            f"<code>{escape(self._front.at.root)}</code>.</p>"
        )
        return self._sheet(settings.title, f'<header class="plain">{lines}</header>')

    async def _tag(self, name: str) -> Response:
        try:
            tag = check_tag(name)
        except InvalidInput:
            raise NotFound("There is no such tag") from None
        page = await tagged.page(self._front.reads, None, tagged.TagQuery(frozenset((tag,))), Cursor())
        head = f"<h1>#{escape(tag)}</h1>{await self._alike(tag)}"
        return self._sheet(f"#{tag}", f'<header class="plain">{head}</header>' + self._feed(page.entries))

    async def _alike(self, tag: str) -> str:
        try:
            found = await related.related(self._front.reads, tag, _ALIKE)
        except Unavailable:
            # The tag cloud is away; the posts are here.
            return ""
        links = " ".join(f'<a href="{escape(self._front.at.tag(one.name))}">#{escape(one.form)}</a>' for one in found)
        return f'<p class="alike">Related: {links}</p>' if links else ""

    async def _member(self, name: str) -> Response:
        front = self._front
        member = await members.find(front.writes, name) if "@" not in name else None
        if member is None or member.pending:
            raise NotFound("There is no such member")
        if member.suspended:
            raise Gone("This member is suspended")
        profile = (await profiles_by_id(front.graph, None, (member.id,)))[0]
        page = await user.page(front.reads, None, member.id, Cursor(), user.MemberFeedQuery(no_comments=True))
        shown = member.display_name or member.name
        head = (
            f'<header><img class="banner" src="{escape(front.at.header(member.header))}" alt="">'
            f'<img class="face" src="{escape(front.at.avatar(member.avatar))}" alt="">'
            f"<h1>{escape(shown)}</h1><p class=handle>@{escape(member.name)}</p>{front.at.html(member.note)}"
            f"<p class=numbers>{_number(profile.posts, 'post')} <b>{profile.following}</b> following"
            f" {_number(profile.followers, 'follower')}</p></header>"
        )
        return self._sheet(shown, head + self._feed(page.entries))

    def _feed(self, entries: list[Entry]) -> str:
        return "".join(map(self._article, entries)) or "<p class=empty>Nothing here yet.</p>"

    async def _post(self, name: str, id_: str) -> Response:
        front = self._front
        number = int(id_) if id_.isascii() and id_.isdigit() and len(id_) < 20 else MAX_ID
        found = await hydrate(front.graph, None, (min(number, MAX_ID),), unasked=False)
        if not found or name.lower() not in _names(found[0]):
            raise NotFound("There is no such post")
        title = plain_excerpt(found[0].post.text, 60) or f"A post by {name}"
        around = await thread.thread(front.reads, None, found[0].post.id, above=_ABOVE, below=_BELOW)
        return self._sheet(title, self._feed([*around.above, found[0], *around.below]))

    def _article(self, entry: Entry) -> str:
        at, post, author = self._front.at, entry.post, entry.author.member
        images = "".join(
            f'<img src="{escape(at.media(item.preview_key))}" alt="{escape(item.description)}"'
            f' width="{item.preview_width}" height="{item.preview_height}">'
            for item in entry.media
            if item.preview_key
        )
        pictures = f"<div class=pictures>{images}</div>" if images else ""
        if pictures and is_sensitive(post, author) and not post.spoiler:
            pictures = _behind("Sensitive media", pictures)
        body = at.html(post.text, post.mentions) + pictures
        if post.spoiler:
            body = _behind(post.spoiler, body)
        sharer = f"<p class=sharer>{_shown(entry.sharer.member)} shared</p>" if entry.sharer else ""
        answer = "<p class=answer>in answer to another post</p>" if post.parent_id else ""
        return (
            f'<article>{sharer}<img class="face" src="{escape(at.avatar(author.avatar))}" alt="">'
            f'<p class=who><a href="{escape(at.account(author.name))}">{_shown(author)}</a>'
            f" <span class=handle>@{escape(author.name)}</span>"
            f' <a class=when href="{escape(at.status(author.name, post.id))}">{_when(post.created_at)}</a></p>{answer}{body}'
            f"<p class=numbers>{_number(entry.comments, 'comment')} {_number(entry.shares, 'share')}"
            f" {_number(entry.likes, 'like')}</p>"
            "</article>"
        )

    def _sheet(self, title: str, body: str, status: int = 200) -> Response:
        """`title` is text, `body` is HTML."""
        return sheet(title, body, base=self._front.at.path, policy=_POLICY, status=status)


def _behind(words: str, html: str) -> str:
    """Something that is seen by those who open it."""
    return f"<details><summary>{escape(words)}</summary>{html}</details>"


def _shown(member: Member) -> str:
    return escape(member.display_name or member.name)


def _number(count: int, noun: str) -> str:
    return f"<b>{count}</b> {noun}{'' if count == 1 else 's'}"


def _when(written: int) -> str:
    """A date and a time that people read, with the exact moment for programs."""
    moment_of_post = datetime.fromtimestamp(written / 1000, UTC)
    return f'<time datetime="{moment(written)}">{moment_of_post:%-d %B %Y, %H:%M}</time>'


def _names(entry: Entry) -> set[str]:
    """Whose name may stand before the id: the author's, or the sharer's."""
    return {entry.sharer.member.name if entry.sharer else entry.author.member.name}
