"""Wishes of the caller about their ranked feed: tags that they pick as interests, and more or less like a status."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities.ranking import Feedback, FeedbackGiven, Interest, TappedAccount, TappedTag
from shoal.api.http.convert import Id, Limit
from shoal.api.http.pages import page_size
from shoal.api.http.replies import raw
from shoal.api.listing import actor
from shoal.commands import ranking
from shoal.core.ranking.preferences import MOST_PICKED
from shoal.graph.payloads.members import tastes_of
from shoal.queries.foryou.preview import effect_of
from shoal.queries.hydration import profiles_by_id
from shoal.queries.tags import offers

_INTERESTS = "/api/shoal/v1/interests"
_FEEDBACK = "/api/shoal/v1/feedback"
_STATUS = "/api/shoal/v1/statuses/{id}/feedback"

_STEPS = {"more": 1, "less": -1}

_TagName = Annotated[str, Meta(max_length=400)]


class OffersQuery(msgspec.Struct, frozen=True):
    """How many tags to offer."""

    limit: Limit = Limit(0)


class PickedTags(msgspec.Struct, frozen=True, kw_only=True):
    """Tags to be kept as interests, with or without their `#`."""

    tags: Annotated[tuple[_TagName, ...], Meta(max_length=MOST_PICKED)]


class Tap(msgspec.Struct, frozen=True, kw_only=True):
    """A tap for more or less like a status."""

    id: Id
    direction: Literal["more", "less"]
    tag: _TagName = ""
    """One of the tags of the status; without it its author is meant."""


class Untap(msgspec.Struct, frozen=True, kw_only=True):
    """A wish about a status that is to be forgotten."""

    id: Id
    tag: _TagName = ""
    """One of the tags of the status; without it its author is meant."""


async def interests(context: Context, params: OffersQuery) -> object:
    """Tags to pick as interests, each with a picture: those picked, then those used most of late."""
    front, viewer = context.deps, actor(context)
    found = await offers(front.reads, viewer, page_size(params.limit, 40, 80))
    shown = await front.present.each(viewer, [one.example for one in found if one.example is not None])
    return [
        Interest(
            name=one.name,
            url=front.at.tag(one.name),
            uses=one.uses,
            picked=one.picked,
            status=None if one.example is None else raw(shown[one.example.id]),
        )
        for one in found
    ]


async def pick(context: Context, params: PickedTags) -> object:
    """Keep these tags as interests, in place of those before."""
    await ranking.pick_tags(context.deps.writes, actor(context), params.tags)
    return await interests(context, OffersQuery())


async def unpick(context: Context, _params: None) -> object:
    """Forget the picked interests."""
    return await pick(context, PickedTags(tags=()))


async def give(context: Context, params: Tap) -> object:
    """Ask for more or less like a status, by its author or under one of its tags; the answer says what that moves."""
    return await _given(context, params.id, _STEPS[params.direction], params.tag)


async def take_back(context: Context, params: Untap) -> object:
    """Forget what was asked for about the author of a status, or about one of its tags."""
    return await _given(context, params.id, 0, params.tag)


async def _given(context: Context, status_id: int, step: int, tag: str) -> FeedbackGiven:
    front, viewer = context.deps, actor(context)
    effect = await effect_of(front.reads, viewer, *await ranking.tap_post(front.writes, viewer, status_id, step, tag))
    return FeedbackGiven(
        account_id=str(effect.author_id) if effect.author_id else None,
        tag=effect.tag or None,
        taps=effect.taps,
        term=effect.term,
        weight=effect.weight,
        value_before=effect.before,
        value=effect.after,
        contribution_before=effect.contribution_before,
        contribution=effect.contribution,
        words=effect.words,
    )


async def given(context: Context, _params: None) -> object:
    """All that the caller has asked more or less of."""
    front, viewer = context.deps, actor(context)
    wishes = (await tastes_of(front.graph, viewer)).wishes
    profiles = await profiles_by_id(front.graph, viewer, list(wishes.authors))
    return Feedback(
        accounts=[
            TappedAccount(taps=wishes.authors[one.member.id], account=raw(front.present.account(one)))
            for one in profiles
        ],
        tags=[TappedTag(name=name, taps=taps) for name, taps in wishes.tags.items()],
    )


async def forget(context: Context, _params: None) -> object:
    """Forget all that the caller has asked more or less of."""
    await ranking.forget_taps(context.deps.writes, actor(context))
    return await given(context, None)


_read = rows.route.having(scope="read:accounts")
_write = rows.route.having(scope="write:accounts")

ROUTES = (
    _read("GET", _INTERESTS, interests, params=OffersQuery, answer=list[Interest]),
    _write("PUT", _INTERESTS, pick, params=PickedTags, answer=list[Interest]),
    _write("DELETE", _INTERESTS, unpick, answer=list[Interest]),
    _write("POST", _STATUS, give, params=Tap, answer=FeedbackGiven),
    _write("DELETE", _STATUS, take_back, params=Untap, answer=FeedbackGiven),
    _read("GET", _FEEDBACK, given, answer=Feedback),
    _write("DELETE", _FEEDBACK, forget, answer=Feedback),
)
