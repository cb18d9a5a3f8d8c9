"""Filters: words that the member does not want to read, where, and what becomes of a post that has one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import filters, members
from shoal.commands.filters import MAX_CHARACTERS, MAX_KEYWORDS_IN_ALL, FilterChange, KeywordChange
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput
from shoal.core.filters import Filter, FilterAction, FilterContext
from shoal.graph.payloads.members import filters_of
from shoal.http.convert import Id
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.errors.refusals import RIGHT, Wrong, wrong_of
from shoal.web.views.settings.filters import actions_of, contexts_of, held_posts, lasting_of, row_of
from shoal.web.visit import Form, Visit

_EVERYWHERE = tuple(FilterContext)
_Lines = Annotated[str, Meta(max_length=(MAX_CHARACTERS + 2) * MAX_KEYWORDS_IN_ALL)]
_FORM = 1 << 19
"""Bytes of a form: a thousand words of 200 letters."""


class FilterForm(Form, frozen=True, kw_only=True):
    """A filter as it is filled in."""

    title: Annotated[str, Meta(max_length=2_000)] = ""
    words: _Lines = ""
    """Words and phrases, one on a line, that must stand alone."""
    parts: _Lines = ""
    """Words that count inside other words as well."""
    contexts: Annotated[tuple[FilterContext, ...], Meta(max_length=20)] = ()
    action: FilterAction = FilterAction.WARN
    lasts: Annotated[str, Meta(max_length=20)] = "0"
    """Seconds from now on; 0 for ever, "keep" for as it is."""


class ChangeForm(FilterForm, frozen=True, kw_only=True):
    """A filter that is there."""

    id: Id


class OneFilter(msgspec.Struct, frozen=True):
    """A filter by its id."""

    id: Id


class FilterIdForm(Form, frozen=True, kw_only=True):
    """A filter, or a post in one, that is to go."""

    id: Id


class RepeatsForm(Form, frozen=True, kw_only=True):
    """Whether a post that several people shared stands once."""

    folds_shares: bool = False


async def listed(visit: Visit, query: SettingsQuery) -> Response:
    """All filters, and a short way to a new one."""
    return await _list(visit, FilterForm(), saved=query.saved)


async def mute(visit: Visit, asked: FilterForm) -> Response:
    """Make a filter of one word, everywhere, as the short form has it."""
    member = visit.checked(asked)
    whole = msgspec.structs.replace(asked, title=asked.words, contexts=_EVERYWHERE)
    try:
        await filters.create(visit.front.writes, member.id, _change(whole))
    except InvalidInput as error:
        wrong = wrong_of(visit.words, error)
        return await _list(visit, asked, {"words": next(iter(wrong.values()))})
    return saved_at(visit, "filters")


async def set_repeats(visit: Visit, asked: RepeatsForm) -> Response:
    """Keep whether a post that several people shared stands once."""
    member = visit.checked(asked)
    await members.update_profile(visit.front.writes, member.id, ProfileChange(folds_shares=asked.folds_shares))
    return saved_at(visit, "filters")


async def new(visit: Visit, _params: None) -> Response:
    """The form for a new filter."""
    return await _form(visit, FilterForm(contexts=_EVERYWHERE))


async def create(visit: Visit, asked: FilterForm) -> Response:
    """Make a filter."""
    member = visit.checked(asked)
    try:
        await filters.create(visit.front.writes, member.id, _change(asked))
    except InvalidInput as error:
        return await _form(visit, asked, wrong=_named(visit, error))
    return saved_at(visit, "filters")


async def edit(visit: Visit, asked: OneFilter) -> Response:
    """The form for a filter that is there."""
    found = await filters.own_filter(visit.front.graph, visit.member.id, asked.id)
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
    """Keep a filter as it was filled in."""
    member = visit.checked(asked)
    found = await filters.own_filter(visit.front.graph, member.id, asked.id)
    try:
        await filters.update(visit.front.writes, member.id, found.id, _change(asked, found))
    except InvalidInput as error:
        return await _form(visit, asked, found, _named(visit, error))
    return saved_at(visit, "filters")


async def delete(visit: Visit, asked: FilterIdForm) -> Response:
    """Delete a filter."""
    member = visit.checked(asked)
    await filters.delete(visit.front.writes, member.id, asked.id)
    return saved_at(visit, "filters")


async def release(visit: Visit, asked: FilterIdForm) -> Response:
    """Take a post out of the filter that folds it."""
    member = visit.checked(asked)
    await filters.remove_post(visit.front.writes, member.id, asked.id)
    return visit.back(asked, "/settings/filters")


def _change(asked: FilterForm, before: Filter | None = None) -> FilterChange:
    """Return the wanted values. Words that are there keep their ids; those that are no longer typed go."""
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
    """Return the seconds that a form says; -1 for ever."""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 10**9 else -1


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _named(visit: Visit, error: InvalidInput) -> dict[str, str]:
    """Return what is wrong by the names of the fields here: services call some of them otherwise."""
    _, wrong = visit.words.text, wrong_of(visit.words, error)
    names = {"context": "contexts", "keyword": "words", "keywords_attributes": "words"}
    blank = {"title": _("Please give it a name."), "context": _("Please choose at least one place.")}
    blanks = isinstance(error.field, str) and str(error).endswith(("can't be blank", "context supplied"))
    return {names.get(field, field): blank.get(field, said) if blanks else said for field, said in wrong.items()}


async def _list(visit: Visit, typed: FilterForm, wrong: Wrong = RIGHT, *, saved: bool = False) -> Response:
    member = visit.member
    found: Sequence[Filter] = await filters_of(visit.front.graph, member.id)
    return await settings_page(
        visit,
        "filters",
        wrong=wrong,
        saved=saved,
        typed=typed,
        filters=[row_of(visit, one) for one in found],
        lasting=lasting_of(visit, kept=False),
        folds_shares=member.folds_shares,
        most=MAX_CHARACTERS,
    )


async def _form(visit: Visit, typed: FilterForm, held: Filter | None = None, wrong: Wrong = RIGHT) -> Response:
    return await settings_page(
        visit,
        "filters",
        template="filter",
        wrong=wrong,
        typed=typed,
        id=held.id if held else 0,
        posts=await held_posts(visit, held.posts) if held else [],
        contexts=contexts_of(visit),
        actions=actions_of(visit),
        lasting=lasting_of(visit, kept=held is not None and bool(held.expires_at)),
        most=MAX_CHARACTERS,
    )


ROUTES = (
    rows.page("/settings/filters", listed, SettingsQuery),
    rows.form("/settings/filters/mute", mute, FilterForm, max_body=_FORM),
    rows.form("/settings/filters/repeats", set_repeats, RepeatsForm),
    rows.page("/settings/filters/new", new),
    rows.form("/settings/filters/new", create, FilterForm, max_body=_FORM),
    rows.page("/settings/filters/{id}", edit, OneFilter),
    rows.form("/settings/filters/{id}", change, ChangeForm, max_body=_FORM),
    rows.form("/settings/filters/{id}/delete", delete, FilterIdForm),
    rows.form("/settings/filters/posts/{id}/release", release, FilterIdForm),
)
