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
from shoal.graph.payloads.members import personalization_of
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
    """The recipe by which statuses are ranked for a member."""

    recipe: Recipe
    own: bool
    """Whether the recipe is the member's own. If not, it is the server's."""
    link: str
    """A link to the recipe, with which other members can view and adopt the recipe."""
    on: bool
    """Whether ranking is enabled for the member."""
    presets: dict[str, Recipe]


class CatchUp(msgspec.Struct, kw_only=True):
    """The best posts and shares of a member's followees during the member's absence."""

    since: str
    """The beginning of the member's absence."""
    until: str
    quiet: list[Status]
    """Statuses by followees who post rarely, best first."""
    best: list[Status]
    left_out: int
    """The number of statuses in the period that this response leaves out. The home timeline shows them."""
    words: str
    """A text for the end of the list."""
    by_time: bool
    """Whether the newest statuses are returned instead of the best, because the member has disabled ranking."""


class Interest(msgspec.Struct, kw_only=True):
    """A tag that the member has picked or may pick as an interest."""

    name: str
    url: str
    uses: int
    picked: bool
    status: Status | None
    """A recent public status with the tag and an image; null if there is none."""


class FeedbackGiven(msgspec.Struct, kw_only=True):
    """How feedback ("more like this", "less like this") changed the value and the contribution of one ranking term."""

    account_id: str | None
    """The author that the feedback is about; null if it is about a tag."""
    tag: str | None
    taps: int
    """The number of times "more like this" minus the number of times "less like this": -5 to 5."""
    term: str
    weight: float
    value_before: float
    value: float
    contribution_before: float
    contribution: float
    words: str


class TappedAccount(msgspec.Struct, kw_only=True):
    """An account that the member gave feedback about."""

    taps: int
    account: Account


class TappedTag(msgspec.Struct, kw_only=True):
    """A tag that the member gave feedback about."""

    name: str
    taps: int


class Feedback(msgspec.Struct, kw_only=True):
    """All feedback of a member, most recent last."""

    accounts: list[TappedAccount]
    tags: list[TappedTag]


class WhyNot(msgspec.Struct, kw_only=True):
    """The position of a status in a member's ranked feed, or the rule that excludes it."""

    stage: str
    """The stage of the ranking at which the status was excluded:

    `sources`, `filter` or `score`. For a status in the feed: `shown`.
    """
    rule: str
    place: int | None
    """The position of a status in the feed, from 1."""
    words: str


