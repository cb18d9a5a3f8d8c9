"""Named feeds: the feeds that a viewer may read, the page of one, and the editor of a member's own feeds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import feeds as commands
from shoal.core.errors import InvalidInput, NotFound, Unauthenticated
from shoal.core.feeds.declarations import (
    MAX_BYTES,
    MAX_PARAMETERS,
    MAX_TITLE,
    BooleanParameter,
    FeedDeclaration,
    Followees,
    NamedFeed,
    NumberParameter,
    Parameter,
    TextParameter,
    cost_of,
    values_of,
)
from shoal.core.feeds.expressions import MAX_TEXT, Value
from shoal.core.text import isolated
from shoal.graph.access import association, count_of, members_by_id
from shoal.graph.contract import Cursor
from shoal.graph.feed_lookup import (
    feeds_of,
    followed_feeds,
    id_in,
    listed_feeds,
    readable_feed,
    saved_values,
)
from shoal.graph.schema import FOLLOWS, FOLLOWS_FEED
from shoal.http.params import Id
from shoal.queries import lists
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.named_feeds import feed as queries
from shoal.queries.named_feeds import preview
from shoal.queries.named_feeds.feed import FeedEntry, FeedPage
from shoal.queries.named_feeds.preview import FeedDryRun
from shoal.web import routing
from shoal.web.feed_views import Contents, contents_of, feed_path, feed_view, feed_views
from shoal.web.feed_words import (
    left_to_right,
    parameter_title,
    source_labels,
    titles_of_terms,
    value_words,
    why_in_feed,
    words_of,
)
from shoal.web.form_errors import RIGHT, Wrong, bare, complaint, error_text, sentence
from shoal.web.pending_actions import PendingAction, typed_feed
from shoal.web.rendering import SIZE, BeforeQuery, next_of, page, part
from shoal.web.request_context import Form, PageContext, address
from shoal.web.timelines import home_tabs
from shoal.web.view_models import PostView, answered, post_of, with_first_photo

_Reference = Annotated[str, Meta(min_length=1, max_length=50)]
_Values = Annotated[
    dict[Annotated[str, Meta(max_length=100)], Annotated[str, Meta(max_length=10 * MAX_TEXT)]],
    Meta(max_length=MAX_PARAMETERS),
]
_TRIED = 10
"""Posts of a preview."""
_EXAMPLE = """{
  "sources": [
    {"from": "followees"},
    {"from": "tag", "tag": "bread"}
  ],
  "filters": {"media": "with", "maximum_age_hours": 168},
  "order": {"by": "expression", "expression": "log(1 + likes) - 0.1 * age_hours"}
}"""


class Field(NamedTuple):
    """A parameter of a feed in the form."""

    name: str
    title: str
    kind: Literal["number", "choice", "text"]
    value: str
    least: str = ""
    most: str = ""
    options: tuple[tuple[str, str], ...] = ()


class FeedPath(msgspec.Struct, frozen=True, kw_only=True):
    reference: _Reference


class ReadQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of a feed: `before` continues one in the order of time, and `position` a ranked one."""

    reference: _Reference
    position: Annotated[str, Meta(max_length=64)] = ""
    parameters: _Values | None = None
    saved: bool = False


class FeedForm(Form, frozen=True, kw_only=True):
    reference: _Reference


class FollowForm(FeedForm, frozen=True, kw_only=True):
    do: Literal["follow", "unfollow"] = "follow"


class ValuesForm(FeedForm, frozen=True, kw_only=True):
    parameters: _Values | None = None
    do: Literal["save", "reset", "try"] = "save"


_Title = Annotated[str, Meta(max_length=2_000)]
_Declaration = Annotated[str, Meta(max_length=2 * MAX_BYTES)]


class NewQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The editor of a new feed, which is a copy of the feed `origin`."""

    origin: Annotated[str, Meta(max_length=50)] = ""


class EditQuery(msgspec.Struct, frozen=True, kw_only=True):
    id: Id


class EditorForm(Form, frozen=True, kw_only=True):
    title: _Title = ""
    declaration: _Declaration = ""
    shared: bool = False
    origin: Annotated[str, Meta(max_length=50)] = ""
    do: Literal["save", "try", "delete"] = "save"


class ChangeForm(EditorForm, frozen=True, kw_only=True):
    id: Id


async def several(ctx: PageContext, _params: None) -> Response:
    """List the member's own feeds, followed feeds, and the feeds of the server."""
    own, (followed, unavailable), of_server = await listed_feeds(ctx.graph, ctx.viewer_id)
    ids = {feed.id for feed in followed}
    groups = (own, followed, [feed for feed in of_server if feed.id not in ids])
    rows = iter(await feed_views(ctx, [feed for group in groups for feed in group]))
    _ = ctx.words.text
    titles = (_("Your feeds"), _("Followed feeds"), _("Feeds of this server"))
    return await page(
        ctx,
        "feeds",
        title=_("Feeds"),
        groups=[(title, list(islice(rows, len(found)))) for title, found in zip(titles, groups, strict=True) if found],
        unavailable=[ctx.url(f"/feeds/{feed_id}/follow") for feed_id in unavailable],
    )


async def _origin(ctx: PageContext, feed: NamedFeed) -> tuple[str, str] | None:
    """Return the path and title of the feed of which a feed is a copy, if the viewer may read it."""
    if feed.origin_id:
        with suppress(NotFound):
            origin = await readable_feed(ctx.graph, ctx.viewer_id, str(feed.origin_id))
            return feed_path(ctx, origin), origin.title
    return None


async def timeline(ctx: PageContext, query: ReadQuery) -> Response:
    """Show the posts of a feed, each with the reason why it is there.

    Values of parameters in the address take precedence over those that the member saved.
    """
    try:
        feed = await readable_feed(ctx.graph, ctx.viewer_id, query.reference)
    except NotFound:
        id_ = id_in(query.reference)
        if not (id_ and await _follows(ctx, id_)):
            raise
        return await _unavailable(ctx, id_)
    given = _known(feed, query.parameters)
    unknown = [name for name in query.parameters or {} if name not in feed.declaration.parameters]
    try:
        found = await _read(ctx, feed, query, given or await _saved(ctx, feed))
    except InvalidInput as error:
        if error.field not in given:
            raise
        return await _with_error(ctx, feed, given, error)
    return await _page(ctx, feed, query.reference, found, given, saved=query.saved, unknown=unknown)


def _known(feed: NamedFeed, parameters: Mapping[str, str] | None) -> dict[str, str]:
    """Return the values of parameters that the feed has; an empty one is a value only of a text."""
    declared = feed.declaration.parameters
    return {
        name: value
        for name, value in (parameters or {}).items()
        if name in declared and (value or isinstance(declared[name], TextParameter))
    }


def _with_values(path: str, given: Mapping[str, str], **more: str) -> str:
    """Return a path with values of parameters, also the empty ones, which `ctx.url` leaves out."""
    query = {**more, **{f"parameters[{name}]": value for name, value in given.items()}}
    return f"{path}?{urlencode(query)}" if query else path


async def _saved(ctx: PageContext, feed: NamedFeed) -> dict[str, str]:
    """Return the values of parameters that the member saved, as texts of a form."""
    saved = await saved_values(ctx.graph, ctx.viewer.id, feed) if ctx.viewer else {}
    return {name: _text(value) for name, value in saved.items()}


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.15g}"


async def _with_error(ctx: PageContext, feed: NamedFeed, given: dict[str, str], error: InvalidInput) -> Response:
    """Show the feed with the defaults of its parameters, and the error next to its field."""
    reference = feed.name or str(feed.id)
    found = await _read(ctx, feed, ReadQuery(reference=reference), {})
    text = complaint(ctx.words, bare(str(error), error.field or ""))
    wrong = {error.field if error.field in given else "": sentence(text)}
    return await _page(ctx, feed, reference, found, given, wrong)


