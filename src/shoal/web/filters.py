"""Filters: hide or collapse posts by keyword or id, by context and with an expiry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
from babel.dates import format_timedelta
from markupsafe import Markup
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import filters, members
from shoal.commands.filters import MAX_CHARACTERS, MAX_KEYWORDS_IN_ALL, FilterChange, KeywordChange
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.core.filters import Filter, FilterAction, FilterContext, FilterPost
from shoal.graph.access import filters_of, own_object
from shoal.http.params import Id
from shoal.queries.hydration import hydrate
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.request_context import Form, IdForm, IdPath, Line, PageContext
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page
from shoal.web.view_models import post_of, with_time

_LASTING = (1_800, 3_600, 21_600, 86_400, 604_800, 2_592_000)


class FilterRow(NamedTuple):
    path: str
    title: str
    words: str
    """The first five keywords of the filter, and the number of its posts."""
    where: str
    what: str
    until: Markup | str
    """The expiry of the filter as text; empty if it does not expire."""
    over: bool


def _row(ctx: PageContext, filter_: Filter) -> FilterRow:
    _, words = ctx.words.text, ctx.words
    over = bool(filter_.expires_at) and filter_.expires_at <= ctx.now_ms
    until = _("expired %(when)s") if over else _("until %(when)s")
    named = ", ".join(keyword.keyword for keyword in filter_.keywords[:5])
    more = len(filter_.keywords) - 5
    posts = words.counted("%(n)s post", "%(n)s posts", len(filter_.posts))
    return FilterRow(
        ctx.url(f"/settings/filters/{filter_.id}"),
        filter_.title,
        " · ".join(
            part for part in (f"{named} +{more}" if more > 0 else named, posts if filter_.posts else "") if part
        ),
        _where(ctx, filter_),
        next(label for action, label, _hint in _actions(ctx) if action == filter_.action),
        with_time(ctx, until, filter_.expires_at) if filter_.expires_at else "",
        over,
    )


def _where(ctx: PageContext, filter_: Filter) -> str:
    if set(filter_.contexts) == set(FilterContext):
        return ctx.words.text("Everywhere")
    return ", ".join(words for context, words in _contexts(ctx) if context in filter_.contexts)


def _contexts(ctx: PageContext) -> list[tuple[str, str]]:
    _ = ctx.words.text
    return [
        (FilterContext.HOME, _("Home and lists")),
        (FilterContext.NOTIFICATIONS, _("Notifications")),
        (FilterContext.PUBLIC, _("Explore, tags and search")),
        (FilterContext.THREAD, _("Comments")),
        (FilterContext.ACCOUNT, _("Profiles")),
    ]


def _actions(ctx: PageContext) -> list[tuple[str, str, str]]:
    _ = ctx.words.text
    return [
        (FilterAction.WARN, _("Hide behind a notice"), _("A line shows which filter applies; click to show the post")),
        (FilterAction.BLUR, _("Hide media"), _("The text stays visible")),
        (FilterAction.HIDE, _("Hide completely"), _("The post does not appear at all")),
    ]


def _durations(ctx: PageContext, *, current: bool) -> list[tuple[str, str]]:
    """Return the choices for the expiry of a filter, in seconds.

    For an existing filter (`current`), the first choice leaves the expiry unchanged.
    """
    _ = ctx.words.text
    times = [(f"{seconds}", format_timedelta(seconds, locale=ctx.words.code)) for seconds in _LASTING]
    return [*([("keep", _("Unchanged"))] if current else []), ("0", _("Never expires")), *times]


class HeldPost(NamedTuple):
    id: int
    """Id of the filter entry, not of the post."""
    path: str
    """Path of the post; empty if the member may no longer see the post."""
    words: str


async def _held_posts(ctx: PageContext, posts: Sequence[FilterPost]) -> list[HeldPost]:
    """Return the posts that were added to a filter by id. Costs at most seven reads."""
    _, found = ctx.words.text, []
    entries = await hydrate(ctx.graph, ctx.viewer_id, [filtered.post_id for filtered in posts], unasked=False)
    visible = {entry.id: post_of(ctx, entry) for entry in entries}
    for filtered in posts:
        if (post := visible.get(filtered.post_id)) is None:
            found.append(HeldPost(filtered.id, "", _("Deleted post")))
        else:
            excerpt = post.excerpt or _("Post without text")
            found.append(HeldPost(filtered.id, post.path, f"{post.author.shown}: {excerpt}"))
    return found


_EVERYWHERE = tuple(FilterContext)
_Lines = Annotated[str, Meta(max_length=(MAX_CHARACTERS + 2) * MAX_KEYWORDS_IN_ALL)]
_FORM = 1 << 19
"""Maximum size of the form in bytes, enough for a thousand keywords of 200 characters."""


class FilterForm(Form, frozen=True, kw_only=True):
    title: Line = ""
    words: _Lines = ""
    """Keywords and phrases that match whole words only, one per line."""
    parts: _Lines = ""
    """Keywords that also match parts of words, one per line."""
    contexts: Annotated[tuple[FilterContext, ...], Meta(max_length=20)] = ()
    action: FilterAction = FilterAction.WARN
    lasts: Annotated[str, Meta(max_length=20)] = "0"
    """Seconds until the filter expires. "0" means never; "keep" leaves the expiry of an existing filter unchanged."""


class ChangeForm(FilterForm, frozen=True, kw_only=True):
    id: Id


class HomeForm(Form, frozen=True, kw_only=True):
    folds_shares: bool = False
    shows_replies: bool = False


_EMPTY = FilterForm()


async def listed(
    ctx: PageContext, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT, typed: FilterForm = _EMPTY
) -> Response:
    member = ctx.member
    return await settings_page(
        ctx,
        "filters",
        wrong=wrong,
        saved=query.saved,
        typed=typed,
        filters=[_row(ctx, filter_) for filter_ in await filters_of(ctx.graph, member.id)],
        lasting=_durations(ctx, current=False),
        of=member,
        most=MAX_CHARACTERS,
    )


async def mute(ctx: PageContext, asked: FilterForm) -> Response:
    """Create a filter of a single keyword in all contexts, from the short form of the page."""
    member = ctx.checked(asked)
    whole = msgspec.structs.replace(asked, title=asked.words, contexts=_EVERYWHERE)
    try:
        await filters.create(ctx.writes, member.id, _change(whole))
    except InvalidInput as error:
        wrong = wrong_of(ctx.words, error)
        return await listed(ctx, wrong={"words": next(iter(wrong.values()))}, typed=asked)
    return saved_at(ctx, "filters")


async def save_home(ctx: PageContext, asked: HomeForm) -> Response:
    member = ctx.checked(asked)
    await members.update_profile(
        ctx.writes, member.id, ProfileChange(folds_shares=asked.folds_shares, shows_replies=asked.shows_replies)
    )
    return saved_at(ctx, "filters")


async def new(ctx: PageContext, _params: None) -> Response:
    return await _form(ctx, FilterForm(contexts=_EVERYWHERE))


async def create(ctx: PageContext, asked: FilterForm) -> Response:
    member = ctx.checked(asked)
    try:
        await filters.create(ctx.writes, member.id, _change(asked))
    except InvalidInput as error:
        return await _form(ctx, asked, wrong=_named(ctx, error))
    return saved_at(ctx, "filters")


async def edit(ctx: PageContext, asked: IdPath) -> Response:
    found = await own_object(ctx.graph, Filter, ctx.member.id, asked.id)
    typed = FilterForm(
        title=found.title,
        words="\n".join(keyword.keyword for keyword in found.keywords if keyword.whole_word),
        parts="\n".join(keyword.keyword for keyword in found.keywords if not keyword.whole_word),
        contexts=found.contexts,
        action=found.action,
        lasts="keep" if found.expires_at else "0",
    )
    return await _form(ctx, typed, found)


async def change(ctx: PageContext, asked: ChangeForm) -> Response:
    member = ctx.checked(asked)
    found = await own_object(ctx.graph, Filter, member.id, asked.id)
    try:
        await filters.update(ctx.writes, member.id, found.id, _change(asked, found))
    except InvalidInput as error:
        return await _form(ctx, asked, found, _named(ctx, error))
    return saved_at(ctx, "filters")


async def delete(ctx: PageContext, asked: IdForm) -> Response:
    member = ctx.checked(asked)
    await filters.delete(ctx.writes, member.id, asked.id)
    return saved_at(ctx, "filters")


async def release(ctx: PageContext, asked: IdForm) -> Response:
    member = ctx.checked(asked)
    await filters.remove_post(ctx.writes, member.id, asked.id)
    return ctx.back(asked, "/settings/filters")


def _change(asked: FilterForm, before: Filter | None = None) -> FilterChange:
    """Return the change to a filter. A keyword that is still in the form keeps its id. A keyword that is missing is deleted."""
    requested = dict.fromkeys(_lines(asked.words), True) | dict.fromkeys(_lines(asked.parts), False)
    keywords = {keyword.keyword: keyword for keyword in before.keywords} if before else {}
    gone = [KeywordChange(id=stored.id, gone=True) for word, stored in keywords.items() if word not in requested]
    current = [
        KeywordChange(id=keywords[word].id if word in keywords else 0, keyword=word, whole_word=whole)
        for word, whole in requested.items()
    ]
    return FilterChange(
        title=asked.title,
        contexts=asked.contexts,
        action=asked.action,
        lasts=None if asked.lasts == "keep" else _seconds(asked.lasts),
        words=[*gone, *current],
    )


def _seconds(text: str) -> int:
    """Parse an expiry in seconds. Return -1, which means that the filter does not expire, for any other text."""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 10**9 else -1


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _named(ctx: PageContext, error: InvalidInput) -> dict[str, str]:
    """Return the error messages of a command by the fields of the form, which have other names than the command's."""
    _, wrong = ctx.words.text, wrong_of(ctx.words, error)
    names = {"context": "contexts", "keyword": "words", "keywords_attributes": "words"}
    blank = {"title": _("Enter a name."), "context": _("Choose where the filter applies.")}
    blanks = error.field == "context" or (isinstance(error.field, str) and str(error).endswith("can't be blank"))
    return {
        names.get(field, field): blank.get(field, message) if blanks else message for field, message in wrong.items()
    }


async def _form(ctx: PageContext, typed: FilterForm, stored: Filter | None = None, wrong: Wrong = RIGHT) -> Response:
    return await settings_page(
        ctx,
        "filters",
        template="filter",
        wrong=wrong,
        typed=typed,
        id=stored.id if stored else 0,
        posts=await _held_posts(ctx, stored.posts) if stored else [],
        contexts=_contexts(ctx),
        actions=_actions(ctx),
        lasting=_durations(ctx, current=stored is not None and bool(stored.expires_at)),
        most=MAX_CHARACTERS,
    )


ROUTES = (
    routing.page("/settings/filters", listed, SettingsQuery),
    routing.form("/settings/filters/mute", mute, FilterForm, max_body=_FORM),
    routing.form("/settings/filters/home", save_home, HomeForm),
    routing.page("/settings/filters/new", new),
    routing.form("/settings/filters/new", create, FilterForm, max_body=_FORM),
    routing.page("/settings/filters/{id}", edit, IdPath),
    routing.form("/settings/filters/{id}", change, ChangeForm, max_body=_FORM),
    routing.form("/settings/filters/{id}/delete", delete, IdForm),
    routing.form("/settings/filters/posts/{id}/release", release, IdForm),
)
