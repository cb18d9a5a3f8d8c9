"""The feed ranked by interest: its pages, its recipe, what the caller has seen, and why a status is not in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities.presenter import moment
from shoal.api.entities.ranking import CatchUp, RankingChoices, WhyNot, ranking_of
from shoal.api.entities.statuses import Ranking, Status
from shoal.api.http.convert import Id, Limit
from shoal.api.http.pages import WithData, listed_data, page_size
from shoal.api.http.replies import Header, Reply, raw
from shoal.api.listing import One, StatusesOf, actor, cursor_of, entries_page
from shoal.api.scheduled import Moment
from shoal.commands import ranking as ranking_commands
from shoal.commands.ranking import MOST_SEEN_AT_ONCE
from shoal.commands.scheduled_posts import moment_of_text
from shoal.core.errors import InvalidInput
from shoal.core.ranking.recipes import MOST_LINK, PRESETS, TERM_NAMES, Recipe, Weight, recipe_of, recipe_of_link
from shoal.graph.payloads.members import tastes_of
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import catch_up
from shoal.queries.foryou.feed import RankedEntry
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.hydration import Entry

_FOR_YOU = "/api/shoal/v1/timelines/for_you"
_RANKING = "/api/shoal/v1/ranking"

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


async def reset_recipe(context: Context, _params: None) -> object:
    """Rank by the weights of the server again."""
    front = context.deps
    await ranking_commands.set_recipe(front.writes, actor(context), None)
    return await ranking(context, None)


async def switch(context: Context, params: RankingSwitch) -> object:
    """Turn all ranking off for the caller, or on again."""
    front = context.deps
    await ranking_commands.switch(front.writes, actor(context), off=not params.on)
    return await ranking(context, None)


async def seen(context: Context, params: SeenStatuses) -> object:
    """Say which statuses the caller has seen: they stand lower from now on."""
    front = context.deps
    await ranking_commands.add_seen_posts(front.writes, actor(context), params.ids)
    return {}


async def why_not(context: Context, params: One) -> object:
    """The stage and the rule that keep a status out of the caller's ranked feed, or its place there."""
    front = context.deps
    found = await feed.why_not(front.reads, actor(context), params.id)
    return WhyNot(stage=found.stage, rule=found.rule, place=found.place, words=found.words)


_read = rows.route.having(scope="read:accounts", answer=RankingChoices)
_write = rows.route.having(scope="write:accounts", answer=RankingChoices)

ROUTES = (
    rows.route("GET", _FOR_YOU, for_you, scope="read:statuses", params=ForYouQuery, answer=list[Status]),
    rows.route(
        "GET",
        "/api/shoal/v1/timelines/catch_up",
        caught_up,
        scope="read:statuses",
        params=CatchUpQuery,
        answer=CatchUp,
    ),
    rows.one("GET", "/api/shoal/v1/statuses/{id}/why_not", why_not, scope="read:statuses", answer=WhyNot),
    _read("GET", _RANKING, ranking),
    _write("PUT", _RANKING, set_recipe, params=RecipeChange),
    _write("DELETE", _RANKING, reset_recipe),
    _write("PUT", f"{_RANKING}/switch", switch, params=RankingSwitch),
    rows.route("POST", "/api/shoal/v1/seen", seen, scope="write:accounts", params=SeenStatuses, answer=dict),
)
