"""Posts embedded in other sites: the embed code, the page in the frame, and the oEmbed endpoint.

oEmbed: https://oembed.com
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html import escape
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from starlette.responses import JSONResponse, Response

from shoal.core.errors import InvalidInput, NotFound, Unauthenticated
from shoal.core.ids import MAX_ID
from shoal.core.model import OPEN
from shoal.core.text import isolated, plain_excerpt
from shoal.http.routes import Route
from shoal.mastodon_api.context import AppContext, Context
from shoal.queries.hydration import Entry, hydrate
from shoal.web import routing
from shoal.web.photo_rows import MANY, cropped, rows_height
from shoal.web.posts import PostPath
from shoal.web.rendering import bare, page
from shoal.web.request_context import IdPath, Line, PageContext
from shoal.web.view_models import entry_with_id, post_of

_WIDTH, _LEAST, _MOST = 520, 220, 1_000
"""Width of a frame in pixels: default, minimum and maximum."""
_HEAD, _FOOT, _LINE = 76, 64, 24
_LINES = 12
_GAP = 3
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors *"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer-when-downgrade",
    "Vary": "Accept-Language",
}
_OURS = re.compile(r"/(?:embed/)?@(\w{1,100})/(\d{1,19})/?")


class OEmbedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The URL of a post, and the maximum size of the embedded post in pixels."""

    url: Line
    maxwidth: Annotated[int, Meta(ge=0, le=100_000)] = 0
    maxheight: Annotated[int, Meta(ge=0, le=100_000)] = 0
    format: Literal["json", "xml"] = "json"


class OEmbed(msgspec.Struct, frozen=True, kw_only=True):
    version: str = "1.0"
    type: str = "rich"
    title: str
    author_name: str
    author_url: str
    provider_name: str
    provider_url: str
    cache_age: int = 300
    html: str
    width: int
    height: int
    thumbnail_url: str | None = None
    thumbnail_width: int | None = None
    thumbnail_height: int | None = None


async def code(ctx: PageContext, path: IdPath) -> Response:
    entry = await entry_with_id(ctx, path.id)
    made = _frame_code(ctx.app, entry, _WIDTH, _height(entry, _WIDTH)) if entry.post.visibility in OPEN else ""
    return await page(ctx, "embed", title=ctx.words.text("Embed"), post=post_of(ctx, entry), code=made)


async def framed(ctx: PageContext, path: PostPath) -> Response:
    """Render a post for a frame on another site. The page shows the post to an anonymous viewer and has no scripts."""
    stranger = replace(ctx, viewer=None, session_id=0)
    entry = await _public(ctx.app, path.handle, path.id)
    network = isolated(ctx.settings.title)
    headers = {**_HEADERS, "Cache-Control": ctx.publicly_cacheable(300)}
    return bare(stranger, "embedded", headers, post=post_of(stranger, entry), network=network)


async def oembed(context: Context, asked: OEmbedQuery) -> object:
    if asked.format == "xml":
        return JSONResponse({"error": "format: json, not xml"}, 501)
    if not context.app.settings.public_pages:
        raise Unauthenticated("posts of this network are visible only to its members")
    entry = await _at_address(context.app, asked.url)
    width = min(asked.maxwidth or _WIDTH, _MOST)
    if width < _LEAST:
        raise InvalidInput(f"maxwidth: must be at least {_LEAST}", field="maxwidth")
    height = min(_height(entry, width), asked.maxheight or _MOST * 2)
    author = entry.author.member
    found = next((file for file in entry.media if file.preview_key), None)
    thumb = None if found is None or entry.post.sensitive or entry.post.spoiler else found
    payload = OEmbed(
        title=entry.post.spoiler or plain_excerpt(entry.post.shown_text, 200) or author.name,
        author_name=author.display_name or author.name,
        author_url=context.app.at.account(author.name),
        provider_name=context.app.settings.title,
        provider_url=context.app.at.root,
        html=_frame_code(context.app, entry, width, height),
        width=width,
        height=height,
        thumbnail_url=context.app.at.media(thumb.preview_key) if thumb else None,
        thumbnail_width=thumb.preview_width if thumb else None,
        thumbnail_height=thumb.preview_height if thumb else None,
    )
    shown = {name: value for name, value in msgspec.structs.asdict(payload).items() if value is not None}
    return JSONResponse(shown, headers={"Cache-Control": "public, max-age=300"})


async def _at_address(app_context: AppContext, address: str) -> Entry:
    """Return the post with this URL on this server. Raises `NotFound` for any other URL."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise NotFound("There is no such post here") from None
    match = (
        _OURS.fullmatch(parts.path.removeprefix(app_context.at.path))
        if parts.path.startswith(app_context.at.path)
        else None
    )
    if match is None or parts.scheme not in {"http", "https"} or parts.netloc.lower() != app_context.at.netloc.lower():
        raise NotFound("There is no such post here")
    return await _public(app_context, match[1], min(int(match[2]), MAX_ID))


async def _public(app_context: AppContext, name: str, id_: int) -> Entry:
    """Return a post that other sites may embed, as an anonymous viewer sees it. Raises `NotFound`."""
    found = await hydrate(app_context.reads.graph, None, (id_,), unasked=False)
    if not found or found[0].author.member.name != name.lower() or found[0].post.visibility not in OPEN:
        raise NotFound("There is no such post")
    return found[0]


def _frame_code(app_context: AppContext, entry: Entry, width: int, height: int) -> str:
    address = f"{app_context.at.root}/embed/@{entry.author.member.name}/{entry.post.id}"
    by = entry.author.member.shown_name
    return (
        f'<iframe src="{escape(address)}" width="{width}" height="{height}" title="{escape(by)}" loading="lazy"'
        ' allowfullscreen style="border:0;max-width:100%"></iframe>'
    )


def _height(entry: Entry, width: int) -> int:
    """Estimate the height of an embedded post in pixels, because a page without scripts cannot report its height."""
    shown = [file for file in entry.media if file.width and file.height] if not entry.post.spoiler else []
    ratios = [cropped(file.width / file.height) for file in shown]
    if len(ratios) >= MANY:
        photos = rows_height(ratios, width, _GAP)
    else:
        photos = width / max(ratios[0] if len(ratios) == 1 else 1.5, 0.8) if ratios else 0
    lines = min(_LINES, math.ceil(len(entry.post.shown_text) * 8.2 / (width - 32)) + entry.post.shown_text.count("\n"))
    return round(_HEAD + photos + lines * _LINE + _FOOT)


ROUTES = (
    routing.page("/posts/{id}/embed", code, IdPath),
    routing.page("/embed/@{handle}/{id}", framed, PostPath),
    Route("GET", "/api/oembed", oembed, auth="public", limit_class="pages", params=OEmbedQuery, answer=OEmbed),
)
