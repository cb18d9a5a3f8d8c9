"""Recipes of ranked feeds: their numbers as sliders, the presets, and what would stand first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.core.ranking.recipes import BALANCED, MOST_WEIGHT, PRESETS, TERM_NAMES, Recipe, numbers_of
from shoal.core.ranking.terms import TERMS, TITLES
from shoal.queries.foryou.preview import Previewed
from shoal.web.views.posts import PostView, post_of
from shoal.web.views.ranking import why_of
from shoal.web.visit import Visit
from shoal.words.languages import Translated


class Dial(NamedTuple):
    """A number of a recipe, as a slider or a field."""

    name: str
    title: str
    hint: str
    value: str
    shown: str
    """The number as people write it."""
    least: str
    most: str
    step: str
    usual: str
    """The weight in the balanced recipe, as people write it; empty where it is the same."""
    length: float
    """0 to 100: how far a bar goes."""
    below: bool


class PresetChip(NamedTuple):
    """A recipe to begin with."""

    path: str
    words: str
    here: bool


class PreviewCard(NamedTuple):
    """A post as it would stand."""

    post: PostView
    place: int
    moved: int
    """Places upwards; below 0: downwards."""
    words: str
    """How it moved, for whoever does not see the arrow."""
    reason: str


def weights_of(visit: Visit, recipe: Recipe) -> list[Dial]:
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
        # A slider goes in halves, unless the number is none: it would be changed by being shown.
        "0.5" if (2 * value).is_integer() else "any",
        words.decimal(usual) if value != usual else "",
        round(100 * abs(value) / MOST_WEIGHT, 1),
        value < 0,
    )


def others_of(visit: Visit, recipe: Recipe) -> list[str]:
    """Return the other numbers of a recipe as sentences."""
    _, number = visit.words.text, visit.words.decimal
    return [
        _("A post counts half as new after %(n)s hours.") % {"n": number(recipe.half_life_hours)},
        _("It counts half as near at %(n)s km.") % {"n": number(recipe.near_km)},
        _("%(n)s %% of the places are for people whom few have met.")
        % {"n": number(round(100 * recipe.exploration, 1))},
        _("Of any ten posts at most %(n)s are by one person.") % {"n": recipe.author_most},
    ]


def presets_of(visit: Visit, recipe: Recipe) -> list[PresetChip]:
    """Return the presets, and which of them the recipe is."""
    names = _preset_names(visit.words)
    return [
        PresetChip(visit.url("/settings/ranking", preset=name), names[name], one == recipe)
        for name, one in PRESETS.items()
    ]


def preset_name(visit: Visit, recipe: Recipe) -> str:
    """Return the name of the preset that a recipe is; empty for none."""
    names = _preset_names(visit.words)
    return next((names[name] for name, one in PRESETS.items() if one == recipe), "")


def formulas_of(visit: Visit) -> list[tuple[str, str, str]]:
    """Return of each term its title, what a value of 1 means, and its formula."""
    return [(visit.words.text(TITLES[term.name]), visit.words.text(term.unit), term.formula) for term in TERMS]


def cards_of(visit: Visit, found: Sequence[Previewed]) -> list[PreviewCard]:
    """Return the first posts by a recipe, each with how it moved."""
    return [_card(visit, one, place) for place, one in enumerate(found, 1)]


def _card(visit: Visit, one: Previewed, place: int) -> PreviewCard:
    words = visit.words
    moved = one.before - place if one.before is not None else 0
    if moved > 0:
        said = words.plural("%(n)s place up", "%(n)s places up", moved)
    elif moved < 0:
        said = words.plural("%(n)s place down", "%(n)s places down", -moved)
    else:
        said = words.text("where it was") if one.before is not None else words.text("new")
    why = why_of(visit, one.why, one.entry)
    return PreviewCard(
        post_of(visit, one.entry), place, moved, said % {"n": words.number(abs(moved))}, why.first if why else ""
    )


def _hints(words: Translated) -> dict[str, str]:
    """Return what each term looks for, in a few words."""
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
