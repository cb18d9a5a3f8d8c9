"""Hidden posts and suspended members are restored completely, with the counts of their tags."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from shoal import Handle, Shoal
from shoal.app.network import Network, open_network
from shoal.commands import members, moderation, posts
from shoal.commands.posts import Draft
from shoal.consumers import indexing
from shoal.core.errors import Gone, NotAllowed, NotFound, Taken
from shoal.core.events import SuspensionChanged
from shoal.core.model import Member, Post, Role
from shoal.graph.contract import Batch, Cursor, Graph
from shoal.graph.schema import EVERYBODY, STAFF, tag_id
from shoal.settings import build
from tests.async_runner import in_loop
from tests.flows.members import home_texts, register


async def uses(shoal: Shoal, *names: str) -> list[int]:
    """Return the use counts of the tags."""
    await shoal.settle()
    rows = await shoal.network.tag_store.tags([tag_id(name) for name in names])
    return [rows[tag_id(name)].n if tag_id(name) in rows else 0 for name in names]


@in_loop
async def test_tag_use_counts_include_public_posts_only() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        post = await ann.create("#Dawn at the #reef")
        await ben.create("#dawn again", visibility="unlisted")
        await ben.create("#dawn for friends", visibility="followers")
        assert await uses(shoal, "dawn", "reef") == [1, 1]
        await ben.create("#DAWN")
        await ann.update(post, "#Dawn at the #sea")
        assert await uses(shoal, "dawn", "reef", "sea") == [2, 0, 1]
        await ann.delete(post)
        assert await uses(shoal, "dawn", "reef", "sea") == [1, 0, 0]
        row = (await shoal.network.tag_store.tags([tag_id("dawn")]))[tag_id("dawn")]
        assert row.forms == {"DAWN": 1}


@in_loop
async def test_post_hidden_by_moderator_is_visible_to_author_only_until_revealed() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        post = await ann.create("#dawn")
        for _ in range(2):
            await shoal.hide(post)
            await _only_ann(shoal, ann, ben, post.id)
            assert await uses(shoal, "dawn") == [0]
            await shoal.reveal(post)
            assert (await home_texts(ben), await uses(shoal, "dawn")) == (["#dawn"], [1])
        await shoal.hide(post)
        await ann.update(post, "#dusk")
        assert await uses(shoal, "dawn", "dusk") == [0, 0]
        await shoal.reveal(post)
        assert await uses(shoal, "dawn", "dusk") == [0, 1]
        await ann.delete(post)
        with pytest.raises(NotFound):
            await shoal.hide(post)
        assert await uses(shoal, "dawn", "dusk") == [0, 0]


async def _only_ann(shoal: Shoal, ann: Handle, ben: Handle, post: int) -> None:
    assert (await ann.read(post)).post.id == post
    with pytest.raises(NotFound):
        await ben.read(post)
    assert await home_texts(ben) == []
    assert await home_texts(ann) == ["#dawn"]


@in_loop
async def test_member_suspension_hides_posts_and_counts_until_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "_PAGE", 2)
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", "a long password")
        ben = await shoal.register("ben")
        await ben.follow(ann)
        await ben.update_profile(folds_shares=False)
        posts = [await ann.create(f"{number} #dawn #n{number}") for number in range(5)]
        await ann.share(await ben.create("#dawn, says Ben"))
        await shoal.hide(posts[4])
        assert await uses(shoal, "dawn", "n0", "n4") == [5, 1, 0]
        await shoal.suspend("ann")
        await shoal.suspend(ann)
        assert await uses(shoal, "dawn", "n0", "n4") == [1, 0, 0]
        assert await home_texts(ben) == ["#dawn, says Ben"]
        with pytest.raises(NotAllowed, match="disabled"):
            await shoal.log_in("ann", "a long password")
        with pytest.raises(Gone):
            await ann.create("still here")
        # A post revealed during the suspension stays hidden until its author is restored.
        await shoal.reveal(posts[4])
        assert await uses(shoal, "n4") == [0]
        await shoal.restore(ann)
        assert await uses(shoal, "dawn", "n0", "n4") == [6, 1, 1]
        assert len(await home_texts(ben)) == 7
        await shoal.log_in("ann", "a long password")


@in_loop
async def test_member_suspension_of_unknown_member_returns_not_found() -> None:
    async with Shoal.open("memory://") as shoal:
        for nobody in (12, "nobody"):
            with pytest.raises(NotFound):
                await shoal.suspend(nobody)


class Overtaken:
    """A graph that restores the author and processes the event just before the first commit."""

    def __init__(self, network: Network, author: int) -> None:
        self._network = network
        self._author = author
        self._first = True
        self.obj_get = network.store.obj_get
        self.assoc_range = network.store.assoc_range

    async def commit(self, batch: Batch) -> None:
        if self._first:
            self._first = False
            await moderation.restore(self._network.writes, self._author)
            await indexing.hide_or_reveal_posts(self._network.effects, SuspensionChanged(member_id=self._author), 0)
        await self._network.store.commit(batch)


@in_loop
async def test_member_suspension_undone_during_processing_leaves_no_hidden_posts() -> None:
    async with open_network(build(store="memory://"), background=False) as network:
        ann = await members.register(network.writes, "ann")
        post = await posts.create(network.writes, ann.id, Draft(text="#dawn"))
        await moderation.suspend(network.writes, ann.id)
        effects = replace(network.effects, graph=cast("Graph", Overtaken(network, ann.id)))
        await indexing.hide_or_reveal_posts(effects, SuspensionChanged(member_id=ann.id), 0)
        seen = (await network.store.obj_get((post.id,)))[post.id]
        assert isinstance(seen, Post)
        assert not seen.hidden


@in_loop
async def test_moderation_actions_made_concurrently_on_one_member_are_all_kept() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        writes = shoal.network.writes
        await asyncio.gather(
            moderation.silence(writes, ann.id),
            moderation.disable(writes, ann.id),
            moderation.suspend(writes, ann.id),
            moderation.set_role(writes, ann.id, Role.MODERATOR),
        )
        member = await _member(shoal, ann)
        assert (member.silenced, member.disabled, member.suspended, member.role) == (True, True, True, Role.MODERATOR)
        await moderation.enable(writes, ann.id)
        await moderation.unsilence(writes, ann.id)
        await moderation.restore(writes, ann.id)
        after = await _member(shoal, ann)
        assert (after.silenced, after.disabled, after.suspended, after.version) == (False, False, False, 8)
        assert await moderation.enable(writes, ann.id) == after


@in_loop
async def test_staff_list_changes_with_member_roles() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        writes = shoal.network.writes

        async def staff() -> set[int]:
            await shoal.settle()
            return {one.id2 for one in await writes.graph.assoc_range(EVERYBODY, STAFF, Cursor(limit=10))}

        await moderation.set_role(writes, ann.id, Role.MODERATOR)
        await moderation.set_role(writes, ben.id, Role.ADMIN)
        await moderation.set_role(writes, ann.id, Role.ADMIN)
        assert await staff() == {ann.id, ben.id}
        await moderation.set_role(writes, ann.id, Role.NONE)
        assert await staff() == {ben.id}


@in_loop
async def test_login_of_disabled_member_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        writes = shoal.network.writes
        ann = await members.register(writes, "ann", password="low tide at dawn")
        await moderation.disable(writes, ann.id)
        with pytest.raises(NotAllowed, match="disabled"):
            await members.log_in(writes, "ann", "low tide at dawn")
        await moderation.enable(writes, ann.id)
        assert (await members.log_in(writes, "ann", "low tide at dawn")).id == ann.id


async def _member(shoal: Shoal, who: Handle) -> Member:
    node = (await shoal.network.writes.graph.obj_get((who.id,)))[who.id]
    assert isinstance(node, Member)
    return node


@in_loop
async def test_blocklists_api_blocks_lists_and_unblocks_domains_addresses_and_networks() -> None:
    async with Shoal.open("memory://") as shoal:
        lists = shoal.blocklists
        domain = await lists.block_domain("Spam.Example")
        address = await lists.block_address("ru.de@example.org")
        assert [block async for block in lists.blocks()] == [domain, address]
        with pytest.raises(Taken):
            await lists.block_address("rude+again@example.org")
        network = await lists.block_network("2001:db8::/32")
        assert [block async for block in lists.blocks()] == [domain, address, network]
        await lists.unblock("2001:db8::/32")
        await lists.unblock("spam.example")
        await lists.unblock("rude@example.org")
        with pytest.raises(NotFound, match=r"spam\.example is not blocked"):
            await lists.unblock("spam.example")
        assert [block async for block in lists.blocks()] == []
        # Members registered by the application can have any address.
        await lists.block_domain("spam.example")
        await shoal.register("ann", email="ann@spam.example")
