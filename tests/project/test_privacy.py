"""What a reader of the tables sees of members and posts that moderators or members hide: before, during and after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from shoal import Handle, Shoal
from shoal.core.errors import Held
from shoal.core.model import Visibility
from shoal_project.targets import Target, opened
from tests.api.events.consumer import PUBLIC, key_of
from tests.api.in_memory_network import network_fixture, picture
from tests.flows.test_account_deletion import worked_off
from tests.moderation.checks import WordCheck
from tests.project.projections import RoutedSource, contents, facts_in, facts_of, read_all


class Scene(NamedTuple):
    shoal: Shoal
    source: RoutedSource
    target: Target
    ann: Handle
    bob: Handle

    async def texts(self) -> list[str]:
        """Bring the tables up to date, and return the texts of all posts. A rebuild would not change the tables."""
        await self.shoal.settle()
        await read_all(self.target, self.source)
        assert await facts_in(self.target) == await facts_of(self.shoal.network.store)
        before = await contents(self.target)
        await read_all(self.target, self.source, rebuild=True)
        assert await contents(self.target) == before
        return [text for (text,) in await self.target.read("SELECT text FROM posts ORDER BY id")]


async def _hidden_post(scene: Scene) -> None:
    post = await scene.ann.create("hidden")
    await scene.bob.like(post)
    assert await scene.texts() == ["hidden"]
    await scene.shoal.hide(post)
    assert await scene.texts() == []
    assert await scene.target.read("SELECT * FROM likes") == []
    await scene.shoal.reveal(post)
    assert await scene.texts() == ["hidden"]
    assert len(await scene.target.read("SELECT * FROM likes")) == 1


async def _post_that_waits_for_approval(scene: Scene) -> None:
    file = await scene.ann.upload(picture(), description="A heron")
    with pytest.raises(Held) as held:
        await scene.ann.create("hold this #party", media=[file])
    assert await scene.texts() == []
    await scene.shoal.moderation.approve_held(held.value.held_id)
    assert await scene.texts() == ["hold this #party"]
    assert await scene.target.read("SELECT description FROM media") == [("A heron",)]


async def _edit_that_waits_for_approval(scene: Scene) -> None:
    post = await scene.ann.create("first")
    assert await scene.texts() == ["first"]
    with pytest.raises(Held) as held:
        await scene.ann.update(post, "hold second #tag")
    assert await scene.texts() == ["first"]
    assert await scene.target.read("SELECT * FROM tags") == []
    await scene.shoal.moderation.approve_held(held.value.held_id)
    assert await scene.texts() == ["hold second #tag"]
    assert len(await scene.target.read("SELECT * FROM posts WHERE edited_at IS NOT NULL")) == 1


async def _edited_post(scene: Scene) -> None:
    post = await scene.ann.create("first #one")
    assert await scene.texts() == ["first #one"]
    await scene.ann.update(post, "second #two", spoiler="careful", data={"n": 1})
    assert await scene.texts() == ["second #two"]
    assert await scene.target.read("SELECT tag FROM tags") == [("two",)]
    assert await scene.target.read("SELECT content_warning, data FROM posts") == [("careful", '{"n":1}')]


async def _narrowed_post(scene: Scene) -> None:
    post = await scene.ann.create("narrowed #once")
    await scene.bob.share(post)
    assert await scene.texts() == ["narrowed #once"]
    await scene.ann.update(post, visibility=Visibility.FOLLOWERS)
    await scene.bob.follow(scene.ann)
    await scene.bob.like(post)
    assert await scene.texts() == []
    assert await scene.target.read("SELECT member_id FROM shares UNION SELECT member_id FROM likes") == []
    assert await scene.target.read("SELECT post_id FROM tags") == []


async def _pending_member(scene: Scene) -> None:
    cyd = await scene.shoal.register("cyd", pending=True)
    await scene.texts()
    assert await scene.target.read("SELECT name FROM members ORDER BY name") == [("ann",), ("bob",)]
    await scene.shoal.moderation.approve(cyd)
    await scene.shoal.settle()
    await (await scene.shoal.member("cyd")).create("approved")
    assert await scene.texts() == ["approved"]


async def _suspended_member(scene: Scene) -> None:
    post = await scene.ann.create("before")
    await scene.bob.comment(post, "a comment")
    await scene.ann.follow(scene.bob)
    assert await scene.texts() == ["before", "a comment"]
    await scene.shoal.suspend(scene.ann)
    assert await scene.texts() == ["a comment"]
    assert await scene.target.read("SELECT * FROM follows") == []
    await scene.shoal.restore(scene.ann)
    assert await scene.texts() == ["before", "a comment"]
    assert len(await scene.target.read("SELECT * FROM follows")) == 1


async def _block(scene: Scene) -> None:
    """A block ends the follows between both; public posts stay what an anonymous visitor sees."""
    await scene.ann.follow(scene.bob)
    await scene.bob.follow(scene.ann)
    await scene.bob.like(await scene.ann.create("seen"))
    assert await scene.texts() == ["seen"]
    assert len(await scene.target.read("SELECT * FROM follows")) == 2
    await scene.ann.block(scene.bob)
    assert await scene.texts() == ["seen"]
    assert await scene.target.read("SELECT * FROM follows") == []


async def _deleted_account(scene: Scene) -> None:
    await scene.bob.comment(await scene.ann.create("of ann #gone"), "of bob")
    await scene.bob.follow(scene.ann)
    assert await scene.texts() == ["of ann #gone", "of bob"]
    await scene.shoal.delete_member(scene.ann)
    assert await scene.texts() == ["of bob"]
    await worked_off(scene.shoal, days=1)
    await read_all(scene.target, scene.source)
    stored = await contents(scene.target)
    assert not any(scene.ann.id in row[:3] for name in ("members", "posts", "tags", "follows") for row in stored[name])
    named = "SELECT count(*) FROM shoal_edges WHERE $1 IN (id1, id2, member_id, object_id) AND NOT deleted"
    assert await scene.target.read(named, scene.ann.id) == [(0,)]
    assert await scene.texts() == ["of bob"]


async def _posts_of_each_audience(scene: Scene) -> None:
    await scene.ann.create("@bob a letter", visibility=Visibility.DIRECT)
    await scene.ann.create("for followers", visibility=Visibility.FOLLOWERS)
    await scene.ann.create("unlisted", visibility=Visibility.UNLISTED)
    assert await scene.texts() == ["unlisted"]


@pytest.mark.parametrize(
    "story",
    [
        _hidden_post,
        _post_that_waits_for_approval,
        _edit_that_waits_for_approval,
        _edited_post,
        _narrowed_post,
        _pending_member,
        _suspended_member,
        _block,
        _deleted_account,
        _posts_of_each_audience,
    ],
)
def test_projection_shows_what_anonymous_visitor_may_see(
    tmp_path: Path, story: Callable[[Scene], Awaitable[None]]
) -> None:
    with network_fixture(moderation=WordCheck(), event_log="on") as logged:
        source = RoutedSource(logged, key_of(logged, *PUBLIC), Random(1))

        async def told() -> None:
            shoal = Shoal(logged.network)
            ann, bob = await shoal.register("ann"), await shoal.register("bob")
            async with opened(f"sqlite:///{tmp_path}/copy.db") as target:
                await story(Scene(shoal, source, target, ann, bob))

        logged.run(told())
