"""Search for members, tags and posts, suggestions of the search box, and completion of tags, handles and towns."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal import gazetteer
from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.filters import FilterContext
from shoal.core.places import Place
from shoal.core.tokenizer import tokens_of
from shoal.gazetteer import MOST_TYPED
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.graph.feed_lookup import listed_feeds
from shoal.i18n import Translated
from shoal.queries import search as feed
from shoal.queries.hydration import Entry, Profile
from shoal.queries.pipeline import filtered
from shoal.queries.search import ResultRange
from shoal.search.query import misread
from shoal.web import routing
from shoal.web.feed_views import FeedView, feed_views
from shoal.web.photo_grid import Listing, PhotoGrid, grid_of
from shoal.web.place_names import as_typed, coordinates_typed, town_label
from shoal.web.rendering import BeforeQuery, page, part
from shoal.web.request_context import Line, PageContext
from shoal.web.view_models import Face, PersonView, PostView, face_of, people_of, posts_of, tag_path

_COMPLETIONS = 6


class WordQuery(msgspec.Struct, frozen=True):
    """The beginning of a word, with its `#` or `@`."""

    q: Annotated[str, Meta(max_length=200)] = ""


class Completion(msgspec.Struct, frozen=True):
    word: str
    uses: str = ""
    face: Face | None = None


async def offer(ctx: PageContext, query: WordQuery) -> Response:
    reads, viewer, limit = ctx.reads, ctx.member.id, ResultRange(_COMPLETIONS)
    try:
        if query.q.startswith("@"):
            people = await feed.members(reads, viewer, query.q[1:], limit) if query.q[1:] else []
            offers = [Completion(f"@{person.member.name}", face=face_of(ctx, person.member)) for person in people]
        else:
            tags = await _tag_rows(ctx, await feed.tags(reads, viewer, query.q, limit))
            offers = [Completion(f"#{row.form}", row.uses) for row in tags]
    except (Unavailable, InvalidInput):
        offers = []
    return part(ctx, "suggestions", offers=offers)


class FoundTag(NamedTuple):
    form: str
    path: str
    uses: str


class SearchOffer(NamedTuple):
    """A suggestion of the search box: a member, a tag, or text for the box."""

    shown: str
    detail: str
    path: str
    avatar: str = ""
    icon: str = "hash"
    typed: str = ""
    """Text that the suggestion puts into the search box; empty if the suggestion opens `path`."""
    at: str = ""
    """Coordinates of a suggested town."""


class TownQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: Annotated[str, Meta(max_length=MOST_TYPED)] = ""
    countries: bool = False


async def towns(ctx: PageContext, query: TownQuery) -> Response:
    found = await _towns(ctx.words, query)
    offers = [
        SearchOffer(label, "", "", icon="map-pin", typed=label, at=as_typed(place)) for label, place in found.items()
    ]
    return part(ctx, "offers", offers=offers, q="")


async def _towns(words: Translated, query: TownQuery) -> dict[str, Place | None]:
    """Return the suggested towns by their labels, with their places. Countries have no place."""
    if (known := gazetteer.installed()) is None:
        return {}
    try:
        place = coordinates_typed(query.q)
    except InvalidInput:
        return {}
    if place is not None:
        return {label: place} if (label := town_label(words, place)) else {}
    return await asyncio.to_thread(known.suggested, query.q, words.code, _COMPLETIONS, countries=query.countries)


class SearchResults(msgspec.Struct, frozen=True):
    text: str
    kind: str
    member: bool
    """Whether the viewer is logged in: only members can search posts."""
    people: Sequence[PersonView] = ()
    tags: Sequence[FoundTag] = ()
    feeds: Sequence[FeedView] = ()
    grid: PhotoGrid = PhotoGrid()
    posts: Sequence[PostView] = ()
    next: str = ""
    misread: tuple[str, ...] = ()
    elsewhere: str = ""
    """The domain in the query if it is an address on another network."""
    away: bool = False

    @property
    def anything(self) -> bool:
        return bool(self.people or self.tags or self.feeds or self.grid.photos or self.posts)

    @property
    def more_part(self) -> str:
        return {"people": "people", "tags": "found_tags", "feeds": "found_feeds", "photos": "photo_rows"}.get(
            self.kind, "posts"
        )

    def views(self) -> dict[str, Any]:
        return {
            "people": self.people,
            "feeds": self.feeds,
            "grid": self.grid,
            "posts": self.posts,
            "next": self.next,
            "end": "",
        }


async def _tag_rows(ctx: PageContext, names: Sequence[str]) -> list[FoundTag]:
    """Return tags with their number of uses. Costs one read."""
    counts = await ctx.reads.tags.counted(names) if names else {}
    rows = []
    for name in names:
        tag = counts.get(name)
        uses = ctx.words.counted("%(n)s post", "%(n)s posts", tag.uses) if tag else ""
        rows.append(FoundTag(tag.form if tag else name, tag_path(ctx, name), uses))
    return rows


def _hint(ctx: PageContext, part: str) -> str:
    """Return a message about a part of the query in which an operator has an invalid value."""
    _ = ctx.words.text
    match part.removeprefix("-").partition(":")[0].lower():
        case "before" | "after" | "during":
            return _("%(part)s: enter a date such as 2026-03-01.")
        case "near":
            return _("%(part)s: enter latitude and longitude, such as near:45.44,12.32.")
    return _("%(part)s: unknown value; the allowed values are listed below.")


_PEOPLE, _TAGS, _FEEDS, _POSTS = 20, 40, 20, 20
_FEW_PEOPLE, _FEW_TAGS, _FEW_FEEDS = 4, 8, 3
"""Maximum numbers of members, of tags and of feeds on the page with results of all kinds."""
_OFFERED = 5
_HANDLE = re.compile(r"@?([A-Za-z0-9_]+)@([^\s@/]+)")
_OURS = re.compile(r"/(?:@\w+(?:/\d{1,19})?|tags/[^/?#\s]+)/?(?:[?#]\S*)?")

Kind = Literal["", "photos", "people", "tags", "feeds", "posts"]


class SearchQuery(BeforeQuery, frozen=True, kw_only=True):
    q: Line = ""
    type: Kind = ""
    offset: Annotated[int, Meta(ge=0, le=feed.MOST)] = 0


class OfferQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: Line = ""


async def search(ctx: PageContext, query: SearchQuery) -> Response:
    text = query.q.strip()
    address = _local_path(ctx, text)
    if address and not ctx.partial:
        return ctx.go(address)
    found = await _found(ctx, query, text)
    if ctx.partial:
        following_page = query.before or query.offset
        return part(ctx, found.more_part if following_page else "found", found=found, address=address, **found.views())
    title = ctx.words.text("%(text)s · Search") % {"text": text} if text else ctx.words.text("Search")
    return await page(ctx, "search", title=title, found=found, address=address, **found.views())


async def listing(ctx: PageContext, query: SearchQuery) -> Listing:
    """Return a page of the photos that match the query."""
    found = await _found(ctx, query, query.q.strip())
    return Listing((), found.next, found.grid)


def _local_path(ctx: PageContext, text: str) -> str:
    """Return the path of a member, post or tag of this network.

    The text names it by URL or as `@name@domain`. For any other text, the result is empty.
    """
    at = ctx.app.at
    domains = {at.domain.lower(), at.netloc.lower()}
    match = _HANDLE.fullmatch(text)
    if match is not None:
        return f"/@{match[1].lower()}" if match[2].lower() in domains else ""
    scheme, _, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    path = slash + path
    ours = scheme.lower() in {"http", "https"} and host.lower() in domains and path.startswith(at.path)
    path = path.removeprefix(at.path)
    return path if ours and _OURS.fullmatch(path) else ""


async def _found(ctx: PageContext, query: SearchQuery, text: str) -> SearchResults:
    found = SearchResults(text, query.type, ctx.viewer is not None)
    if not text:
        return found
    if (match := _HANDLE.fullmatch(text)) is not None and not _local_path(ctx, text):
        return msgspec.structs.replace(found, elsewhere=match[2])
    try:
        people, tags, feeds, (posts, after) = await asyncio.gather(
            _people(ctx, query, text), _tags(ctx, query, text), _feeds(ctx, query, text), _posts(ctx, query, text)
        )
    except Unavailable:
        return msgspec.structs.replace(found, away=True)
    most = {"people": _PEOPLE, "tags": _TAGS, "feeds": _FEEDS}.get(query.type, 0)
    full = most and len(people) + len(tags) + len(feeds) == most and query.offset + most < feed.MOST
    following = ctx.url("/search", q=text, type=query.type, offset=query.offset + most) if full else ""
    if after:
        following = ctx.url("/search", q=text, type=query.type or "posts", before=after)
    people_shown, tags_shown, feeds_shown, posts_shown = await asyncio.gather(
        people_of(ctx, people),
        _tag_rows(ctx, tags),
        feed_views(ctx, feeds),
        posts_of(ctx, [one for one in posts if query.type == "posts" or not one.media]),
    )
    return msgspec.structs.replace(
        found,
        people=people_shown,
        tags=tags_shown,
        feeds=feeds_shown,
        grid=grid_of(ctx, posts, everything=True) if query.type != "posts" else PhotoGrid(),
        posts=posts_shown,
        next=following,
        misread=tuple(_hint(ctx, part) % {"part": part} for part in misread(text))
        if query.type in {"", "photos", "posts"}
        else (),
    )


async def _people(ctx: PageContext, query: SearchQuery, text: str) -> list[Profile]:
    if query.type not in {"", "people"} or text.startswith("#") or _has_operator(text):
        return []
    part_ = ResultRange(_PEOPLE, query.offset) if query.type else ResultRange(_FEW_PEOPLE)
    return await feed.members(ctx.reads, ctx.viewer_id, text.removeprefix("@"), part_)


async def _tags(ctx: PageContext, query: SearchQuery, text: str) -> list[str]:
    if query.type not in {"", "tags"} or text.startswith("@") or _has_operator(text):
        return []
    part_ = ResultRange(_TAGS, query.offset) if query.type else ResultRange(_FEW_TAGS)
    return await feed.tags(ctx.reads, ctx.viewer_id, text, part_)


async def _feeds(ctx: PageContext, query: SearchQuery, text: str) -> list[NamedFeed]:
    """Return feeds whose titles have words that begin with the typed ones: the viewer's, followed ones, and those of the server."""
    if query.type not in {"", "feeds"} or text.startswith(("#", "@")) or _has_operator(text):
        return []
    parts = text.split()
    typed = tokens_of(" ".join(part for part in parts if not part.startswith("-")))
    excluded = tokens_of(" ".join(part for part in parts if part.startswith("-")))
    if not typed:
        return []
    listed = await listed_feeds(ctx.graph, ctx.viewer_id)
    known = {feed.id: feed for feed in (*listed.own, *listed.followed.readable, *listed.of_server)}
    found = [feed for feed in known.values() if _has_words(tokens_of(feed.title), typed, excluded)]
    return found[query.offset : query.offset + _FEEDS] if query.type else found[:_FEW_FEEDS]


