"""A recipe that somebody shared: what it looks for, and a button to rank by it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.core.ranking.recipes import MOST_LINK, Recipe, recipe_of_link
from shoal.graph.payloads.members import tastes_of
from shoal.web import rows
from shoal.web.rendering import page
from shoal.web.views.settings.recipes import others_of, preset_name, weights_of
from shoal.web.visit import Form, Visit


class TakeForm(Form, frozen=True, kw_only=True):
    """A recipe to take over."""

    link: Annotated[str, Meta(max_length=MOST_LINK)]


async def show(visit: Visit, _params: None) -> Response:
    """Everything that a recipe says. Its numbers are the query of the address."""
    recipe = recipe_of_link(visit.request.scope["query_string"].decode("latin-1"))
    dials = sorted(weights_of(visit, recipe), key=lambda dial: -float(dial.value))
    mine = visit.viewer is not None and await _ranks_by(visit, visit.viewer.id, recipe)
    return await page(
        visit,
        "recipe",
        title=visit.words.text("A recipe for a feed"),
        dials=dials,
        others=others_of(visit, recipe),
        preset=preset_name(visit, recipe),
        link=visit.front.at.recipe(recipe),
        mine=mine,
    )


async def take(visit: Visit, asked: TakeForm) -> Response:
    """Rank the member's own feed by a recipe from now on."""
    member = visit.checked(asked)
    await ranking.set_recipe(visit.front.writes, member.id, recipe_of_link(asked.link))
    await ranking.switch(visit.front.writes, member.id, off=False)
    return visit.go("/for-you")


async def _ranks_by(visit: Visit, member_id: int, recipe: Recipe) -> bool:
    """Return whether a member ranks by this recipe already."""
    taste = (await tastes_of(visit.front.graph, member_id)).taste
    return taste is not None and not taste.off and taste.recipe == recipe


ROUTES = (
    rows.page("/recipe", show),
    rows.form("/recipe", take, TakeForm),
)
