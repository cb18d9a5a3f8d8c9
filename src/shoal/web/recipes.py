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
from shoal.graph.payloads.members import Personalization, personalization_of
from shoal.i18n import Translated
from shoal.queries.foryou.feed import recipe_for
from shoal.queries.foryou.preview import Previewed, preview
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, error_text
from shoal.web.ranking import why_of
from shoal.web.rendering import page, part
from shoal.web.request_context import Form, PageContext
from shoal.web.settings_layout import SettingsQuery, saved_at, settings_page
from shoal.web.view_models import PostView, post_of


class Dial(NamedTuple):
    """A number of a recipe in the form, shown as a slider or a field."""

    name: str
    title: str
    hint: str
    value: str
    shown: str
    least: str
    most: str
    step: str
    usual: str
    """The weight in the balanced recipe, as text; empty if this recipe has the same weight."""
    length: float
    """Length of the bar: 0 to 100."""
    below: bool


class PresetChip(NamedTuple):
    path: str
    words: str
    here: bool


class PreviewCard(NamedTuple):
    post: PostView
    place: int
    moved: int
    """Positions that the post moved up; negative if it moved down."""
    words: str
    reason: str


def _dials(ctx: PageContext, recipe: Recipe) -> list[Dial]:
    """Return the weights as sliders, in the order of the terms."""
    words, numbers, usual = ctx.words, numbers_of(recipe), numbers_of(BALANCED)
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
        # A slider would round a value that is not a multiple of its step, so allow any value then.
        "0.5" if (2 * value).is_integer() else "any",
        words.decimal(usual) if value != usual else "",
        round(100 * abs(value) / MOST_WEIGHT, 1),
        value < 0,
    )


def _others(ctx: PageContext, recipe: Recipe) -> list[str]:
    _, number = ctx.words.text, ctx.words.decimal
    return [
        _("Recency counts half as much after %(n)s hours.") % {"n": number(recipe.half_life_hours)},
        _("Nearness counts half as much at a distance of %(n)s km.") % {"n": number(recipe.near_km)},
        _("%(n)s %% of the feed is reserved for little-known people.")
        % {"n": number(round(100 * recipe.exploration, 1))},
        _("At most %(n)s of 10 posts are by the same person.") % {"n": recipe.author_most},
    ]


def _presets(ctx: PageContext, recipe: Recipe) -> list[PresetChip]:
    names = _preset_names(ctx.words)
    return [
        PresetChip(ctx.url("/settings/ranking", preset=name), names[name], preset == recipe)
        for name, preset in PRESETS.items()
    ]


def _card(ctx: PageContext, previewed: Previewed, position: int) -> PreviewCard:
    words = ctx.words
    moved = previewed.before - position if previewed.before is not None else 0
    if moved > 0:
        text = words.counted("%(n)s rank higher", "%(n)s ranks higher", moved)
    elif moved < 0:
        text = words.counted("%(n)s rank lower", "%(n)s ranks lower", -moved)
    else:
        text = words.text("unchanged") if previewed.before is not None else words.text("new")
    why = why_of(ctx, previewed.why, previewed.entry)
    return PreviewCard(post_of(ctx, previewed.entry), position, moved, text, why.first if why else "")


