"""For you: the feed that is ranked by interest, its recipe, and what was seen.

Made from `shoal.library.feeds` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.core.ranking.preferences import Wishes
from shoal.core.ranking.recipes import Recipe
from shoal.library import feeds as awaited
from shoal.library.acting import AnyMoment, AnyPost
from shoal.queries.foryou.catchup import CatchUp
from shoal.queries.foryou.feed import ForYou, Verdict
from shoal.queries.foryou.preview import Effect
from shoal.queries.tags import TagOffer
from shoal.sync.calling import Acting


class ReadsForYou(Acting):
    """A member's ranked feed, and all that they may decide about it."""

    _awaited: awaited.ReadsForYou

    def for_you(self, limit: int = 20, cursor: str = "", *, explain: bool = False) -> ForYou:
        """A page of the feed ranked by interest; `cursor` is the `next` of the page before.

        With `explain` on the first page, every entry says which terms make its score. A page that could not be ranked (in time)
        is one of the home timeline, and `by_time` says so. Raises `InvalidInput` for a limit below 1 and for text that is no
        cursor.
        """
        return self._loop.call(self._awaited.for_you(limit, cursor, explain=explain))

    def catch_up(self, since: AnyMoment | None = None, limit: int = 20, *, explain: bool = False) -> CatchUp:
        """The best of what followees posted and shared since a moment, by default since the newest post read at home.

        Friends who post rarely come first. Raises `InvalidInput` for a limit below 1, for a `datetime` without a zone, and for a
        moment that is still to come.
        """
        return self._loop.call(self._awaited.catch_up(since, limit, explain=explain))

    def why_not(self, post: AnyPost) -> Verdict:
        """Where a post would stand if the feed were ranked now, or the stage and the rule that keep it out. Raises `NotFound`."""
        return self._loop.call(self._awaited.why_not(post))

    def recipe(self) -> Recipe:
        """The weights by which posts are ranked for this member: their own, or those of the server."""
        return self._loop.call(self._awaited.recipe())

    def set_recipe(self, recipe: Recipe | str | None) -> Recipe:
        """Rank by other weights: `Recipe(weights=Weights(friends=4.0))`, the name of a preset, or a link to a recipe; None: by the
        server's again.

        A link is what `recipe_link` returns, on any server. Raises `InvalidInput`, which names the field and what is allowed in it.
        """
        return self._loop.call(self._awaited.set_recipe(recipe))

    def recipe_link(self) -> str:
        """A link that carries this member's recipe, for others to look at and to rank by."""
        return self._loop.call(self._awaited.recipe_link())

    def switch_ranking(self, *, on: bool) -> None:
        """Have posts ranked, or turn all ranking off: then `for_you` answers the home timeline."""
        self._loop.call(self._awaited.switch_ranking(on=on))

    def interests(self, limit: int = 40) -> list[TagOffer]:
        """Tags to pick as interests, each with a picture: those picked, then those used most of late.

        Raises `InvalidInput` for a limit outside 1 to 200.
        """
        return self._loop.call(self._awaited.interests(limit))

    def pick_interests(self, *tags: str) -> list[str]:
        """Keep these tags as interests, in place of those before; they count in ranked feeds, and are not followed.

        Returns them in their canonical form. Raises `InvalidInput` for more than 50, and for text that is no tag.
        """
        return self._loop.call(self._awaited.pick_interests(*tags))

    def more_like(self, post: AnyPost, tag: str = "") -> Effect:
        """Ask for more like a post: by its author, or under one of its tags. The answer says what that moves.

        Up to five times. Raises `NotFound`, and `InvalidInput` for a tag that the post does not have and for an own post.
        """
        return self._loop.call(self._awaited.more_like(post, tag))

    def less_like(self, post: AnyPost, tag: str = "") -> Effect:
        """Ask for less like a post, as `more_like` does for more. Raises `NotFound` and `InvalidInput`."""
        return self._loop.call(self._awaited.less_like(post, tag))

    def forget_feedback(self, post: AnyPost, tag: str = "") -> Effect:
        """Forget what was asked for about the author of a post, or one of its tags. Raises `NotFound` and `InvalidInput`."""
        return self._loop.call(self._awaited.forget_feedback(post, tag))

    def feedback(self) -> Wishes:
        """All that was asked for: taps by author and by tag, and the picked tags."""
        return self._loop.call(self._awaited.feedback())

    def forget_all_feedback(self) -> None:
        """Forget everything that was asked more or less of; picked tags stay."""
        self._loop.call(self._awaited.forget_all_feedback())

    def mark_seen(self, *posts: AnyPost) -> None:
        """Say that the member has seen these posts once more, so that they stand lower. Raises `InvalidInput` for more than 200."""
        self._loop.call(self._awaited.mark_seen(*posts))
