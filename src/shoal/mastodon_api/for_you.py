"""The ranked feed: pages, ranking recipes, explanations, seen statuses, and the caller's feedback and interests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from shoal.commands import ranking as ranking_commands
from shoal.commands.ranking import MOST_SEEN_AT_ONCE
from shoal.commands.scheduled_posts import moment_of_text
from shoal.core.errors import InvalidInput
from shoal.core.ranking.preferences import MOST_PICKED
from shoal.core.ranking.recipes import MOST_LINK, PRESETS, TERM_NAMES, Recipe, Weight, recipe_of, recipe_of_link
from shoal.core.ranking.terms import words_of
from shoal.graph.payloads.members import tastes_of
from shoal.http.pagination import WithData, listed_data, page_size
from shoal.http.params import Id, Limit
from shoal.http.responses import Header, Reply, raw
from shoal.mastodon_api.context import Context, One, Router, StatusesOf, actor, cursor_of, entries_page
from shoal.mastodon_api.entities.serializers import moment
from shoal.mastodon_api.entities.statuses import Account, Ranking, RankingTerm, Status
from shoal.mastodon_api.scheduled_statuses import Moment
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import catch_up
from shoal.queries.foryou.feed import RankedEntry
from shoal.queries.foryou.preview import effect_of
from shoal.queries.foryou.ranking import Why, decode_cursor
from shoal.queries.hydration import Entry, profiles_by_id
from shoal.queries.tags import offers

router = Router()


class RankingChoices(msgspec.Struct, kw_only=True):
    """By which weights statuses are ranked for a member."""

    recipe: Recipe
    own: bool
    """Whether the recipe is the member's own; otherwise it is that of the server."""
    link: str
    """The recipe as a link, for others to look at and to rank by."""
    on: bool
    """Whether anything is ranked for them."""
    presets: dict[str, Recipe]


class CatchUp(msgspec.Struct, kw_only=True):
    """The best of what the followees of a member posted and shared while the member was away."""

    since: str
    """When they were last here."""
    until: str
    quiet: list[Status]
    """By those who post rarely, the best first."""
    best: list[Status]
    left_out: int
    """Further statuses of that time, which the home timeline has."""
    words: str
    """Words for the end of the page."""
    by_time: bool
    """Whether the newest are here in place of the best, as ranking is off for the member."""


class Interest(msgspec.Struct, kw_only=True):
    """A tag that the member may pick as an interest, or has picked."""

    name: str
    url: str
    uses: int
    picked: bool
    status: Status | None
    """A recent one under it with a picture that everybody may see."""


class FeedbackGiven(msgspec.Struct, kw_only=True):
    """A tap for more or less that was counted: the value of a term of the status before and after it, and its part in the score."""

    account_id: str | None
    """The author whose statuses are meant; null where a tag is."""
    tag: str | None
    taps: int
    """All taps for more, less those for less: -5 to 5."""
    term: str
    weight: float
    value_before: float
    value: float
    contribution_before: float
    contribution: float
    words: str


class TappedAccount(msgspec.Struct, kw_only=True):
    """An account that the member has asked more or less of."""

    taps: int
    account: Account


class TappedTag(msgspec.Struct, kw_only=True):
    """A tag that the member has asked more or less of."""

    name: str
    taps: int


class Feedback(msgspec.Struct, kw_only=True):
    """All that a member has asked more or less of; what was tapped last is at the end."""

    accounts: list[TappedAccount]
    tags: list[TappedTag]


class WhyNot(msgspec.Struct, kw_only=True):
    """Where a status is in a member's ranked feed."""

    stage: str
    """`sources`, `filter`, `score`, or `shown` for a status that is in the feed."""
    rule: str
    place: int | None
    """From 1 on, for a status that is in the feed."""
    words: str


def ranking_of(why: Why, reactions: int) -> Ranking:
    """Return the reasons for the rank of a post with this many likes and shares, without terms that add nothing."""
    return Ranking(
        score=why.score,
        sources=[source.key for source in why.sources],
        terms=[
            RankingTerm(
                term.name,
                term.value,
                term.weight,
                term.contribution,
                words_of(term.name, term.value, why.recipe, reactions),
            )
            for term in why.terms
        ],
        places_lost=why.lost,
        lost_to=why.rule,
    )


_FOR_YOU = "/api/shoal/v1/timelines/for_you"

_TermName = Annotated[str, Meta(max_length=32)]
PresetName = Literal["balanced", "friends_first", "fresh", "explore", "nearby", "popular"]