def ranking_of(why: Why, entry: Entry) -> Ranking:
    """Return the explanation of a post's rank. Terms that contribute nothing are left out."""
    facts = why.facts(entry, "en")
    return Ranking(
        score=why.score,
        sources=[source.key for source in why.sources],
        terms=[
            RankingTerm(
                term.name,
                term.value,
                term.weight,
                term.contribution,
                words_of(term.name, term.value, facts),
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
    limit: Limit = Limit(0)
    cursor: Annotated[str, Meta(max_length=64)] = ""
    """The cursor from the `Link` header of the previous page."""
    explain: bool = False
    """Explain the rank of each status. If it is set for the first page, it also applies to the following pages."""


class CatchUpQuery(WithData, frozen=True, kw_only=True):
    since: Moment = ""
    """The start of the period, at most 30 days ago; by default the marker of the caller's home timeline."""
    limit: Limit = Limit(0)
    explain: bool = False


class RecipeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A recipe to set: a preset with changes, or only the link to a recipe."""

    link: Annotated[str, Meta(max_length=MOST_LINK)] = ""
    """The link to a recipe on any server, or only its query string."""
    preset: PresetName = "balanced"
    weights: Annotated[dict[_TermName, Weight], Meta(max_length=len(TERM_NAMES))] | None = None
    """Weights by term, -10 to 10; omitted terms keep the weight of the preset."""
    half_life_hours: Annotated[float, Meta(ge=1.0, le=720.0)] | None = None
    near_km: Annotated[float, Meta(ge=1.0, le=20_000.0)] | None = None
    exploration: Annotated[float, Meta(ge=0.0, le=0.5)] | None = None
    author_most: Annotated[int, Meta(ge=1, le=10)] | None = None


class RankingSwitch(msgspec.Struct, frozen=True, kw_only=True):
    on: bool


class SeenStatuses(msgspec.Struct, frozen=True, kw_only=True):
    ids: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MOST_SEEN_AT_ONCE)]


def _explained(entries: Sequence[RankedEntry]) -> list[tuple[Entry, Ranking | None]]:
    return [(entry, ranking_of(why, entry) if why is not None and why.terms else None) for entry, why in entries]


@router.get("/api/shoal/v1/timelines/for_you", scope="read:statuses", answer=list[Status])
async def for_you(context: Context, params: ForYouQuery) -> object:
    """List the statuses most likely to interest the caller, best first. If ranking fails, the newest statuses are first."""
    limit = page_size(params.limit)
    cursor = decode_cursor(params.cursor) if params.cursor else None
    page = await feed.page(context.app.reads, actor(context), limit, cursor, explain=params.explain)
    body = await context.app.present.ranked_page(
        actor(context), _explained(page.entries), listed_data(with_data=params.with_data)
    )
    headers = [_feed_header(page.by_time)]
    if page.next:
        query = {"limit": limit, "cursor": page.next} | ({"with_data": "true"} if params.with_data else {})
        headers.append(("Link", f'<{context.app.at.root}{_FOR_YOU}?{urlencode(query)}>; rel="next"'))
    return Reply(body, headers=tuple(headers))


def _feed_header(by_time: str) -> Header:
    return "Shoal-Feed", f"home; reason={by_time}" if by_time else "for_you"


async def as_list(context: Context, params: StatusesOf) -> Reply:
    """Return a page of the ranked feed, for clients that read the feed as the timeline of the list "For you"."""
    cursor = cursor_of(params)
    page, by_time = await feed.list_page(context.app.reads, actor(context), cursor)
    reply = await entries_page(context, page, cursor, with_data=params.with_data)
    return replace(reply, headers=(*reply.headers, _feed_header(by_time)))


@router.get("/api/shoal/v1/timelines/catch_up", scope="read:statuses", answer=CatchUp)
async def get_catch_up(context: Context, params: CatchUpQuery) -> object:
    """Return the best posts and shares of the caller's followees since the caller's last visit."""
    app_context, viewer = context.app, actor(context)
    since = moment_of_text(params.since) if params.since else None
    if params.since and since is None:
        raise InvalidInput("since: expected an ISO 8601 date and time", field="since")
    found = await catch_up(app_context.reads, viewer, since, page_size(params.limit), explain=params.explain)
    data = listed_data(with_data=params.with_data)
    quiet, best = [
        await app_context.present.ranked_page(viewer, _explained(part), data) for part in (found.quiet, found.best)
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
async def get_ranking(context: Context, _params: None) -> object:
    """Show the recipe by which statuses are ranked for the caller, and the presets."""
    found = await personalization_of(context.app.graph, actor(context))
    recipe = feed.recipe_for(context.app.reads, found)
    return RankingChoices(
        recipe=recipe,
        link=context.app.at.recipe(recipe),
        own=found.recipe is not None,
        on=not found.off,
        presets=dict(PRESETS),
    )


@router.put("/api/shoal/v1/ranking", scope="write:accounts", answer=RankingChoices)
async def set_recipe(context: Context, params: RecipeChange) -> object:
    """Set the caller's ranking recipe."""
    await ranking_commands.set_recipe(context.app.writes, actor(context), _recipe(params))
    return await get_ranking(context, None)


def _recipe(params: RecipeChange) -> Recipe:
    if params.link:
        if params != RecipeChange(link=params.link):
            raise InvalidInput("link: cannot be combined with other parameters", field="link")
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
    """Reset the caller's ranking recipe to that of the server."""
    await ranking_commands.set_recipe(context.app.writes, actor(context), None)
    return await get_ranking(context, None)


@router.put("/api/shoal/v1/ranking/switch", scope="write:accounts", answer=RankingChoices)
async def switch_ranking(context: Context, params: RankingSwitch) -> object:
    """Enable or disable ranking for the caller."""
    await ranking_commands.switch(context.app.writes, actor(context), off=not params.on)
    return await get_ranking(context, None)


@router.post("/api/shoal/v1/seen", scope="write:accounts", answer=dict)
async def report_seen(context: Context, params: SeenStatuses) -> None:
    """Report statuses that the caller has seen, which lowers their rank."""
    await ranking_commands.add_seen_posts(context.app.writes, actor(context), params.ids)


@router.get("/api/shoal/v1/statuses/{id}/why_not", scope="read:statuses", answer=WhyNot)
async def why_not(context: Context, params: One) -> object:
    """Return the position of a status in the caller's ranked feed, or the stage and rule that exclude it."""
    found = await feed.why_not(context.app.reads, actor(context), params.id)
    return WhyNot(stage=found.stage, rule=found.rule, place=found.place, words=found.words)


_STEPS = {"more": 1, "less": -1}

_TagName = Annotated[str, Meta(max_length=400)]


class OffersQuery(msgspec.Struct, frozen=True):
    limit: Limit = Limit(0)


class PickedTags(msgspec.Struct, frozen=True, kw_only=True):
    """Tags to set as interests, with or without their `#`."""

    tags: Annotated[tuple[_TagName, ...], Meta(max_length=MOST_PICKED)]


class Tap(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    direction: Literal["more", "less"]
    tag: _TagName = ""
    """One of the tags of the status. Without a tag, the feedback is about the author."""


class Untap(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    tag: _TagName = ""
    """One of the tags of the status. Without a tag, the feedback is about the author."""


@router.get("/api/shoal/v1/interests", scope="read:accounts", answer=list[Interest])
async def list_interests(context: Context, params: OffersQuery) -> object:
    """List tags that the caller can pick as interests, each with an image: first the picked tags, then recently popular tags."""
    app_context, viewer = context.app, actor(context)
    found = await offers(app_context.reads, viewer, page_size(params.limit, 40, 80))
    shown = await app_context.present.each(
        viewer, [interest.example for interest in found if interest.example is not None]
    )
    return [
        Interest(
            name=interest.name,
            url=app_context.at.tag(interest.name),
            uses=interest.uses,
            picked=interest.picked,
            status=None if interest.example is None else raw(shown[interest.example.id]),
        )
        for interest in found
    ]


@router.put("/api/shoal/v1/interests", scope="write:accounts", answer=list[Interest])
async def set_interests(context: Context, params: PickedTags) -> object:
    """Replace the caller's interests with these tags."""
    await ranking_commands.pick_tags(context.app.writes, actor(context), params.tags)
    return await list_interests(context, OffersQuery())


@router.delete("/api/shoal/v1/interests", scope="write:accounts", answer=list[Interest])
async def delete_interests(context: Context, _params: None) -> object:
    """Delete the caller's interests."""
    return await set_interests(context, PickedTags(tags=()))


@router.post("/api/shoal/v1/statuses/{id}/feedback", scope="write:accounts", answer=FeedbackGiven)
async def give_feedback(context: Context, params: Tap) -> object:
    """Request more or fewer posts by the author of a status or with one of its tags, and return the effect."""
    return await _given(context, params.id, _STEPS[params.direction], params.tag)


@router.delete("/api/shoal/v1/statuses/{id}/feedback", scope="write:accounts", answer=FeedbackGiven)
async def withdraw_feedback(context: Context, params: Untap) -> object:
    """Withdraw feedback about the author of a status or one of its tags."""
    return await _given(context, params.id, 0, params.tag)


async def _given(context: Context, status_id: int, step: int, tag: str) -> FeedbackGiven:
    app_context, viewer = context.app, actor(context)
    effect = await effect_of(
        app_context.reads, viewer, *await ranking_commands.tap_post(app_context.writes, viewer, status_id, step, tag)
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
async def list_feedback(context: Context, _params: None) -> object:
    """List all feedback that the caller has given."""
    app_context, viewer = context.app, actor(context)
    feedback = (await personalization_of(app_context.graph, viewer)).feedback
    profiles = await profiles_by_id(app_context.graph, viewer, list(feedback.authors))
    return Feedback(
        accounts=[
            TappedAccount(taps=feedback.authors[profile.member.id], account=raw(app_context.present.account(profile)))
            for profile in profiles
        ],
        tags=[TappedTag(name=name, taps=taps) for name, taps in feedback.tags.items()],
    )


@router.delete("/api/shoal/v1/feedback", scope="write:accounts", answer=Feedback)
async def delete_feedback(context: Context, _params: None) -> object:
    """Delete all feedback that the caller has given."""
    await ranking_commands.forget_taps(context.app.writes, actor(context))
    return await list_feedback(context, None)
