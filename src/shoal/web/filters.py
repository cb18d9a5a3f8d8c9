"""Filters: hide or collapse posts by keyword or id, by context and with an expiry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
from babel.dates import format_timedelta
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
from shoal.web.request_context import Form, IdForm, IdPath, Line, Visit
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page
from shoal.web.view_models import post_of

_LASTING = (1_800, 3_600, 21_600, 86_400, 604_800, 2_592_000)


class FilterRow(NamedTuple):
    path: str
    title: str
    words: str
    """The first five of its keywords."""
    where: str
    what: str
    until: str
    """Empty if it never expires."""
    over: bool


def _row(visit: Visit, one: Filter) -> FilterRow:
    _, words = visit.words.text, visit.words
    over = bool(one.expires_at) and one.expires_at <= visit.now_ms
    until = _("ended %(when)s") if over else _("until %(when)s")
    named = ", ".join(keyword.keyword for keyword in one.keywords[:5])
    more = len(one.keywords) - 5
    held = words.counted("%(n)s post", "%(n)s posts", len(one.posts))
    return FilterRow(
        visit.url(f"/settings/filters/{one.id}"),
        one.title,
        " · ".join(part for part in (f"{named} +{more}" if more > 0 else named, held if one.posts else "") if part),
        _where(visit, one),
        next(label for action, label, _hint in _actions(visit) if action == one.action),
        until % {"when": words.full(one.expires_at)} if one.expires_at else "",
        over,
    )


def _where(visit: Visit, one: Filter) -> str:
    if set(one.contexts) == set(FilterContext):
        return visit.words.text("Everywhere")
    return ", ".join(words for context, words in _contexts(visit) if context in one.contexts)


def _contexts(visit: Visit) -> list[tuple[str, str]]:
    _ = visit.words.text
    return [
        (FilterContext.HOME, _("Home and lists")),
        (FilterContext.NOTIFICATIONS, _("Notifications")),
        (FilterContext.PUBLIC, _("Explore, tags and search")),
        (FilterContext.THREAD, _("Comments")),
        (FilterContext.ACCOUNT, _("Profiles")),
    ]


def _actions(visit: Visit) -> list[tuple[str, str, str]]:
    _ = visit.words.text
    return [
        (FilterAction.WARN, _("Fold it"), _("It stands there in a line that says why, and can be opened")),
        (FilterAction.BLUR, _("Cover its pictures"), _("The text stays")),
        (FilterAction.HIDE, _("Leave it out"), _("As if it were not there")),
    ]


def _durations(visit: Visit, *, kept: bool) -> list[tuple[str, str]]:
    """Return the choices of a duration in seconds. For an existing filter (`kept`), the first keeps the current expiry."""
    _ = visit.words.text
    times = [(f"{seconds}", format_timedelta(seconds, locale=visit.words.code)) for seconds in _LASTING]
    return [*([("keep", _("As it is"))] if kept else []), ("0", _("For ever")), *times]


class HeldPost(NamedTuple):
    id: int
    """The id of the filter entry."""
    path: str
    """Empty if the member can no longer see the post."""
    words: str


async def _held_posts(visit: Visit, posts: Sequence[FilterPost]) -> list[HeldPost]:
    """Return the posts of a filter, with at most seven reads."""
    _, found = visit.words.text, []
    entries = await hydrate(visit.graph, visit.viewer_id, [one.post_id for one in posts], unasked=False)
    visible = {entry.id: post_of(visit, entry) for entry in entries}
    for one in posts:
        if (post := visible.get(one.post_id)) is None:
            found.append(HeldPost(one.id, "", _("A post that is gone")))
        else:
            excerpt = post.excerpt or _("A post without words")
            found.append(HeldPost(one.id, post.path, f"{post.author.shown}: {excerpt}"))
    return found


_EVERYWHERE = tuple(FilterContext)
_Lines = Annotated[str, Meta(max_length=(MAX_CHARACTERS + 2) * MAX_KEYWORDS_IN_ALL)]
_FORM = 1 << 19
"""Size of a form in bytes: a thousand keywords of 200 characters."""


class FilterForm(Form, frozen=True, kw_only=True):
    title: Line = ""
    words: _Lines = ""
    """Keywords and phrases, one per line, that match whole words."""
    parts: _Lines = ""
    """Keywords that also match within words."""
    contexts: Annotated[tuple[FilterContext, ...], Meta(max_length=20)] = ()
    action: FilterAction = FilterAction.WARN
    lasts: Annotated[str, Meta(max_length=20)] = "0"
    """Seconds from now; "0" never expires, "keep" keeps the current expiry."""


class ChangeForm(FilterForm, frozen=True, kw_only=True):
    id: Id


class RepeatsForm(Form, frozen=True, kw_only=True):
    folds_shares: bool = False


_EMPTY = FilterForm()


async def listed(
    visit: Visit, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT, typed: FilterForm = _EMPTY
) -> Response:
    member = visit.member
    return await settings_page(
        visit,
        "filters",
        wrong=wrong,
        saved=query.saved,
        typed=typed,
        filters=[_row(visit, one) for one in await filters_of(visit.graph, member.id)],
        lasting=_durations(visit, kept=False),
        folds_shares=member.folds_shares,
        most=MAX_CHARACTERS,
    )


async def mute(visit: Visit, asked: FilterForm) -> Response:
    """Create a filter of a single keyword in all contexts, from the short form."""
    member = visit.checked(asked)
    whole = msgspec.structs.replace(asked, title=asked.words, contexts=_EVERYWHERE)
    try:
        await filters.create(visit.writes, member.id, _change(whole))
    except InvalidInput as error:
        wrong = wrong_of(visit.words, error)
        return await listed(visit, wrong={"words": next(iter(wrong.values()))}, typed=asked)
    return saved_at(visit, "filters")


async def set_repeats(visit: Visit, asked: RepeatsForm) -> Response:
    """Save whether a post that several members shared is shown only once."""
    member = visit.checked(asked)
    await members.update_profile(visit.writes, member.id, ProfileChange(folds_shares=asked.folds_shares))
    return saved_at(visit, "filters")


async def new(visit: Visit, _params: None) -> Response:
    return await _form(visit, FilterForm(contexts=_EVERYWHERE))


async def create(visit: Visit, asked: FilterForm) -> Response:
    member = visit.checked(asked)
    try:
        await filters.create(visit.writes, member.id, _change(asked))
    except InvalidInput as error:
        return await _form(visit, asked, wrong=_named(visit, error))
    return saved_at(visit, "filters")


async def edit(visit: Visit, asked: IdPath) -> Response:
    found = await own_object(visit.graph, Filter, visit.member.id, asked.id)
    typed = FilterForm(
        title=found.title,
        words="\n".join(one.keyword for one in found.keywords if one.whole_word),
        parts="\n".join(one.keyword for one in found.keywords if not one.whole_word),
        contexts=found.contexts,
        action=found.action,
        lasts="keep" if found.expires_at else "0",
    )
    return await _form(visit, typed, found)


async def change(visit: Visit, asked: ChangeForm) -> Response:
    member = visit.checked(asked)
    found = await own_object(visit.graph, Filter, member.id, asked.id)
    try:
        await filters.update(visit.writes, member.id, found.id, _change(asked, found))
    except InvalidInput as error:
        return await _form(visit, asked, found, _named(visit, error))
    return saved_at(visit, "filters")


async def delete(visit: Visit, asked: IdForm) -> Response:
    member = visit.checked(asked)
    await filters.delete(visit.writes, member.id, asked.id)
    return saved_at(visit, "filters")


async def release(visit: Visit, asked: IdForm) -> Response:
    """Remove a post from the filter that hides it."""
    member = visit.checked(asked)
    await filters.remove_post(visit.writes, member.id, asked.id)
    return visit.back(asked, "/settings/filters")


def _change(asked: FilterForm, before: Filter | None = None) -> FilterChange:
    """Return the change to a filter. Keywords that remain keep their ids; those no longer listed are deleted."""
    wanted = dict.fromkeys(_lines(asked.words), True) | dict.fromkeys(_lines(asked.parts), False)
    held = {one.keyword: one for one in before.keywords} if before else {}
    gone = [KeywordChange(id=one.id, gone=True) for word, one in held.items() if word not in wanted]
    kept = [
        KeywordChange(id=held[word].id if word in held else 0, keyword=word, whole_word=whole)
        for word, whole in wanted.items()
    ]
    return FilterChange(
        title=asked.title,
        contexts=asked.contexts,
        action=asked.action,
        lasts=None if asked.lasts == "keep" else _seconds(asked.lasts),
        words=[*gone, *kept],
    )


def _seconds(text: str) -> int:
    """Return the seconds of a form value; -1 for no expiry."""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 10**9 else -1


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _named(visit: Visit, error: InvalidInput) -> dict[str, str]:
    """Return the errors by the names of the form's fields, which differ from the field names of the commands."""
    _, wrong = visit.words.text, wrong_of(visit.words, error)
    names = {"context": "contexts", "keyword": "words", "keywords_attributes": "words"}
    blank = {"title": _("Please give it a name."), "context": _("Please choose at least one place.")}
    blanks = isinstance(error.field, str) and str(error).endswith(("can't be blank", "context supplied"))
    return {names.get(field, field): blank.get(field, said) if blanks else said for field, said in wrong.items()}


async def _form(visit: Visit, typed: FilterForm, held: Filter | None = None, wrong: Wrong = RIGHT) -> Response:
    return await settings_page(
        visit,
        "filters",
        template="filter",
        wrong=wrong,
        typed=typed,
        id=held.id if held else 0,
        posts=await _held_posts(visit, held.posts) if held else [],
        contexts=_contexts(visit),
        actions=_actions(visit),
        lasting=_durations(visit, kept=held is not None and bool(held.expires_at)),
        most=MAX_CHARACTERS,
    )


ROUTES = (
    routing.page("/settings/filters", listed, SettingsQuery),
    routing.form("/settings/filters/mute", mute, FilterForm, max_body=_FORM),
    routing.form("/settings/filters/repeats", set_repeats, RepeatsForm),
    routing.page("/settings/filters/new", new),
    routing.form("/settings/filters/new", create, FilterForm, max_body=_FORM),
    routing.page("/settings/filters/{id}", edit, IdPath),
    routing.form("/settings/filters/{id}", change, ChangeForm, max_body=_FORM),
    routing.form("/settings/filters/{id}/delete", delete, IdForm),
    routing.form("/settings/filters/posts/{id}/release", release, IdForm),
)