async def _page(
    ctx: PageContext,
    feed: NamedFeed,
    reference: str,
    found: FeedPage | None,
    given: Mapping[str, str],
    wrong: Wrong = RIGHT,
    *,
    saved: bool = False,
    unknown: Sequence[str] = (),
) -> Response:
    """Show a page of a feed. `found` is None if the viewer has to log in to read it.

    `unknown` are names of parameters in the address that the feed lacks.
    """
    declared = feed.declaration
    locked, found = found is None, found or FeedPage([])
    kept_values = await _saved(ctx, feed)
    values = {} if wrong else values_of(declared, given or kept_values)
    (contents,) = await contents_of(ctx, (declared,))
    posts = await _posts(ctx, declared, contents, found.entries, values)
    path = f"/feeds/{reference}"
    if declared.ranked:
        following = ctx.url(_with_values(path, given, position=found.cursor)) if found.cursor else ""
    else:
        following = next_of(ctx, path, found.next)
    end = ctx.words.text("You've seen all posts of this feed.")
    if ctx.partial:
        return part(ctx, "posts", posts=posts, next=following, end=end)
    owner = await members_by_id(ctx.graph, [feed.owner_id]) if feed.owner_id else {}
    follows, tab = await _follows(ctx, feed.id), f"feed-{feed.id}"
    own = bool(feed.owner_id) and feed.owner_id == ctx.viewer_id
    tabs = await home_tabs(ctx, tab) if follows or own else []
    return await page(
        ctx,
        "feed",
        title=isolated(feed.title),
        shown=feed_view(ctx, feed, owner, contents),
        tab=tab,
        tabs=tabs,
        origin=await _origin(ctx, feed),
        edit=ctx.url(f"/feeds/{feed.id}/edit"),
        copy=ctx.url("/feeds/new", origin=feed.name or feed.id),
        follows=follows,
        locked=locked,
        empty=None if posts or locked else await _empty(ctx, declared),
        fields=_fields(ctx, declared.parameters, given or kept_values),
        changed=[
            f"{parameter_title(name)}: {value_words(ctx.words, value)}"
            for name, value in values.items()
            if value != declared.parameters[name].default
        ],
        given=bool(given),
        unknown=[left_to_right(ctx.words, name) for name in unknown],
        kept=bool(kept_values),
        saved=saved,
        wrong=wrong,
        posts=posts,
        next=following,
        end=end,
        link=f"{ctx.app.at.root}/feeds/{feed.name or feed.id}",
        declaration=_json(declared),
        cost=cost_of(declared, contents.feeds),
    )


async def _read(ctx: PageContext, feed: NamedFeed, query: ReadQuery, given: Mapping[str, str]) -> FeedPage | None:
    """Read a page; None for a visitor of a feed that is ranked for each member. An invalid position is the first page."""
    at = None
    if query.position and feed.declaration.ranked:
        with suppress(InvalidInput):
            at = decode_cursor(query.position)
    cursor = Cursor(limit=SIZE) if feed.declaration.ranked else query.cursor()
    try:
        return await queries.page(ctx.reads, ctx.viewer_id, feed, cursor, at=at, parameters=given)
    except Unauthenticated:
        return None


async def _posts(
    ctx: PageContext,
    declared: FeedDeclaration,
    contents: Contents,
    entries: Sequence[FeedEntry],
    values: Mapping[str, Value],
) -> list[PostView]:
    labels = source_labels(ctx.words, declared, contents.feeds, contents.titles)
    parents = await answered(ctx, [one.entry for one in entries])
    return with_first_photo(
        [
            post_of(ctx, one.entry, parents, why=why_in_feed(ctx, one.entry, one.why, labels, declared, values))
            for one in entries
        ]
    )


async def _follows(ctx: PageContext, feed_id: int) -> bool:
    return ctx.viewer is not None and await association(ctx.graph, ctx.viewer.id, FOLLOWS_FEED, feed_id) is not None


class EmptyFeed(NamedTuple):
    """Why a feed has no posts, and what to do next: pairs of a path and words."""

    text: str
    ways: list[tuple[str, str]]


