"""Ranking: the recipe of For you, with what would stand first as it is changed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ranking.recipes import (
    MOST_LINK,
    NAMES,
    PRESETS,
    TERM_NAMES,
    Recipe,
    numbers_of,
    recipe_of,
    recipe_of_link,
)
from shoal.graph.payloads.members import Tastes, tastes_of
from shoal.queries.foryou.feed import recipe_for
from shoal.queries.foryou.preview import preview
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.rendering import part
from shoal.web.views.errors.refusals import RIGHT, Wrong, told
from shoal.web.views.settings.recipes import PreviewCard, cards_of, formulas_of, presets_of, weights_of
from shoal.web.visit import Form, Visit

_FIRST = 10
"""Posts of the preview."""
_Number = Annotated[float, Meta(ge=-1e9, le=1e9)]
"""A recipe as it was typed: its own checks say which values it takes."""
PresetName = Literal["", "balanced", "friends_first", "fresh", "explore", "nearby", "popular"]


class Numbers(Form, frozen=True, kw_only=True):
    """Numbers of a recipe; those that are not given stay as they are."""

    reactions: _Number | None = None
    tags: _Number | None = None
    author: _Number | None = None
    nearby: _Number | None = None
    friends: _Number | None = None
    rising: _Number | None = None
    velocity: _Number | None = None
    common: _Number | None = None
    seen: _Number | None = None
    freshness: _Number | None = None
    quality: _Number | None = None
    half_life_hours: _Number | None = None
    near_km: _Number | None = None
    exploration: _Number | None = None
    author_most: Annotated[int, Meta(ge=0, le=1_000)] | None = None


class RankingQuery(SettingsQuery, frozen=True, kw_only=True):
    """A recipe to look at before one takes it: a preset, or the link to one."""

    preset: PresetName = ""
    link: Annotated[str, Meta(max_length=MOST_LINK)] = ""


class RankingForm(Numbers, frozen=True, kw_only=True):
    """A recipe, to be kept or just looked at."""

    do: Literal["save", "try", "reset"] = "save"


class SwitchForm(Form, frozen=True, kw_only=True):
    """Whether anything is ranked at all."""

    off: bool = False


async def show(visit: Visit, query: RankingQuery) -> Response:
    """The recipe as it is, or another one to look at."""
    found = await tastes_of(visit.front.graph, visit.member.id)
    present = recipe_for(visit.front.reads, found)
    try:
        wanted = recipe_of_link(query.link) if query.link else present
    except InvalidInput as error:
        return await _page(visit, found, present, {"link": told(visit.words, error, "the link to a recipe")})
    return await _page(visit, found, PRESETS.get(query.preset, wanted), saved=query.saved)


async def save(visit: Visit, asked: RankingForm) -> Response:
    """Keep a recipe, look at it, or go back to that of the network."""
    member, writes = visit.checked(asked), visit.front.writes
    if asked.do == "reset":
        await ranking.set_recipe(writes, member.id, None)
        return saved_at(visit, "ranking")
    found = await tastes_of(visit.front.graph, member.id)
    present = recipe_for(visit.front.reads, found)
    try:
        recipe = _changed(present, asked)
    except InvalidInput as error:
        return await _page(visit, found, present, {"": told(visit.words, error)})
    if asked.do == "try":
        return await _page(visit, found, recipe)
    await ranking.set_recipe(writes, member.id, recipe)
    return saved_at(visit, "ranking")


async def switch(visit: Visit, asked: SwitchForm) -> Response:
    """Turn ranking off, or on again."""
    member = visit.checked(asked)
    await ranking.switch(visit.front.writes, member.id, off=asked.off)
    return saved_at(visit, "ranking")


async def first(visit: Visit, asked: Numbers) -> Response:
    """The posts that would stand first by a recipe that is not kept: for a script."""
    found = await tastes_of(visit.front.graph, visit.member.id)
    present = recipe_for(visit.front.reads, found)
    recipe = _changed(present, asked)
    link, cards = visit.front.at.recipe(recipe), await _cards(visit, recipe)
    return part(visit, "preview", cards=cards, link=link, unsaved=recipe != present)


def _changed(before: Recipe, asked: Numbers) -> Recipe:
    """Return a recipe with the numbers that are given. Raises `InvalidInput`."""
    numbers: dict[str, Any] = dict(numbers_of(before))
    numbers |= {name: value for name in NAMES if (value := getattr(asked, name)) is not None}
    weights = {name: numbers.pop(name) for name in TERM_NAMES}
    return recipe_of({**numbers, "weights": weights})


async def _cards(visit: Visit, recipe: Recipe) -> list[PreviewCard] | None:
    """Return the preview; None while a part of the network is away."""
    try:
        return cards_of(visit, await preview(visit.front.reads, visit.member.id, recipe, _FIRST))
    except Unavailable:
        return None


async def _page(visit: Visit, found: Tastes, recipe: Recipe, wrong: Wrong = RIGHT, *, saved: bool = False) -> Response:
    taste, off = found.taste, found.taste is not None and found.taste.off
    present = recipe_for(visit.front.reads, found)
    return await settings_page(
        visit,
        "ranking",
        wrong=wrong,
        saved=saved,
        off=off,
        own=taste is not None and taste.recipe is not None,
        unsaved=recipe != present,
        recipe=recipe,
        half_life=f"{recipe.half_life_hours:g}",
        near_km=f"{recipe.near_km:g}",
        dials=weights_of(visit, recipe),
        explored=visit.words.decimal(round(100 * recipe.exploration, 1)),
        presets=presets_of(visit, recipe),
        formulas=formulas_of(visit),
        link=visit.front.at.recipe(recipe),
        cards=[] if off else await _cards(visit, recipe),
    )


ROUTES = (
    rows.page("/settings/ranking", show, RankingQuery),
    rows.form("/settings/ranking", save, RankingForm),
    rows.form("/settings/ranking/switch", switch, SwitchForm),
    rows.page("/settings/ranking/preview", first, Numbers),
)
