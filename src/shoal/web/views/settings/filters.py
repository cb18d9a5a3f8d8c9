"""Filters: what a member does not want to read, as pages show and change them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from babel.dates import format_timedelta

from shoal.core.filters import Filter, FilterAction, FilterContext, FilterPost
from shoal.queries.hydration import hydrate
from shoal.web.views.posts import PostView, post_of
from shoal.web.visit import Visit

_LASTING = (1_800, 3_600, 21_600, 86_400, 604_800, 2_592_000)


class FilterRow(NamedTuple):
    """A filter in the list."""

    path: str
    title: str
    words: str
    """The first of its words."""
    where: str
    what: str
    until: str
    """Empty for one that never ends."""
    over: bool


class FilterChoice(NamedTuple):
    """Something to choose in a form."""

    key: str
    words: str
    hint: str = ""


def row_of(visit: Visit, one: Filter) -> FilterRow:
    """Return a filter as the list shows it."""
    _, words = visit.words.text, visit.words
    over = bool(one.expires_at) and one.expires_at <= visit.now_ms
    until = _("ended %(when)s") if over else _("until %(when)s")
    named = ", ".join(keyword.keyword for keyword in one.keywords[:5])
    more = len(one.keywords) - 5
    held = words.plural("%(n)s post", "%(n)s posts", len(one.posts)) % {"n": words.number(len(one.posts))}
    return FilterRow(
        visit.url(f"/settings/filters/{one.id}"),
        one.title,
        " · ".join(part for part in (f"{named} +{more}" if more > 0 else named, held if one.posts else "") if part),
        _where(visit, one),
        next(choice.words for choice in actions_of(visit) if choice.key == one.action),
        until % {"when": words.full(one.expires_at)} if one.expires_at else "",
        over,
    )


def _where(visit: Visit, one: Filter) -> str:
    if set(one.contexts) == set(FilterContext):
        return visit.words.text("Everywhere")
    return ", ".join(words for context, words in contexts_of(visit) if context in one.contexts)


def contexts_of(visit: Visit) -> list[tuple[str, str]]:
    """Return where a filter can apply, with words for it."""
    _ = visit.words.text
    return [
        (FilterContext.HOME, _("Home and lists")),
        (FilterContext.NOTIFICATIONS, _("Notifications")),
        (FilterContext.PUBLIC, _("Explore, tags and search")),
        (FilterContext.THREAD, _("Comments")),
        (FilterContext.ACCOUNT, _("Profiles")),
    ]


def actions_of(visit: Visit) -> list[FilterChoice]:
    """Return what a filter can do to a post."""
    _ = visit.words.text
    return [
        FilterChoice(FilterAction.WARN, _("Fold it"), _("It stands there in a line that says why, and can be opened")),
        FilterChoice(FilterAction.BLUR, _("Cover its pictures"), _("The text stays")),
        FilterChoice(FilterAction.HIDE, _("Leave it out"), _("As if it were not there")),
    ]


def lasting_of(visit: Visit, *, kept: bool) -> list[tuple[str, str]]:
    """Return for how long a filter may hold, in seconds; for one that is there, also as it is."""
    _ = visit.words.text
    times = [(f"{seconds}", format_timedelta(seconds, locale=visit.words.code)) for seconds in _LASTING]
    return [*([("keep", _("As it is"))] if kept else []), ("0", _("For ever")), *times]


class HeldPost(NamedTuple):
    """A post in a filter."""

    id: int
    """Its id there."""
    path: str
    """Empty where the member may not see it any more."""
    words: str


async def held_posts(visit: Visit, posts: Sequence[FilterPost]) -> list[HeldPost]:
    """Return the posts in a filter; at most seven reads."""
    found = await hydrate(visit.front.graph, visit.viewer_id, [one.post_id for one in posts], unasked=False)
    shown = {entry.id: post_of(visit, entry) for entry in found}
    return [_held(visit, one, shown.get(one.post_id)) for one in posts]


def _held(visit: Visit, one: FilterPost, post: PostView | None) -> HeldPost:
    if post is None:
        return HeldPost(one.id, "", visit.words.text("A post that is gone"))
    said = post.excerpt or visit.words.text("A post without words")
    return HeldPost(one.id, post.path, f"{post.author.shown}: {said}")