async def _empty(ctx: PageContext, declared: FeedDeclaration) -> EmptyFeed:
    _ = ctx.words.text
    if any(isinstance(source, Followees) for source in declared.sources):
        if ctx.viewer is None:
            login = (ctx.url("/login", to=ctx.path), _("Log in"))
            return EmptyFeed(_("It shows posts by people you follow. Log in to see them."), [login])
        if not await count_of(ctx.graph, ctx.viewer.id, FOLLOWS):
            people = (ctx.url("/welcome/people"), _("Find people"))
            return EmptyFeed(_("It shows posts by people you follow, and you do not follow anyone yet."), [people])
    return EmptyFeed(_("Posts appear here when a source has them and they pass the filters."), [])


async def _unavailable(ctx: PageContext, feed_id: int) -> Response:
    """Show a follower that a feed was deleted or may not be read any more."""
    title = ctx.words.text("Unavailable feed")
    return await page(ctx, "feed_unavailable", status=404, title=title, path=ctx.url(f"/feeds/{feed_id}/follow"))


def _fields(ctx: PageContext, parameters: Mapping[str, Parameter], given: Mapping[str, str]) -> list[Field]:
    _ = ctx.words.text
    fields: list[Field] = []
    options: tuple[tuple[str, str], ...]
    for name, parameter in parameters.items():
        title = parameter_title(name)
        if isinstance(parameter, NumberParameter):
            value = given.get(name, f"{parameter.default:.15g}")
            least, most = f"{parameter.minimum:.15g}", f"{parameter.maximum:.15g}"
            fields.append(Field(name, title, "number", value, least, most))
        elif isinstance(parameter, BooleanParameter):
            options = (("true", _("Yes")), ("false", _("No")))
            fields.append(
                Field(name, title, "choice", given.get(name, str(parameter.default).lower()), options=options)
            )
        elif parameter.choices:
            options = tuple((choice, choice) for choice in parameter.choices)
            fields.append(Field(name, title, "choice", given.get(name, parameter.default), options=options))
        else:
            fields.append(Field(name, title, "text", given.get(name, parameter.default)))
    return fields


async def follow(ctx: PageContext, asked: FollowForm) -> Response:
    member = ctx.checked(asked)
    change = commands.follow if asked.do == "follow" else commands.unfollow
    await change(ctx.writes, member.id, asked.reference)
    return ctx.back(asked, f"/feeds/{asked.reference}")


async def set_values(ctx: PageContext, asked: ValuesForm) -> Response:
    """Save the values of a feed's parameters that differ from the defaults, remove the saved ones, or try values."""
    member = ctx.checked(asked)
    feed = await readable_feed(ctx.graph, member.id, asked.reference)
    given = _known(feed, asked.parameters) if asked.do != "reset" else {}
    path = f"/feeds/{asked.reference}"
    if asked.do == "try":
        return ctx.go(_with_values(path, given))
    defaults = {name: _text(parameter.default) for name, parameter in feed.declaration.parameters.items()}
    differing = {name: value for name, value in given.items() if value != defaults[name]}
    try:
        await commands.set_values(ctx.writes, member.id, asked.reference, differing)
    except InvalidInput as error:
        return await _with_error(ctx, feed, given, error)
    return ctx.go(path, saved=1)


async def new(ctx: PageContext, query: NewQuery) -> Response:
    """Open the editor with an example, or with the feed to copy."""
    if action := typed_feed(ctx, address("", "/feeds/new", origin=query.origin)):
        return await _continued(ctx, None, action, query.origin)
    if not query.origin:
        return await _editor(ctx, None, EditorForm(declaration=_EXAMPLE))
    origin = await readable_feed(ctx.graph, ctx.member.id, query.origin)
    title = (ctx.words.text("Copy of %(title)s") % {"title": origin.title})[:MAX_TITLE]
    typed = EditorForm(title=title, declaration=_json(origin.declaration), origin=str(origin.id))
    return await _editor(ctx, None, typed)


