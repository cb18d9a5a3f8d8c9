"""Recipes of the ranked feed: sliders, presets and a preview, and the page of a shared recipe."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ranking.recipes import (
    BALANCED,
    MOST_LINK,
    MOST_WEIGHT,
    NAMES,
    PRESETS,
    TERM_NAMES,
    Recipe,
    numbers_of,
    recipe_of,
    recipe_of_link,
)
from shoal.core.ranking.terms import TERMS, TITLES
from shoal.graph.payloads.members import Tastes, tastes_of
from shoal.i18n import Translated
from shoal.queries.foryou.feed import recipe_for
from shoal.queries.foryou.preview import Previewed, preview
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, told
from shoal.web.ranking import why_of
from shoal.web.rendering import page, part
from shoal.web.request_context import Form, Visit
from shoal.web.settings_layout import SettingsQuery, saved_at, settings_page
from shoal.web.view_models import PostView, post_of


class Dial(NamedTuple):
    """A number of a recipe, as a slider or a field."""

    name: str
    title: str
    hint: str
    value: str
    shown: str
    least: str
    most: str
    step: str
    usual: str
    """The weight in the balanced recipe, formatted; empty if it is equal."""
    length: float
    """Length of the bar, 0 to 100."""
    below: bool


class PresetChip(NamedTuple):
    path: str
    words: str
    here: bool


class PreviewCard(NamedTuple):
    post: PostView
    place: int
    moved: int
    """Positions moved up; negative for down."""
    words: str
    """How it moved, for screen readers."""
    reason: str


def _dials(visit: Visit, recipe: Recipe) -> list[Dial]:
    """Return the weights as sliders, in the order of the terms."""
    words, numbers, usual = visit.words, numbers_of(recipe), numbers_of(BALANCED)
    hints = _hints(words)
    return [_weight(words, name, hints[name], float(numbers[name]), float(usual[name])) for name in TERM_NAMES]


def _weight(words: Translated, name: str, hint: str, value: float, usual: float) -> Dial:
    return Dial(
        name,
        words.text(TITLES[name]),
        hint,
        f"{value:g}",
        words.decimal(value),
        f"{-MOST_WEIGHT:g}",
        f"{MOST_WEIGHT:g}",
        # Half steps, unless the value is not a multiple of 0.5: the slider would round it.
        "0.5" if (2 * value).is_integer() else "any",
        words.decimal(usual) if value != usual else "",
        round(100 * abs(value) / MOST_WEIGHT, 1),
        value < 0,
    )


def _others(visit: Visit, recipe: Recipe) -> list[str]:
    _, number = visit.words.text, visit.words.decimal
    return [
        _("A post counts half as new after %(n)s hours.") % {"n": number(recipe.half_life_hours)},
        _("It counts half as near at %(n)s km.") % {"n": number(recipe.near_km)},
        _("%(n)s %% of the places are for people whom few have met.")
        % {"n": number(round(100 * recipe.exploration, 1))},
        _("Of any ten posts at most %(n)s are by one person.") % {"n": recipe.author_most},
    ]


def _presets(visit: Visit, recipe: Recipe) -> list[PresetChip]:
    names = _preset_names(visit.words)
    return [
        PresetChip(visit.url("/settings/ranking", preset=name), names[name], one == recipe)
        for name, one in PRESETS.items()
    ]


def _card(visit: Visit, one: Previewed, place: int) -> PreviewCard:
    words = visit.words
    moved = one.before - place if one.before is not None else 0
    if moved > 0:
        text = words.counted("%(n)s place up", "%(n)s places up", moved)
    elif moved < 0:
        text = words.counted("%(n)s place down", "%(n)s places down", -moved)
    else:
        text = words.text("where it was") if one.before is not None else words.text("new")
    why = why_of(visit, one.why, one.entry)
    return PreviewCard(post_of(visit, one.entry), place, moved, text, why.first if why else "")


def _hints(words: Translated) -> dict[str, str]:
    _ = words.text
    return {
        "reactions": _("Likes and shares; each doubling counts as much again"),
        "tags": _("Tags that you like, share, use or picked"),
        "author": _("People whose posts you like or share, or whom you follow"),
        "nearby": _("Made near the place of your newest post that has one"),
        "friends": _("People you follow like it, share it, or follow its author"),
        "rising": _("Tags that are used more than usual just now"),
        "velocity": _("More reactions than its author usually gets"),
        "common": _("You and its author have the same people around you"),
        "seen": _("You saw it, or liked it already: below zero it sinks"),
        "freshness": _("Just posted; it fades with time"),
        "quality": _("Pictures with descriptions, and a sentence besides"),
    }


def _preset_names(words: Translated) -> dict[str, str]:
    _ = words.text
    return {
        "balanced": _("Balanced"),
        "friends_first": _("Friends first"),
        "fresh": _("Fresh"),
        "explore": _("Explore"),
        "nearby": _("Nearby"),
        "popular": _("Popular"),
    }


_FIRST = 10
"""Posts of the preview."""
_Number = Annotated[float, Meta(ge=-1e9, le=1e9)]
"""A number as typed; the recipe itself checks its range."""
PresetName = Literal["", "balanced", "friends_first", "fresh", "explore", "nearby", "popular"]


class Numbers(Form, frozen=True, kw_only=True):
    """Numbers of a recipe; None keeps a value."""

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
    """A recipe to show before it is saved: a preset or a link."""

    preset: PresetName = ""
    link: Annotated[str, Meta(max_length=MOST_LINK)] = ""


class RankingForm(Numbers, frozen=True, kw_only=True):
    do: Literal["save", "try", "reset"] = "save"


class SwitchForm(Form, frozen=True, kw_only=True):
    off: bool = False


async def show_settings(visit: Visit, query: RankingQuery) -> Response:
    """Show the member's recipe, or the one of a preset or link."""
    found = await tastes_of(visit.graph, visit.member.id)
    present = recipe_for(visit.reads, found)
    try:
        wanted = recipe_of_link(query.link) if query.link else present
    except InvalidInput as error:
        return await _page(visit, found, present, {"link": told(visit.words, error, "the link to a recipe")})
    return await _page(visit, found, PRESETS.get(query.preset, wanted), saved=query.saved)


