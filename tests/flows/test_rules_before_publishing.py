"""Armed moderation rules decide about content before it is public; rules that are off cost nothing."""

from __future__ import annotations

import pytest

from shoal import Shoal
from shoal.core.errors import Held, Rejected
from shoal.core.moderation_rules import Conditions, RuleDraft
from tests.async_runner import in_loop
from tests.flows.members import register, texts
from tests.flows.test_bulk_moderation import chart


async def armed(shoal: Shoal, draft: RuleDraft) -> None:
    rule = await shoal.moderation_rules.create(draft)
    await shoal.moderation_rules.dry_run([rule.id])
    await shoal.moderation_rules.set_state(rule.id, "armed")
    await shoal.network.rules.look()


@in_loop
async def test_armed_rules_hold_and_reject_posts_before_they_are_public() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        assert not shoal.network.writes.checks
        await armed(shoal, RuleDraft(name="Boats", conditions=Conditions(words=("my boat",))))
        reject = RuleDraft(
            name="Casino", conditions=Conditions(domains=("casino.example",)), action="reject", reason="No casinos"
        )
        await armed(shoal, reject)
        assert shoal.network.writes.checks
        with pytest.raises(Held):
            await ann.create("Buy MY BOAT")
        with pytest.raises(Rejected, match="No casinos"):
            await ann.create("https://www.casino.example/")
        await ann.create("hello")
        assert texts(await ben.public()) == ["hello"]
        for rule in await shoal.moderation_rules.all():
            await shoal.moderation_rules.set_state(rule.id, "off")
        await shoal.network.rules.look()
        assert not shoal.network.writes.checks
        await ann.create("Buy my boat")


@in_loop
async def test_armed_rule_on_pictures_holds_look_alike_of_removed_picture() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("look", media=[await ann.upload(chart(1))])
        await shoal.hide(post)
        await armed(shoal, RuleDraft(name="Removed", conditions=Conditions(like_removed="same")))
        with pytest.raises(Held):
            await ben.create("look", media=[await ben.upload(chart(1))])
        await ben.create("look", media=[await ben.upload(chart(3))])


@in_loop
async def test_armed_rule_on_bursts_holds_the_next_post() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await armed(shoal, RuleDraft(name="Burst", conditions=Conditions(more_posts_than=3)))
        for n in range(3):
            await ann.create(f"post {n}")
        with pytest.raises(Held):
            await ann.create("post 4")
