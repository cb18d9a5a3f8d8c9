"""For you: the feed that is ranked by interest, its recipe, and what was seen."""

from __future__ import annotations

import msgspec

from shoal.commands import ranking
from shoal.core.errors import InvalidInput
from shoal.core.ranking.preferences import Wishes
from shoal.core.ranking.recipes import PRESETS, Recipe, recipe_link, recipe_of, recipe_of_link
from shoal.graph.payloads.members import tastes_of
from shoal.library.acting import Acting
from shoal.library.arguments import AnyMoment, AnyPost, milliseconds, post_id
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import CatchUp, catch_up
from shoal.queries.foryou.feed import ForYou, Verdict
from shoal.queries.foryou.preview import Effect, effect_of
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.tags import TagOffer, offers
from shoal.wiring import base_url


class ReadsForYou(Acting):
    """A member's ranked feed, and all that they may decide about it."""

    async def for_you(self, limit: int = 20, cursor: str = "", *, explain: bool = False) -> ForYou:
        """A page of the feed ranked by interest; `cursor` is the `next` of the page before.

        With `explain` on the first page, every entry says which terms make its score. A page that could not be ranked (in time)
        is one of the home timeline, and `by_time` says so. Raises `InvalidInput` for a limit below 1 and for text that is no
        cursor.
        """
        at = decode_cursor(cursor) if cursor else None
        return await feed.page(self._reads, self.id, limit, at, explain=explain)

    async def catch_up(self, since: AnyMoment | None = None, limit: int = 20, *, explain: bool = False) -> CatchUp:
        """The best of what followees posted and shared since a moment, by default since the newest post read at home.

        Friends who post rarely come first. Raises `InvalidInput` for a limit below 1, for a `datetime` without a zone, and for a
        moment that is still to come.
        """
        at = None if since is None else milliseconds(since, "since")
        return await catch_up(self._reads, self.id, at, limit, explain=explain)

    async def why_not(self, post: AnyPost) -> Verdict:
        """Where a post would stand if the feed were ranked now, or the stage and the rule that keep it out. Raises `NotFound`."""
        return await feed.why_not(self._reads, self.id, post_id(post))

    async def recipe(self) -> Recipe:
        """The weights by which posts are ranked for this member: their own, or those of the server."""
        return feed.recipe_for(self._reads, await tastes_of(self._reads.graph, self.id))

    async def set_recipe(self, recipe: Recipe | str | None) -> Recipe:
        """Rank by other weights: `Recipe(weights=Weights(friends=4.0))`, the name of a preset, or a link to a recipe; None: by the
        server's again.

        A link is what `recipe_link` returns, on any server. Raises `InvalidInput`, which names the field and what is allowed in it.
        """
        await ranking.set_recipe(self._writes, self.id, _recipe(recipe))
        return await self.recipe()

    async def recipe_link(self) -> str:
        """A link that carries this member's recipe, for others to look at and to rank by."""
        return recipe_link(base_url(self._network.settings), await self.recipe())

    async def switch_ranking(self, *, on: bool) -> None:
        """Have posts ranked, or turn all ranking off: then `for_you` answers the home timeline."""
        await ranking.switch(self._writes, self.id, off=not on)

    async def interests(self, limit: int = 40) -> list[TagOffer]:
        """Tags to pick as interests, each with a picture: those picked, then those used most of late.

        Raises `InvalidInput` for a limit outside 1 to 200.
        """
        return await offers(self._reads, self.id, limit)

    async def pick_interests(self, *tags: str) -> list[str]:
        """Keep these tags as interests, in place of those before; they count in ranked feeds, and are not followed.

        Returns them in their canonical form. Raises `InvalidInput` for more than 50, and for text that is no tag.
        """
        return list(await ranking.pick_tags(self._writes, self.id, tags))

    async def more_like(self, post: AnyPost, tag: str = "") -> Effect:
        """Ask for more like a post: by its author, or under one of its tags. The answer says what that moves.

        Up to five times. Raises `NotFound`, and `InvalidInput` for a tag that the post does not have and for an own post.
        """
        return await self._tap(post, 1, tag)

    async def less_like(self, post: AnyPost, tag: str = "") -> Effect:
        """Ask for less like a post, as `more_like` does for more. Raises `NotFound` and `InvalidInput`."""
        return await self._tap(post, -1, tag)

    async def forget_feedback(self, post: AnyPost, tag: str = "") -> Effect:
        """Forget what was asked for about the author of a post, or one of its tags. Raises `NotFound` and `InvalidInput`."""
        return await self._tap(post, 0, tag)

    async def _tap(self, post: AnyPost, step: int, tag: str) -> Effect:
        return await effect_of(
            self._reads, self.id, *await ranking.tap_post(self._writes, self.id, post_id(post), step, tag)
        )

    async def feedback(self) -> Wishes:
        """All that was asked for: taps by author and by tag, and the picked tags."""
        return (await tastes_of(self._reads.graph, self.id)).wishes

    async def forget_all_feedback(self) -> None:
        """Forget everything that was asked more or less of; picked tags stay."""
        await ranking.forget_taps(self._writes, self.id)

    async def mark_seen(self, *posts: AnyPost) -> None:
        """Say that the member has seen these posts once more, so that they stand lower. Raises `InvalidInput` for more than 200."""
        await ranking.add_seen_posts(self._writes, self.id, [post_id(post) for post in posts])


def _recipe(given: Recipe | str | None) -> Recipe | None:
    if given is None:
        return None
    if isinstance(given, Recipe):
        # A value that was made here has not been checked.
        return recipe_of(msgspec.to_builtins(given))
    if given in PRESETS:
        return PRESETS[given]
    if "=" in str(given):
        return recipe_of_link(given)
    raise InvalidInput(f"recipe: one of {', '.join(PRESETS)}, or a link to a recipe, not {given!r:.64}", field="recipe")