class ForYouQuery(WithData, frozen=True, kw_only=True):
    """A page of the ranked feed."""

    limit: Limit = Limit(0)
    cursor: Annotated[str, Meta(max_length=64)] = ""
    """As in the `Link` header of the page before."""
    explain: bool = False
    """Say of each status why it stands there: on the first page, for the pages after it too."""


class CatchUpQuery(WithData, frozen=True, kw_only=True):
    """A page of catching up."""

    since: Moment = ""
    """At most 30 days ago; without it the newest status that the caller has read at home, as their marker says."""
    limit: Limit = Limit(0)
    explain: bool = False


class RecipeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe: a preset, with what is given besides in place of its own; or a link, and nothing besides."""

    link: Annotated[str, Meta(max_length=MOST_LINK)] = ""
    """The link to a recipe, of this server or another, or its query alone."""
    preset: PresetName = "balanced"
    weights: Annotated[dict[_TermName, Weight], Meta(max_length=len(TERM_NAMES))] | None = None
    """By term, -10 to 10; terms that are left out keep the weight of the preset."""
    half_life_hours: Annotated[float, Meta(ge=1.0, le=720.0)] | None = None
    near_km: Annotated[float, Meta(ge=1.0, le=20_000.0)] | None = None
    exploration: Annotated[float, Meta(ge=0.0, le=0.5)] | None = None
    author_most: Annotated[int, Meta(ge=1, le=10)] | None = None


class RankingSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """Whether anything is ranked for the caller."""

    on: bool


class SeenStatuses(msgspec.Struct, frozen=True, kw_only=True):
    """Statuses that were on the screen."""

    ids: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MOST_SEEN_AT_ONCE)]


def _explained(entries: Sequence[RankedEntry]) -> list[tuple[Entry, Ranking | None]]:
    return [
        (entry, ranking_of(why, entry.reactions) if why is not None and why.terms else None) for entry, why in entries
    ]


@router.get("/api/shoal/v1/timelines/for_you", scope="read:statuses", answer=list[Status])
async def for_you(context: Context, params: ForYouQuery) -> object:
    """The statuses that should interest the caller most, best first; by time where they could not be ranked."""
    front = context.deps
    limit = page_size(params.limit)
    cursor = decode_cursor(params.cursor) if params.cursor else None
    page = await feed.page(front.reads, actor(context), limit, cursor, explain=params.explain)
    body = await front.present.ranked_page(
        actor(context), _explained(page.entries), listed_data(wanted=params.with_data)
    )
    headers = [_feed_header(page.by_time)]
    if page.next:
        query = {"limit": limit, "cursor": page.next} | ({"with_data": "true"} if params.with_data else {})
        headers.append(("Link", f'<{front.at.root}{_FOR_YOU}?{urlencode(query)}>; rel="next"'))
    return Reply(body, headers=tuple(headers))


def _feed_header(by_time: str) -> Header:
    return "Shoal-Feed", f"home; reason={by_time}" if by_time else "for_you"


async def as_list(context: Context, params: StatusesOf) -> Reply:
    """Return a page of the ranked feed for a client that takes it for the timeline of a list."""
    cursor = cursor_of(params)
    page, by_time = await feed.list_page(context.deps.reads, actor(context), cursor)
    reply = await entries_page(context, page, cursor, data=listed_data(wanted=params.with_data))
    return replace(reply, headers=(*reply.headers, _feed_header(by_time)))


@router.get("/api/shoal/v1/timelines/catch_up", scope="read:statuses", answer=CatchUp)
async def caught_up(context: Context, params: CatchUpQuery) -> object:
    """The best of what the caller's followees posted and shared since the caller was last here, with an end."""
    front, viewer = context.deps, actor(context)
    since = moment_of_text(params.since) if params.since else None
    if params.since and since is None:
        raise InvalidInput("since: a date and time as in ISO 8601", field="since")
    found = await catch_up(front.reads, viewer, since, page_size(params.limit), explain=params.explain)
    data = listed_data(wanted=params.with_data)
    quiet, best = [
        await front.present.ranked_page(viewer, _explained(part), data) for part in (found.quiet, found.best)
    ]
    return CatchUp(
        since=moment(found.since),
        until=moment(found.until),
        quiet=raw(quiet),
        best=raw(best),
        left_out=found.left_out,
        words=found.words,
        by_time=found.by_time,
    )


@router.get("/api/shoal/v1/ranking", scope="read:accounts", answer=RankingChoices)
async def ranking(context: Context, _params: None) -> object:
    """By which weights statuses are ranked for the caller, and which presets there are."""
    front = context.deps
    found = await tastes_of(front.graph, actor(context))
    taste, recipe = found.taste, feed.recipe_for(front.reads, found)
    return RankingChoices(
        recipe=recipe,
        link=front.at.recipe(recipe),
        own=taste is not None and taste.recipe is not None,
        on=taste is None or not taste.off,
        presets=dict(PRESETS),
    )