def _hints(words: Translated) -> dict[str, str]:
    _ = words.text
    return {
        "reactions": _("Likes and shares; each doubling adds the same amount"),
        "tags": _("Tags you like, share, use or picked"),
        "author": _("People you follow or whose posts you like or share"),
        "nearby": _("Posted near where you live or, if that is unknown, near your latest post with a place"),
        "country": _("Posted in the country where you live"),
        "friends": _("People you follow like it, share it or follow its author"),
        "rising": _("Tags used more than usual right now"),
        "velocity": _("More reactions than the author usually gets"),
        "common": _("You and the author follow, or are followed by, the same people"),
        "seen": _("You have already seen or liked it; a negative weight moves it down"),
        "freshness": _("Posted recently"),
        "quality": _("Descriptions of pictures, and the length of the text"),
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
_Number = Annotated[float, Meta(ge=-1e9, le=1e9)]
PresetName = Literal["", "balanced", "friends_first", "fresh", "explore", "nearby", "popular"]


class Numbers(Form, frozen=True, kw_only=True):
    """The numbers of a recipe in a form. A number that is None leaves the value unchanged."""

    reactions: _Number | None = None
    tags: _Number | None = None
    author: _Number | None = None
    nearby: _Number | None = None
    country: _Number | None = None
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
    """The recipe to show without saving it: that of a preset or of a link."""

    preset: PresetName = ""
    link: Annotated[str, Meta(max_length=MOST_LINK)] = ""


class RankingForm(Numbers, frozen=True, kw_only=True):
    do: Literal["save", "try", "reset"] = "save"


class SwitchForm(Form, frozen=True, kw_only=True):
    off: bool = False


async def show_settings(ctx: PageContext, query: RankingQuery) -> Response:
    found = await personalization_of(ctx.graph, ctx.member.id)
    present = recipe_for(ctx.reads, found)
    try:
        requested = recipe_of_link(query.link) if query.link else present
    except InvalidInput as error:
        return await _page(ctx, found, present, {"link": error_text(ctx.words, error, "the link to a recipe")})
    return await _page(ctx, found, PRESETS.get(query.preset, requested), saved=query.saved)


async def save(ctx: PageContext, asked: RankingForm) -> Response:
    member, writes = ctx.checked(asked), ctx.writes
    if asked.do == "reset":
        await ranking.set_recipe(writes, member.id, None)
        return saved_at(ctx, "ranking")
    found = await personalization_of(ctx.graph, member.id)
    present = recipe_for(ctx.reads, found)
    try:
        recipe = _changed(present, asked)
    except InvalidInput as error:
        return await _page(ctx, found, present, {"": error_text(ctx.words, error)})
    if asked.do == "try":
        return await _page(ctx, found, recipe)
    await ranking.set_recipe(writes, member.id, recipe)
    return saved_at(ctx, "ranking")


async def switch(ctx: PageContext, asked: SwitchForm) -> Response:
    member = ctx.checked(asked)
    await ranking.switch(ctx.writes, member.id, off=asked.off)
    return saved_at(ctx, "ranking")


async def first(ctx: PageContext, asked: Numbers) -> Response:
    """Return a preview of the ranked feed under the recipe in the form, for a script. Nothing is saved."""
    found = await personalization_of(ctx.graph, ctx.member.id)
    present = recipe_for(ctx.reads, found)
    recipe = _changed(present, asked)
    link, cards = ctx.app.at.recipe(recipe), await _cards(ctx, recipe)
    return part(ctx, "preview", cards=cards, link=link, unsaved=recipe != present)


def _changed(before: Recipe, asked: Numbers) -> Recipe:
    """Return the recipe with the numbers of a form. Raises `InvalidInput` for a number out of range."""
    numbers: dict[str, Any] = dict(numbers_of(before))
    numbers |= {name: value for name in NAMES if (value := getattr(asked, name)) is not None}
    weights = {name: numbers.pop(name) for name in TERM_NAMES}
    return recipe_of({**numbers, "weights": weights})


async def _cards(ctx: PageContext, recipe: Recipe) -> list[PreviewCard] | None:
    try:
        found = await preview(ctx.reads, ctx.member.id, recipe, _FIRST)
    except Unavailable:
        return None
    return [_card(ctx, previewed, position) for position, previewed in enumerate(found, 1)]


async def _page(
    ctx: PageContext, found: Personalization, recipe: Recipe, wrong: Wrong = RIGHT, *, saved: bool = False
) -> Response:
    present = recipe_for(ctx.reads, found)
    return await settings_page(
        ctx,
        "ranking",
        wrong=wrong,
        saved=saved,
        off=found.off,
        own=found.recipe is not None,
        unsaved=recipe != present,
        recipe=recipe,
        half_life=f"{recipe.half_life_hours:g}",
        near_km=f"{recipe.near_km:g}",
        dials=_dials(ctx, recipe),
        explored=ctx.words.decimal(round(100 * recipe.exploration, 1)),
        presets=_presets(ctx, recipe),
        formulas=[(ctx.words.text(TITLES[term.name]), ctx.words.text(term.unit), term.formula) for term in TERMS],
        link=ctx.app.at.recipe(recipe),
        cards=[] if found.off else await _cards(ctx, recipe),
    )


class TakeForm(Form, frozen=True, kw_only=True):
    link: Annotated[str, Meta(max_length=MOST_LINK)]


async def show_shared(ctx: PageContext, _params: None) -> Response:
    recipe = recipe_of_link(ctx.request.scope["query_string"].decode("latin-1"))
    names = _preset_names(ctx.words)
    mine = ctx.viewer is not None and await _ranks_by(ctx, ctx.viewer.id, recipe)
    return await page(
        ctx,
        "recipe",
        title=ctx.words.text("Feed recipe"),
        dials=sorted(_dials(ctx, recipe), key=lambda dial: -float(dial.value)),
        others=_others(ctx, recipe),
        preset=next((names[name] for name, preset in PRESETS.items() if preset == recipe), ""),
        link=ctx.app.at.recipe(recipe),
        mine=mine,
    )


async def take(ctx: PageContext, asked: TakeForm) -> Response:
    member = ctx.checked(asked)
    await ranking.set_recipe(ctx.writes, member.id, recipe_of_link(asked.link))
    await ranking.switch(ctx.writes, member.id, off=False)
    return ctx.go("/for-you")


async def _ranks_by(ctx: PageContext, member_id: int, recipe: Recipe) -> bool:
    feed_preferences = (await personalization_of(ctx.graph, member_id)).feed_preferences
    return feed_preferences is not None and not feed_preferences.off and feed_preferences.recipe == recipe


ROUTES = (
    routing.page("/settings/ranking", show_settings, RankingQuery),
    routing.form("/settings/ranking", save, RankingForm),
    routing.form("/settings/ranking/switch", switch, SwitchForm),
    routing.page("/settings/ranking/preview", first, Numbers),
    routing.page("/recipe", show_shared),
    routing.form("/recipe", take, TakeForm),
)
