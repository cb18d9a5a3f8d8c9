"""Follow suggestions: sources, reasons and exclusions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from shoal import Handle, Shoal, Visibility
from shoal.core.ranking.people import WEIGHTS
from shoal.queries import suggestions
from shoal.queries.context import ExpiringCache, Reads, Renewed, Suggested
from shoal.queries.foryou.interests import interests_of
from shoal.queries.suggestions import Suggestion
from tests.async_runner import in_loop
from tests.flows.members import register
from tests.flows.query_counts import calls


def fresh(reads: Reads) -> Reads:
    """Return reads with empty caches."""
    return replace(
        reads,
        suggested=ExpiringCache(),
        interests=ExpiringCache(),
        near=ExpiringCache(),
        popular=Renewed(),
        trending=Renewed(),
    )


async def suggested(who: Handle, limit: int = 40) -> dict[str, Suggestion]:
    """Return suggestions by name, in their order."""
    found = await suggestions.suggestions(fresh(who._network.reads), who.id, limit)
    return {one.profile.member.name: one for one in found}


def words(one: Suggestion) -> Mapping[str, str]:
    return {reason.source: reason.words for reason in one.reasons}


@in_loop
async def test_follow_suggestions_come_from_every_source_with_reasons() -> None:
    async with Shoal.open("memory://") as shoal:
        me, ben, cyd, *others = await register(
            shoal, "me", "ben", "cyd", "eve", "fan", "liked", "tagger", "near", "star"
        )
        eve, fan, liked, tagger, near, star = others
        for friend in (ben, cyd):
            await me.follow(friend)
            await friend.follow(eve)
        await fan.follow(me)
        for n in range(2):
            await me.like(await liked.create(f"{n}"))
        await me.create("here #birds #coast", place=(52.52, 13.40))
        await tagger.create("#birds and #coast, again")
        await near.create("around the corner", place=(52.52, 13.45))
        for one in others:
            if one is not star:
                await one.follow(star)
        await shoal.settle()
        found = await suggested(me)
        assert set(found) == {one.name for one in others}
        assert words(found["eve"])["friends"] == "@cyd and @ben, whom you follow, follow them"
        assert found["eve"].reasons[0].friends == ("cyd", "ben")
        assert found["eve"].friends == 2
        assert words(found["fan"])["follows_you"] == "follows you"
        assert words(found["liked"])["liked"] == "you liked 2 of their posts"
        assert words(found["tagger"])["tags"] == "posts with #birds and #coast, which interest you"
        assert words(found["near"])["nearby"] == "posts from about 3 km from where you post"
        assert words(found["star"]) == {"followers": "followed by 5 members"}
        for suggestion in found.values():
            assert sum(reason.contribution for reason in suggestion.reasons) == pytest.approx(suggestion.score)
            for reason in suggestion.reasons:
                assert reason.weight == getattr(WEIGHTS, reason.source)
                assert reason.value * reason.weight == pytest.approx(reason.contribution)
                assert reason.contribution > 0
        assert [one.score for one in found.values()] == sorted((one.score for one in found.values()), reverse=True)
        assert list(await suggested(me, 2)) == list(found)[:2]


@in_loop
async def test_follow_suggestions_weigh_followee_with_few_follows_more() -> None:
    async with Shoal.open("memory://") as shoal:
        me, picky, keen, one, other, *crowd = await register(
            shoal, "me", "picky", "keen", "one", "other", *(f"crowd_{n}" for n in range(20))
        )
        await me.follow(picky)
        await me.follow(keen)
        await picky.follow(one)
        for followee in (other, *crowd):
            await keen.follow(followee)
        await shoal.settle()
        found = await suggested(me)
        assert next(iter(found)) == "one"
        assert found["one"].friends == found["other"].friends == 1
        assert found["one"].score > found["other"].score


@in_loop
async def test_follow_suggestions_without_followees_are_most_followed_and_by_interest() -> None:
    async with Shoal.open("memory://") as shoal:
        new, star, birder, *crowd = await register(shoal, "new", "star", "birder", *(f"crowd_{n}" for n in range(4)))
        for one in crowd:
            await one.follow(star)
        await birder.create("a wren #birds")
        await shoal.settle()
        assert next(iter(await suggested(new))) == "star"
        await new.follow_tag("birds")
        await shoal.settle()
        assert next(iter(await suggested(new))) == "birder"


@in_loop
async def test_follow_suggestions_reasons_do_not_reveal_hidden_connections() -> None:
    async with Shoal.open("memory://") as shoal:
        me, ben, secret, eve, shy = await register(shoal, "me", "ben", "secret", "eve", "shy")
        for friend in (ben, secret):
            await me.follow(friend)
            await friend.follow(eve)
        await ben.follow(shy)
        await secret.update_profile(hides_connections=True)
        await shy.update_profile(hides_connections=True)
        await shoal.settle()
        found = await suggested(me)
        # No reason mentions the followees of `secret` or the followers of `shy`.
        assert words(found["eve"])["friends"] == "@ben, whom you follow, follows them"
        assert "friends" not in words(found["shy"])


@in_loop
async def test_follow_suggestions_reasons_count_muted_followees_without_naming_them() -> None:
    async with Shoal.open("memory://") as shoal:
        me, ben, cyd, eve = await register(shoal, "me", "ben", "cyd", "eve")
        for friend in (ben, cyd):
            await me.follow(friend)
            await friend.follow(eve)
        await shoal.settle()
        reads = fresh(shoal.network.reads)

        async def said() -> str:
            (one,) = await suggestions.suggestions(reads, me.id, 1)
            return words(one)["friends"]

        assert await said() == "@cyd and @ben, whom you follow, follow them"
        await me.mute(ben)
        assert await said() == "@cyd and one other you follow follow them"
        await cyd.block(me)
        await shoal.settle()
        assert await said() == "2 people you follow follow them"


@in_loop
async def test_follow_suggestions_cached_list_excludes_members_that_became_ineligible_since() -> None:
    async with Shoal.open("memory://") as shoal:
        me, friend, *others = await register(
            shoal, "me", "friend", "good", "blocked", "blocker", "muted", "dismissed", "gone", "shy", "asked", "known"
        )
        good, blocked, blocker, muted, dismissed, gone, shy, asked, known = others
        await me.follow(friend)
        for other in others:
            await friend.follow(other)
        await asked.update_profile(locked=True)
        await shoal.settle()
        reads = fresh(shoal.network.reads)

        async def names() -> set[str]:
            return {one.profile.member.name for one in await suggestions.suggestions(reads, me.id, 40)}

        assert await names() == {other.name for other in others}
        await me.block(blocked)
        await blocker.block(me)
        await me.mute(muted)
        await me.dismiss_suggestion(dismissed)
        await shoal.suspend(gone)
        await shy.update_profile(discoverable=False)
        await me.follow(asked)
        await me.follow(known)
        await shoal.settle()
        assert await names() == {good.name}
        # Also with empty caches.
        reads = fresh(shoal.network.reads)
        assert await names() == {good.name}


@in_loop
async def test_follow_suggestions_ignore_unlisted_posts_and_unrankable_authors() -> None:
    async with Shoal.open("memory://") as shoal:
        me, quiet, closed, open_ = await register(shoal, "me", "quiet", "closed", "open_")
        await me.create("#birds", place=(52.52, 13.40))
        await quiet.create("#birds", visibility=Visibility.UNLISTED, place=(52.52, 13.40))
        await closed.update_profile(rankable=False)
        await closed.create("#birds", place=(52.52, 13.40))
        await open_.create("#birds", place=(52.52, 13.40))
        await shoal.settle()
        found = await suggested(me)
        assert {name: set(words(one)) for name, one in found.items()} == {
            "open_": {"tags", "nearby"},
            "quiet": set(),
            "closed": set(),
        }


@in_loop
async def test_follow_suggestions_exclude_reported_authors() -> None:
    async with Shoal.open("memory://") as shoal:
        me, friend, bad, good = await register(shoal, "me", "friend", "bad", "good")
        await me.follow(friend)
        await friend.follow(bad)
        await friend.follow(good)
        post = await bad.create("spam")
        await me.report(bad, posts=[post])
        await shoal.settle()
        assert list(await suggested(me)) == ["good"]


@in_loop
async def test_follow_suggestions_with_ranking_off_use_only_follower_count() -> None:
    async with Shoal.open("memory://") as shoal:
        me, friend, eve, star, *crowd = await register(shoal, "me", "friend", "eve", "star", "a_one", "a_two")
        await me.follow(friend)
        await friend.follow(eve)
        for one in crowd:
            await one.follow(star)
        await shoal.settle()
        assert next(iter(await suggested(me))) == "eve"
        await me.switch_ranking(on=False)
        found = await suggested(me)
        assert next(iter(found)) == "star"
        assert "friend" not in found
        assert {source for one in found.values() for source in words(one)} == {"followers"}


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
@in_loop
async def test_follow_suggestions_read_count_is_independent_of_followee_count(
    url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("reads") / "shoal.db"
    costs = []
    async with Shoal.open("memory://" if url == "memory://" else f"sqlite:///{path}", media="memory://") as shoal:
        me, *crowd = await register(shoal, "me", *(f"crowd_{n}" for n in range(24)))
        await me.create("#birds", place=(52.52, 13.40))
        for n, one in enumerate(crowd):
            await one.create("#birds", place=(52.52, 13.40))
            await one.follow(crowd[(n + 1) % len(crowd)])
            await me.like(await one.create("more"))

        async def ask(held: ExpiringCache[tuple[int, int], Suggested], reads: Reads) -> object:
            return await suggestions.suggestions(replace(fresh(reads), suggested=held), me.id, 40)

        for part in (crowd[:2], crowd[2:20]):
            for one in part:
                await me.follow(one)
            await shoal.settle()
            costs.append(await calls(shoal.network, partial(ask, ExpiringCache())))
            held: ExpiringCache[tuple[int, int], Suggested] = ExpiringCache()
            await ask(held, shoal.network.reads)
            again = await calls(shoal.network, partial(ask, held))
            assert again.total() == 4
    assert costs[0] == costs[1]
    assert costs[0].total() <= 27


@in_loop
async def test_follow_suggestions_react_immediately_to_picked_interests_and_less_like() -> None:
    async with Shoal.open("memory://") as shoal:
        new, tagger, *others = await register(shoal, "new", "tagger", *(f"member{n}" for n in range(4)))
        for one in others:
            for other in others:
                if one.id != other.id:
                    await one.follow(other)
        post = await tagger.create("low #tide")
        await shoal.settle()

        async def first() -> Suggestion | None:
            found = await new.suggestions()
            return found[0] if found else None

        before = await first()
        assert before is not None
        assert before.profile.member.name != "tagger"
        await new.pick_interests("tide")
        after = await first()
        assert after is not None
        assert after.profile.member.name == "tagger"
        assert words(after)["tags"] == "posts with #tide, which interests you"
        await new.less_like(post)
        assert "tagger" not in {one.profile.member.name for one in await new.suggestions()}


@in_loop
async def test_follow_suggestions_cached_friends_of_friends_follow_changes_of_visible_followees() -> None:
    async with Shoal.open("memory://") as shoal:
        me, ben, cyd, dot, eve = await register(shoal, "me", "ben", "cyd", "dot", "eve")
        await me.follow(ben)
        await ben.follow(cyd)
        reads = me._network.reads

        async def near() -> set[int]:
            """Return the second-degree follows, computed with an empty interests cache."""
            return set((await interests_of(replace(reads, interests=ExpiringCache()), me.id)).near.ids.tolist())

        assert await near() == {cyd.id}
        await ben.follow(dot)
        assert await near() == {cyd.id}
        assert set((await interests_of(fresh(reads), me.id)).near.ids.tolist()) == {cyd.id, dot.id}
        await me.follow(eve)
        assert await near() == {cyd.id, dot.id}
        await ben.update_profile(hides_connections=True)
        assert await near() == set()
        await ben.update_profile(hides_connections=False)
        assert await near() == {cyd.id, dot.id}
        await me.unfollow(ben)
        assert await near() == set()