async def save(visit: Visit, asked: RankingForm) -> Response:
    """Save a recipe, preview it, or reset to the network's."""
    member, writes = visit.checked(asked), visit.writes
    if asked.do == "reset":
        await ranking.set_recipe(writes, member.id, None)
        return saved_at(visit, "ranking")
    found = await tastes_of(visit.graph, member.id)
    present = recipe_for(visit.reads, found)
    try:
        recipe = _changed(present, asked)
    except InvalidInput as error:
        return await _page(visit, found, present, {"": told(visit.words, error)})
    if asked.do == "try":
        return await _page(visit, found, recipe)
    await ranking.set_recipe(writes, member.id, recipe)
    return saved_at(visit, "ranking")


async def switch(visit: Visit, asked: SwitchForm) -> Response:
    member = visit.checked(asked)
    await ranking.switch(visit.writes, member.id, off=asked.off)
    return saved_at(visit, "ranking")


async def first(visit: Visit, asked: Numbers) -> Response:
    """Return a preview of the ranking by an unsaved recipe, for a script."""
    found = await tastes_of(visit.graph, visit.member.id)
    present = recipe_for(visit.reads, found)
    recipe = _changed(present, asked)
    link, cards = visit.front.at.recipe(recipe), await _cards(visit, recipe)
    return part(visit, "preview", cards=cards, link=link, unsaved=recipe != present)


def _changed(before: Recipe, asked: Numbers) -> Recipe:
    """Return the recipe with the given numbers replaced. Raises `InvalidInput`."""
    numbers: dict[str, Any] = dict(numbers_of(before))
    numbers |= {name: value for name in NAMES if (value := getattr(asked, name)) is not None}
    weights = {name: numbers.pop(name) for name in TERM_NAMES}
    return recipe_of({**numbers, "weights": weights})


async def _cards(visit: Visit, recipe: Recipe) -> list[PreviewCard] | None:
    """Return the preview, or None while a store is unavailable."""
    try:
        found = await preview(visit.reads, visit.member.id, recipe, _FIRST)
    except Unavailable:
        return None
    return [_card(visit, one, place) for place, one in enumerate(found, 1)]


async def _page(visit: Visit, found: Tastes, recipe: Recipe, wrong: Wrong = RIGHT, *, saved: bool = False) -> Response:
    present = recipe_for(visit.reads, found)
    return await settings_page(
        visit,
        "ranking",
        wrong=wrong,
        saved=saved,
        off=found.off,
        own=found.recipe is not None,
        unsaved=recipe != present,
        recipe=recipe,
        half_life=f"{recipe.half_life_hours:g}",
        near_km=f"{recipe.near_km:g}",
        dials=_dials(visit, recipe),
        explored=visit.words.decimal(round(100 * recipe.exploration, 1)),
        presets=_presets(visit, recipe),
        formulas=[(visit.words.text(TITLES[term.name]), visit.words.text(term.unit), term.formula) for term in TERMS],
        link=visit.front.at.recipe(recipe),
        cards=[] if found.off else await _cards(visit, recipe),
    )


class TakeForm(Form, frozen=True, kw_only=True):
    link: Annotated[str, Meta(max_length=MOST_LINK)]


async def show_shared(visit: Visit, _params: None) -> Response:
    """Show a shared recipe. Its numbers are the query of the URL."""
    recipe = recipe_of_link(visit.request.scope["query_string"].decode("latin-1"))
    names = _preset_names(visit.words)
    mine = visit.viewer is not None and await _ranks_by(visit, visit.viewer.id, recipe)
    return await page(
        visit,
        "recipe",
        title=visit.words.text("A recipe for a feed"),
        dials=sorted(_dials(visit, recipe), key=lambda dial: -float(dial.value)),
        others=_others(visit, recipe),
        preset=next((names[name] for name, one in PRESETS.items() if one == recipe), ""),
        link=visit.front.at.recipe(recipe),
        mine=mine,
    )


async def take(visit: Visit, asked: TakeForm) -> Response:
    """Save the recipe as the member's own and turn ranking on."""
    member = visit.checked(asked)
    await ranking.set_recipe(visit.writes, member.id, recipe_of_link(asked.link))
    await ranking.switch(visit.writes, member.id, off=False)
    return visit.go("/for-you")


async def _ranks_by(visit: Visit, member_id: int, recipe: Recipe) -> bool:
    taste = (await tastes_of(visit.graph, member_id)).taste
    return taste is not None and not taste.off and taste.recipe == recipe


ROUTES = (
    routing.page("/settings/ranking", show_settings, RankingQuery),
    routing.form("/settings/ranking", save, RankingForm),
    routing.form("/settings/ranking/switch", switch, SwitchForm),
    routing.page("/settings/ranking/preview", first, Numbers),
    routing.page("/recipe", show_shared),
    routing.form("/recipe", take, TakeForm),
)