@router.put("/api/shoal/v1/ranking", scope="write:accounts", answer=RankingChoices)
async def set_recipe(context: Context, params: RecipeChange) -> object:
    """Rank by other weights."""
    await ranking_commands.set_recipe(context.deps.writes, actor(context), _recipe(params))
    return await ranking(context, None)


def _recipe(params: RecipeChange) -> Recipe:
    if params.link:
        if params != RecipeChange(link=params.link):
            raise InvalidInput("link: a whole recipe, so that nothing can be given besides", field="link")
        return recipe_of_link(params.link)
    given = {
        "half_life_hours": params.half_life_hours,
        "near_km": params.near_km,
        "exploration": params.exploration,
        "author_most": params.author_most,
    }
    weights, preset = params.weights or {}, msgspec.to_builtins(PRESETS[params.preset])
    changed = {name: value for name, value in given.items() if value is not None}
    return recipe_of(preset | changed | {"weights": preset["weights"] | weights})


@router.delete("/api/shoal/v1/ranking", scope="write:accounts", answer=RankingChoices)
async def reset_recipe(context: Context, _params: None) -> object:
    """Rank by the weights of the server again."""
    await ranking_commands.set_recipe(context.deps.writes, actor(context), None)
    return await ranking(context, None)


@router.put("/api/shoal/v1/ranking/switch", scope="write:accounts", answer=RankingChoices)
async def switch(context: Context, params: RankingSwitch) -> object:
    """Turn all ranking off for the caller, or on again."""
    await ranking_commands.switch(context.deps.writes, actor(context), off=not params.on)
    return await ranking(context, None)


@router.post("/api/shoal/v1/seen", scope="write:accounts", answer=dict)
async def seen(context: Context, params: SeenStatuses) -> object:
    """Say which statuses the caller has seen: they stand lower from now on."""
    await ranking_commands.add_seen_posts(context.deps.writes, actor(context), params.ids)
    return {}


@router.get("/api/shoal/v1/statuses/{id}/why_not", scope="read:statuses", answer=WhyNot)
async def why_not(context: Context, params: One) -> object:
    """The stage and the rule that keep a status out of the caller's ranked feed, or its place there."""
    found = await feed.why_not(context.deps.reads, actor(context), params.id)
    return WhyNot(stage=found.stage, rule=found.rule, place=found.place, words=found.words)


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


@router.get("/api/shoal/v1/interests", scope="read:accounts", answer=list[Interest])
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


@router.put("/api/shoal/v1/interests", scope="write:accounts", answer=list[Interest])
async def pick(context: Context, params: PickedTags) -> object:
    """Keep these tags as interests, in place of those before."""
    await ranking_commands.pick_tags(context.deps.writes, actor(context), params.tags)
    return await interests(context, OffersQuery())


@router.delete("/api/shoal/v1/interests", scope="write:accounts", answer=list[Interest])
async def unpick(context: Context, _params: None) -> object:
    """Forget the picked interests."""
    return await pick(context, PickedTags(tags=()))


@router.post("/api/shoal/v1/statuses/{id}/feedback", scope="write:accounts", answer=FeedbackGiven)
async def give(context: Context, params: Tap) -> object:
    """Ask for more or less like a status, by its author or under one of its tags; the answer says what that moves."""
    return await _given(context, params.id, _STEPS[params.direction], params.tag)


@router.delete("/api/shoal/v1/statuses/{id}/feedback", scope="write:accounts", answer=FeedbackGiven)
async def take_back(context: Context, params: Untap) -> object:
    """Forget what was asked for about the author of a status, or about one of its tags."""
    return await _given(context, params.id, 0, params.tag)


async def _given(context: Context, status_id: int, step: int, tag: str) -> FeedbackGiven:
    front, viewer = context.deps, actor(context)
    effect = await effect_of(
        front.reads, viewer, *await ranking_commands.tap_post(front.writes, viewer, status_id, step, tag)
    )
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


@router.get("/api/shoal/v1/feedback", scope="read:accounts", answer=Feedback)
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


@router.delete("/api/shoal/v1/feedback", scope="write:accounts", answer=Feedback)
async def forget(context: Context, _params: None) -> object:
    """Forget all that the caller has asked more or less of."""
    await ranking_commands.forget_taps(context.deps.writes, actor(context))
    return await given(context, None)