async def create(ctx: PageContext, asked: EditorForm) -> Response:
    member = ctx.checked(asked, _continue_with(asked), address("", "/feeds/new", origin=asked.origin))
    origin: NamedFeed | None = None
    if asked.origin:
        # The owner may have stopped sharing the origin after the copy was opened.
        with suppress(NotFound):
            origin = await readable_feed(ctx.graph, member.id, asked.origin)
    if asked.do == "try":
        return await _tried(ctx, None, asked, origin)
    try:
        made = await commands.create(
            ctx.writes,
            member.id,
            asked.title,
            asked.declaration,
            shared=asked.shared,
            origin=origin,
        )
    except InvalidInput as error:
        return await _editor(ctx, None, asked, wrong=_wrong(ctx, error, asked.declaration))
    return ctx.go(f"/feeds/{made.id}")


def _continue_with(asked: EditorForm) -> Callable[[str], str] | None:
    """Return the action that opens the editor after a login, with the typed values unless they are too long for a cookie."""
    if asked.do == "delete":
        return None
    typed = PendingAction("feed", text=asked.declaration, title=asked.title, shared=asked.shared)
    return lambda page: typed.at(page) or PendingAction("long_feed").at(page)


async def _continued(ctx: PageContext, feed: NamedFeed | None, action: PendingAction, origin: str = "") -> Response:
    """Show the editor once with the values that were typed before the login."""
    typed = EditorForm(title=action.title, declaration=action.text, shared=action.shared, origin=origin)
    response = await _editor(ctx, feed, typed, filled=True)
    ctx.browser.postpone(response, "")
    return response


async def edit(ctx: PageContext, query: EditQuery) -> Response:
    feed = await _own(ctx, query.id)
    if action := typed_feed(ctx, f"/feeds/{query.id}/edit"):
        return await _continued(ctx, feed, action)
    typed = EditorForm(title=feed.title, declaration=_json(feed.declaration), shared=feed.shared)
    return await _editor(ctx, feed, typed)


async def change(ctx: PageContext, asked: ChangeForm) -> Response:
    member = ctx.checked(asked, _continue_with(asked), f"/feeds/{asked.id}/edit")
    feed = await _own(ctx, asked.id)
    if asked.do == "delete":
        await commands.delete(ctx.writes, member.id, str(feed.id))
        return ctx.go("/feeds")
    if asked.do == "try":
        return await _tried(ctx, feed, asked)
    try:
        await commands.update(
            ctx.writes,
            member.id,
            str(feed.id),
            title=asked.title,
            declaration=asked.declaration,
            shared=asked.shared,
        )
    except InvalidInput as error:
        return await _editor(ctx, feed, asked, wrong=_wrong(ctx, error, asked.declaration))
    return ctx.go(f"/feeds/{feed.id}")


async def _own(ctx: PageContext, feed_id: int) -> NamedFeed:
    feed = await readable_feed(ctx.graph, ctx.member.id, str(feed_id))
    if feed.owner_id != ctx.member.id:
        raise NotFound("There is no such feed")
    return feed


async def _tried(
    ctx: PageContext, feed: NamedFeed | None, asked: EditorForm, origin: NamedFeed | None = None
) -> Response:
    """Show what the declaration in the form would show now, and its cost. Nothing is stored."""
    member = ctx.member
    try:
        declared = await commands.checked_for(
            ctx.graph, member.id, asked.declaration, shared=asked.shared, before=feed, origin=origin
        )
        before = feed.declaration if feed else None
        found = await preview.dry_run(ctx.reads, member.id, declared, _TRIED, other=before)
    except InvalidInput as error:
        return await _editor(ctx, feed, asked, wrong=_wrong(ctx, error, asked.declaration))
    return await _editor(ctx, feed, asked, declared=declared, found=found)


