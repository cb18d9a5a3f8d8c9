"""The page of a recipe that somebody shared: what it looks for, and how to rank by it."""

from __future__ import annotations

from html import escape

from shoal.api.entities.addresses import Addresses
from shoal.core.ranking.recipe_links import numbers_of, recipe_of_link
from shoal.core.ranking.recipes import BALANCED, MOST_WEIGHT, PRESETS, TERM_NAMES, Recipe
from shoal.core.ranking.words import TITLES

_MINUS = "\N{MINUS SIGN}"


def body(query: str, at: Addresses) -> str:
    """Return the HTML of the page for the query of a link. Raises `InvalidInput` for one that is no recipe."""
    recipe = recipe_of_link(query)
    numbers, usual = numbers_of(recipe), numbers_of(BALANCED)
    rows = "".join(
        _row(name, numbers[name], usual[name]) for name in sorted(TERM_NAMES, key=lambda name: -numbers[name])
    )
    return (
        f'<header class="plain"><h1>A recipe for a feed</h1><p>{_first_words(recipe)}</p></header>'
        f'<article class="whole"><table class="recipe"><caption>How much each reason counts</caption>{rows}</table>'
        f"<ul>{''.join(f'<li>{words}</li>' for words in _others(recipe))}</ul></article>"
        '<article class="whole"><h2>Rank your own feed by it</h2><p>Give this link to your app where it lets you choose how'
        f" <i>For you</i> is ranked, or send it as <code>link</code> to <code>PUT {escape(at.root)}/api/shoal/v1/ranking</code>."
        " It works on every Shoal server, and you can take it back at any time.</p>"
        f"<p><code class=link>{escape(at.recipe(recipe))}</code></p></article>"
    )


def _first_words(recipe: Recipe) -> str:
    preset = next((name for name, one in PRESETS.items() if one == recipe), "")
    known = f" This one is the preset <b>{preset.replace('_', ' ')}</b>." if preset else ""
    return f"It says which posts stand first in the feed <i>For you</i>, and by how much.{known}"


def _row(name: str, weight: float, usual: float) -> str:
    shown = _number(weight)
    against = f"usually {_number(usual)}" if weight != usual else ""
    kind = ' class="below"' if weight < 0 else ""
    return (
        f'<tr><th scope="row">{TITLES[name]}</th>'
        f'<td><meter{kind} min="0" max="{MOST_WEIGHT:g}" value="{abs(weight):g}">{shown}</meter></td>'
        f"<td><b>{shown}</b></td><td><small>{against}</small></td></tr>"
    )


def _others(recipe: Recipe) -> tuple[str, ...]:
    return (
        f"A post counts half as new after <b>{_number(recipe.half_life_hours)} hours</b>.",
        f"It counts half as near at <b>{_number(recipe.near_km)} km</b>.",
        f"<b>{_number(round(100 * recipe.exploration, 1))} %</b> of the places are for people whom few have met.",
        f"Of any ten posts at most <b>{recipe.author_most}</b> are by one person.",
    )


def _number(value: float) -> str:
    return f"{value:,g}".replace("-", _MINUS)