def _has_words(words: Sequence[str], typed: Sequence[str], excluded: Sequence[str]) -> bool:
    found = all(any(word.startswith(part) for word in words) for part in typed)
    return found and not set(excluded).intersection(words)


async def _posts(ctx: PageContext, query: SearchQuery, text: str) -> tuple[Sequence[Entry], int]:
    """Return posts and the cursor of the next page, which is 0 on the last page. Only members can search posts."""
    if query.type not in {"", "photos", "posts"} or ctx.viewer_id is None or text.startswith("@"):
        return [], 0
    reads = ctx.reads
    cursor = Cursor(query.before or MAX_TIME, 0, _POSTS)
    found = await feed.posts(reads, ctx.viewer_id, f"has:media {text}" if query.type == "photos" else text, cursor)
    entries = await filtered(reads.graph, ctx.viewer_id, found, FilterContext.PUBLIC)
    return entries, found[-1].id if len(found) == _POSTS else 0


def _has_operator(text: str) -> bool:
    return bool(re.search(r"(?:^|\s)-?(?:from|before|after|during|has|is|in|near|language):\S", text))


async def offers(ctx: PageContext, query: OfferQuery) -> Response:
    """Suggest members and tags that complete the query, for the list below the search box."""
    before, _, last = query.q.rpartition(" ")
    reads, viewer = ctx.reads, ctx.viewer_id
    found: list[SearchOffer] = []
    name = last.removeprefix("from:").removeprefix("@")
    try:
        if name and not last.startswith("#"):
            for member in await feed.members(reads, viewer, name, ResultRange(_OFFERED)):
                face = face_of(ctx, member.member)
                typed = f"{before} from:{face.name} ".lstrip() if last.startswith("from:") else ""
                found.append(SearchOffer(face.shown, f"@{face.name}", face.path, face.avatar, typed=typed))
        if last.removeprefix("#") and not last.startswith(("@", "from:")) and not before:
            tags = await feed.tags(reads, viewer, last, ResultRange(_OFFERED))
            found += [SearchOffer(f"#{row.form}", row.uses, row.path) for row in await _tag_rows(ctx, tags)]
    except Unavailable:
        found = []
    return part(ctx, "offers", offers=found[: 2 * _OFFERED], q=query.q)


ROUTES = (
    routing.page("/compose/words", offer, WordQuery),
    routing.page("/search", search, SearchQuery),
    routing.page("/search/offers", offers, OfferQuery),
    routing.page("/towns", towns, TownQuery),
)
