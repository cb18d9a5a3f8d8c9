"""Members through the library: relationships, profiles, logins, data export and moderation."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal import Shoal
from shoal.commands.polls import PollDraft
from shoal.errors import Gone, InvalidInput, NotAllowed, NotFound, Taken, Unauthenticated, Unfit
from tests.api.in_memory_network import picture
from tests.async_runner import in_loop
from tests.library.network_fixtures import opened, stores


@stores
@in_loop
async def test_library_follow_requests_mutes_notes_and_member_lists_are_changed_and_read(
    store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob, cyd = [await shoal.register(name) for name in ("ann", "bob", "cyd")]
        await ann.update_profile(locked=True)
        assert (await bob.follow(ann)).requested
        assert names(await ann.requests()) == ["bob"]
        await ann.authorize("bob")
        await cyd.follow(ann)
        await ann.reject(cyd)
        assert names(await ann.followers()) == names(await shoal.visitor.followers_of(ann)) == ["bob"]
        assert names(await shoal.visitor.following_of("bob")) == ["ann"]
        with pytest.raises(NotFound):
            await ann.authorize(cyd)
        await ann.mute(cyd, notifications=False, seconds=600)
        assert names(await ann.muted()) == ["cyd"]
        assert (await ann.relations(cyd))[cyd.id].muted_until > 0
        await ann.unmute(cyd)
        assert (await ann.note(bob, "met at the weir")).note == "met at the weir"
        await bob.endorse(ann)
        assert names(await bob.endorsed()) == names(await shoal.visitor.endorsed_by(bob)) == ["ann"]
        await bob.unendorse(ann)
        await cyd.follow(bob)
        assert [one.member.name for one in (await cyd.familiar(ann))[ann.id]] == ["bob"]
        await ann.remove_follower(bob)
        assert names(await ann.followers()) == []
        await ann.block(bob)
        assert names(await ann.blocked()) == ["bob"]
        with pytest.raises(NotAllowed):
            await ann.follow(ann)
        await ann.update_profile(hides_connections=True)
        assert names(await shoal.visitor.followers_of(ann)) == []


def names(page: object) -> list[str]:
    return [one.member.name for one in page.profiles]  # type: ignore[attr-defined]


@stores
@in_loop
async def test_library_posts_are_pinned_voted_on_bookmarked_and_found(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob = [await shoal.register(name) for name in ("ann", "bob")]
        asked = await ann.create("Which? #heron", poll=PollDraft(options=("a", "b"), seconds=600))
        view = await bob.vote(asked.poll_id, 1)
        assert (view.votes, view.choices) == ((0, 1), (1,))
        assert (await shoal.visitor.poll(view)).choices is None
        with pytest.raises(InvalidInput):
            await bob.vote(view, 0)
        await ann.pin(asked)
        assert [entry.post.id for entry in await shoal.visitor.pinned_by(ann)] == [asked.id]
        await ann.unpin(asked)
        await bob.like(asked)
        await bob.bookmark(asked)
        await bob.share(asked, visibility="unlisted")
        await shoal.settle()
        assert [entry.id for entry in (await bob.likes()).entries] == [asked.id]
        assert [entry.id for entry in (await bob.bookmarks()).entries] == [asked.id]
        assert names(await shoal.visitor.liked_by(asked)) == names(await ann.shared_by(asked)) == ["bob"]
        assert [entry.id for entry in (await shoal.visitor.tagged("#Heron")).entries] == [asked.id]
        assert [entry.id for entry in (await shoal.visitor.public()).entries] == [asked.id]
        assert [entry.id for entry in await bob.search_posts("which", author=ann)] == [asked.id]
        assert [one.member.name for one in await shoal.visitor.search_members("an")] == ["ann"]
        assert await shoal.visitor.search_tags("her") == ["heron"]
        everything = await bob.search("heron")
        assert ([entry.id for entry in everything.posts], everything.tags) == ([asked.id], ["heron"])
        assert [one.member.name for one in (await bob.search("ann")).members] == ["ann"]
        assert [entry.id for entry in (await bob.posts_by(ann, tag="heron", no_shares=True)).entries] == [asked.id]
        assert (await bob.posts_by(ann, only_media=True)).entries == []
        await bob.mute_thread(asked)
        assert (await bob.read(asked)).thread_muted
        await bob.unmute_thread(asked)
        second = await ann.update(asked, spoiler="a question")
        assert (second.text, second.spoiler, second.poll_id) == (asked.text, "a question", asked.poll_id)
        assert [old.spoiler for old in await shoal.visitor.history(asked)] == [""]


@in_loop
async def test_library_post_edit_clears_fields_given_as_none() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        post = await ann.create("x", place=(0.0, 2.0), data={"n": [1, 2.5, None]}, language="en")
        kept = await ann.update(post, "y")
        assert (kept.place, kept.data, kept.language) == ((0.0, 2.0), {"n": [1, 2.5, None]}, "en")
        bare = await ann.update(post, place=None, data=None)
        assert (bare.text, bare.place, bare.data) == ("y", None, None)


@stores
@in_loop
async def test_library_media_is_described_attached_and_discarded(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob = [await shoal.register(name) for name in ("ann", "bob")]
        photo = await ann.upload(picture(), description="A heron", focus=(0.5, 0.5))
        assert (await ann.describe(photo, description="A gray heron")).focus == (0.5, 0.5)
        assert (await ann.media(photo.id)).description == "A gray heron"
        with pytest.raises(NotFound):
            await bob.media(photo)
        await ann.create("Look", media=[photo])
        with pytest.raises(Unfit):
            await ann.discard(photo)
        other = await ann.upload(picture())
        await ann.discard(other)
        with pytest.raises(NotFound):
            await ann.media(other)


@stores
@in_loop
async def test_library_password_is_changed_and_used_to_log_in_and_account_data_is_exported(
    store: str, tmp_path: Path
) -> None:
    async with opened(store, tmp_path) as shoal:
        ann = await shoal.register("ann", "a long password", email="ann@example.org")
        await ann.create("A heron")
        with pytest.raises(InvalidInput):
            await ann.change_password("wrong", "another password")
        await ann.change_password("a long password", "another password")
        with pytest.raises(Unauthenticated):
            await shoal.log_in("ann", "a long password")
        await shoal.set_password("ann", "a third password")
        assert (await shoal.log_in("ann@example.org", "a third password")).id == ann.id
        assert (await ann.sessions()).sessions == []
        assert await ann.export(tmp_path / "ann") == 0
        assert "A heron" in "".join(path.read_text() for path in (tmp_path / "ann").rglob("posts*"))


@stores
@in_loop
async def test_library_moderation_handles_reports_and_member_states(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path, rules=("Be kind",)) as shoal:
        ann, bob, eve = [await shoal.register(name) for name in ("ann", "bob", "eve")]
        bait = await eve.create("Click here")
        report = await ann.report(eve, posts=[bait], comment="spam", category="violation", rules=["1"])
        with pytest.raises(InvalidInput):
            await ann.report(eve, category="violation", rules=["2"])
        moderation = shoal.moderation
        assert (await moderation.reports(about="eve", by="ann")).reports == [report]
        assert (await moderation.reports(about="bob")).reports == []
        assert [entry.post for entry in await moderation.reported_posts(report)] == [bait]
        assert (await moderation.assign(report, bob)).assigned_to == bob.id
        assert (await moderation.assign(report, None)).assigned_to == 0
        assert (await moderation.sort(report, category="spam")).category == "spam"
        assert (await moderation.resolve(report, by=bob)).closed_by == bob.id
        assert (await moderation.reports()).reports == []
        assert [one.id for one in (await moderation.reports(resolved=True)).reports] == [report.id]
        assert (await moderation.reopen(report)).closed_by == 0
        await moderation.set_role(bob, "moderator")
        assert [one.name for one in (await moderation.members(roles=["moderator"])).members] == ["bob"]
        for verb, undo, state in (
            (moderation.suspend, moderation.restore, "suspended"),
            (moderation.silence, moderation.unsilence, "silenced"),
            (moderation.disable, moderation.enable, "disabled"),
            (moderation.sensitize, moderation.unsensitize, "sensitized"),
        ):
            await verb("eve")
            assert [one.name for one in (await moderation.members(states=[state])).members] == ["eve"]  # type: ignore[list-item]
            await undo("eve")
            assert (await moderation.members(states=[state])).members == []  # type: ignore[list-item]
        await moderation.suspend(eve)
        with pytest.raises(Gone):
            await shoal.visitor.profile_of("eve")
        waiting = await shoal.register("fay", pending=True, reason="birds")
        assert [one.name for one in (await moderation.members(states=["pending"])).members] == ["fay"]
        await moderation.approve(waiting.id)
        with pytest.raises(NotAllowed):
            await moderation.reject("fay")
        await moderation.keep_from_trends(await ann.create("A heron"))
        await moderation.deny_tag("spam")
        assert await moderation.denied_tags() == ["spam"]
        await moderation.allow_tag("spam")
        assert await moderation.denied_tags() == []


@in_loop
async def test_library_blocklists_are_changed_and_queried() -> None:
    async with Shoal.open("memory://") as shoal:
        lists = shoal.blocklists
        block = await lists.block_network("192.0.2.0/24")
        changed = await lists.update_network(block, severity="sign_up_block", comment="a farm")
        assert (changed.network, changed.severity, changed.comment) == (block.network, "sign_up_block", "a farm")
        assert await lists.network(block.id) == changed
        address = await lists.block_address("eve@example.org")
        assert [one.id for one in await lists.refusing("e.v.e+x@example.org")] == [address.id]
        with pytest.raises(Taken):
            await lists.block_digest(address.digest)
        domain = await lists.block_domain("spam.example")
        assert await lists.domain(domain.id) == domain
        assert await lists.address(address.id) == address


@stores
@in_loop
async def test_library_tags_are_followed_featured_and_suggested(store: str, tmp_path: Path) -> None:
    async with opened(store, tmp_path) as shoal:
        ann, bob = [await shoal.register(name) for name in ("ann", "bob")]
        await ann.create("#heron")
        await shoal.settle()
        assert await ann.featurable() == ["heron"]
        assert (await ann.feature("#Heron")).posts == 1
        assert [one.name for one in await shoal.visitor.featured_by(ann)] == ["heron"]
        await ann.unfeature("heron")
        assert await shoal.visitor.featured_by(ann) == []
        await bob.follow_tag("heron")
        assert [tag.data.decode() for tag in (await bob.followed_tags()).tags] == ["heron"]
        await ann.follow(bob)
        cyd = await shoal.register("cyd")
        await bob.follow(cyd)
        await shoal.settle()
        assert "cyd" in [one.profile.member.name for one in await ann.suggestions()]
        await ann.dismiss_suggestion("cyd")
        assert "cyd" not in [one.profile.member.name for one in await ann.suggestions()]