async def _editor(
    ctx: PageContext,
    feed: NamedFeed | None,
    typed: EditorForm,
    *,
    wrong: Wrong = RIGHT,
    declared: FeedDeclaration | None = None,
    found: FeedDryRun | None = None,
    filled: bool = False,
) -> Response:
    """Show the editor with the values `typed`, which a login filled in if `filled`."""
    _, member = ctx.words.text, ctx.member
    shown = declared or (feed.declaration if feed and not wrong else None)
    contents = (await contents_of(ctx, (shown,)))[0] if shown else None
    entries = [FeedEntry(one.entry, one.why) for one in found.entries] if found else []
    path = ctx.url(f"/feeds/{feed.id}/edit" if feed else "/feeds/new")
    heading = _("Edit %(title)s") % {"title": isolated(feed.title)} if feed else _("New feed")
    return await page(
        ctx,
        "feed_edit",
        title=_("Preview of %(title)s") % {"title": isolated(typed.title) or heading} if found else heading,
        path=path,
        page=path if feed else ctx.url("/feeds/new", origin=typed.origin),
        draft=f"shoal:draft:{member.id}:feed:{feed.id if feed else f'new:{typed.origin}'}",
        filled=filled or bool(wrong) or found is not None,
        back=feed_path(ctx, feed) if feed else ctx.url("/feeds"),
        empty=await _empty(ctx, declared) if declared and not entries else None,
        terms=titles_of_terms(ctx.words),
        lists=[(list_.title, str(list_.id)) for list_ in await lists.owned(ctx.graph, member.id)],
        feeds=[
            (other.title, other.name or str(other.id))
            for other in (*await feeds_of(ctx.graph, member.id), *await followed_feeds(ctx.graph, member.id))
        ],
        saved=feed is not None,
        sharing=feed is not None and feed.shared,
        typed=typed,
        wrong=wrong,
        cost=cost_of(shown, contents.feeds) if shown and contents else None,
        summary=words_of(ctx.words, declared, contents.titles) if declared and contents else None,
        posts=await _posts(ctx, declared, contents, entries, values_of(declared, {})) if declared and contents else [],
        fresh=sum(one.before is None for one in found.entries) if found and found.comparison else 0,
        tried=found is not None,
    )


_PLACE = re.compile(
    r'(?P<path>(?:sources|filters|parameters|order|diversity|aggregate)(?:\["(?:[^"\\]|\\.)*"\]|[^:])*): (?P<text>.*)',
    re.DOTALL,
)
_BYTE = re.compile(r"JSON is malformed: (?P<text>.*?) \(byte (?P<byte>[0-9]+)\)")


def _wrong(ctx: PageContext, error: InvalidInput, declaration: str) -> dict[str, str]:
    """Return the error of the editor. An error in the declaration begins with the path, or the line and column, of its place."""
    if error.field in ("title", "shared"):
        return {error.field: error_text(ctx.words, error)}
    text, place = str(error).removeprefix("declaration: "), ""
    if found := _BYTE.search(text):
        before = declaration.encode()[: int(found["byte"])].decode(errors="replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        place = ctx.words.text("line %(line)s, column %(column)s") % {"line": line, "column": column}
        text = found["text"]
    elif found := _PLACE.fullmatch(text):
        text, place = found["text"], found["path"]
    text = complaint(ctx.words, text.replace("`", ""))
    return {"declaration": f"{left_to_right(ctx.words, place)}: {text}" if place else sentence(text)}


def _json(declared: FeedDeclaration) -> str:
    """Return a declaration as indented JSON, with one source or parameter on a line."""
    document = {name: _whole(value) for name, value in declared.document().items()}
    sources = ",\n".join(f"    {json.dumps(source, ensure_ascii=False)}" for source in document.pop("sources"))
    parameters = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(parameter, ensure_ascii=False)}"
        for name, parameter in document.pop("parameters", {}).items()
    )
    parts = [
        f'  "sources": [\n{sources}\n  ]',
        *(f'  "{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in document.items()),
        *([f'  "parameters": {{\n{parameters}\n  }}'] if parameters else []),
    ]
    return "{\n" + ",\n".join(parts) + "\n}"


def _whole(value: Any) -> Any:
    """Return a JSON value with integers for whole numbers."""
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


ROUTES = (
    routing.page("/feeds", several),
    routing.page("/feeds/new", new, NewQuery),
    routing.form("/feeds/new", create, EditorForm),
    routing.page("/feeds/{reference}", timeline, ReadQuery),
    routing.form("/feeds/{reference}/follow", follow, FollowForm),
    routing.form("/feeds/{reference}", set_values, ValuesForm),
    routing.page("/feeds/{id}/edit", edit, EditQuery),
    routing.form("/feeds/{id}/edit", change, ChangeForm),
)
