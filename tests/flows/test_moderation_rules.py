"""Moderation rules of a network: storage, dry runs over stored content, and the rules in force in a process."""

from __future__ import annotations

import asyncio
import random
import time
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from shoal import Shoal
from shoal.admin.moderation_rules import RuleBook
from shoal.app.network import open_network
from shoal.commands import moderation_rules, posts
from shoal.commands.polls import PollDraft
from shoal.core.audit import AuditVerb
from shoal.core.errors import InvalidInput, NotFound, Unavailable, Unfit
from shoal.core.ids import compose, shard_of
from shoal.core.moderation_rules import DAY_MS, Conditions, Rule, RuleDraft, RuleState
from shoal.core.publishing import Candidate, MediaFacts
from shoal.graph.contract import Store
from shoal.queries import moderation_rules as module
from shoal.queries.moderation_rules import dry_run
from shoal.settings import build
from tests.async_runner import eventually, in_loop, run
from tests.flows.members import register
from tests.flows.test_bulk_moderation import chart
from tests.stores import Backend


def draft(name: str = "Spam", **conditions: Any) -> RuleDraft:
    return RuleDraft(name=name, conditions=Conditions(**conditions or {"words": ("spam",)}))


def candidate(text: str, **values: Any) -> Candidate:
    given = {"kind": "post", "member_id": 1, "member_name": "ann", "member_created_at": 0.0, "member_posts": 1}
    return Candidate(**{**given, "text": text, **values})


@in_loop
async def test_rule_is_created_changed_armed_and_deleted_with_audit_entries() -> None:
    async with Shoal.open("memory://") as shoal:
        rules = shoal.moderation_rules
        made = await rules.create(draft())
        assert (made.id, made.state) == (1, RuleState.OFF)
        with pytest.raises(Unfit, match="do a dry run"):
            await rules.set_state(made.id, "armed")
        await rules.dry_run([made.id])
        assert (await rules.set_state(made.id, "armed")).state is RuleState.ARMED
        changed = await rules.update(made.id, draft(words=("ham",)))
        assert (changed.state, changed.dry_run) == (RuleState.DRY_RUN, None)
        await rules.delete(made.id)
        assert await rules.all() == []
        assert (await rules.create(draft())).id == 2
        with pytest.raises(NotFound):
            await rules.delete(made.id)
        with pytest.raises(InvalidInput, match="expected one of off, dry_run, armed"):
            await rules.set_state(2, "on")
        entries = (await shoal.moderation.audit_log()).entries
        assert [(each.entry.verb, each.entry.target_id, each.entry.target_name) for each in entries] == [
            (AuditVerb.RULE_CREATED, 2, "Spam"),
            (AuditVerb.RULE_DELETED, 1, "Spam"),
            (AuditVerb.RULE_CHANGED, 1, "Spam"),
            (AuditVerb.RULE_STATE_CHANGED, 1, "Spam"),
            (AuditVerb.RULE_CREATED, 1, "Spam"),
        ]


@in_loop
async def test_concurrent_changes_of_rules_all_take_effect() -> None:
    async with Shoal.open("memory://") as shoal:
        await asyncio.gather(*(shoal.moderation_rules.create(draft(f"Rule {n}")) for n in range(20)))
        assert sorted(rule.id for rule in await shoal.moderation_rules.all()) == list(range(1, 21))


def test_rules_are_stored_on_every_store(backend: Backend) -> None:
    async def once(store: Store) -> None:
        from shoal.commands.context import Writes  # noqa: PLC0415
        from shoal.core.ids import IdMaker  # noqa: PLC0415

        writes = Writes(store, IdMaker(), media=None)  # type: ignore[arg-type]  # rules need no media
        assert (await moderation_rules.stored(store)).rules == ()
        made = await moderation_rules.create(writes, draft())
        await moderation_rules.set_state(writes, made.id, RuleState.DRY_RUN)
        (stored,) = (await moderation_rules.stored(store)).rules
        assert (stored.name, stored.state, stored.conditions.words) == ("Spam", RuleState.DRY_RUN, ("spam",))

    async def opened() -> None:
        async with backend.open() as store:
            await once(store)

    run(opened())


@in_loop
async def test_dry_run_reports_hits_without_any_effect() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, mod = await register(shoal, "ann", "ben", "moe")
        await shoal.moderation.set_role(mod.id, "moderator")
        first = await ann.create("SPAM one", spoiler="x")
        await ann.create("ham")
        secret = await ben.create("spam for friends", visibility="followers")
        poll = await ben.create("?", poll=PollDraft(options=("spam", "eggs"), seconds=3_600))
        staff = await mod.create("no spam, please")
        await shoal.hide(first)
        spam = await shoal.moderation_rules.create(draft())
        none = await shoal.moderation_rules.create(draft("Other", words=("nothing",)))
        report = await shoal.moderation_rules.dry_run(days=1)
        assert (report.complete, report.posts, report.hits) == (True, 5, 4)
        found, empty = report.rules
        assert (found.rule.id, found.hits, found.members, found.trusted, found.hidden) == (spam.id, 4, 3, 1, 1)
        assert (empty.rule.id, empty.hits, empty.newest) == (none.id, 0, [])
        assert [hit.id for hit in found.newest] == [staff.id, poll.id, secret.id, first.id]
        assert [hit.text for hit in found.newest] == ["no spam, please", "? spam eggs", "", "x SPAM one"]
        assert (await ben.read(poll)).post.hidden == 0
        stored = (await shoal.moderation_rules.all())[0]
        assert stored.dry_run is not None
        assert (stored.dry_run.posts, stored.dry_run.hits) == (5, 4)
        for days in (0, 91):
            with pytest.raises(InvalidInput, match="1 to 90"):
                await shoal.moderation_rules.dry_run(days=days)
        with pytest.raises(NotFound):
            await shoal.moderation_rules.dry_run([99])


@pytest.mark.parametrize("direct", [False, True])
@in_loop
async def test_dry_run_leaves_out_direct_posts_unless_new_ones_are_checked(direct: bool) -> None:
    async with open_network(build(store="memory://", media="memory://", moderation_direct=direct)) as network:
        shoal = Shoal(network)
        ann, ben = await register(shoal, "ann", "ben")
        secret = await ann.create("spam for @ben", visibility="direct")
        await ben.create("ham")
        await shoal.moderation_rules.create(draft())
        report = await shoal.moderation_rules.dry_run(days=1)
        assert [hit.id for hit in report.rules[0].newest] == ([secret.id] if direct else [])
        assert (report.posts, report.hits) == (1 + direct, direct)


@in_loop
async def test_dry_run_shows_no_texts_of_uploads() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _ben = await register(shoal, "ann", "ben")
        await ann.create("@ben", media=[await ann.upload(chart(1), description="secret spam")], visibility="direct")
        await shoal.moderation_rules.create(
            RuleDraft(name="Uploads", conditions=Conditions(words=("spam",)), kinds=("media",))
        )
        report = await shoal.moderation_rules.dry_run(days=1)
        assert [(hit.kind, hit.text) for hit in report.rules[0].newest] == [("media", "")]


@in_loop
async def test_dry_run_of_long_texts_lets_other_tasks_run() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for n in range(3):
            await ann.create(f"post {n}", data="ä " * 15_000)
        await shoal.moderation_rules.create(draft(words=("a " * 49 + "b",)))
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(take_turns())
        report = await shoal.moderation_rules.dry_run(days=1)
        other.cancel()
        assert (report.posts, report.hits) == (3, 0)
        # Without a thread, there are fewer turns than objects read.
        assert turns > 100


@in_loop
async def test_dry_run_beyond_its_time_reports_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for n in range(5):
            await ann.create(f"spam {n}")
            await asyncio.sleep(0.002)
        rule = await shoal.moderation_rules.create(draft())
        now = shoal.network.writes.new_id.now()
        whole = await dry_run(shoal.network.store, [rule], 1, now)
        assert (whole.complete, whole.hits) == (True, 5)
        none = await dry_run(shoal.network.store, [rule], 1, now, seconds=0)
        assert (none.complete, none.posts, none.since) == (False, 0, now)
        ticks = iter(range(1_000))
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
        part = await dry_run(shoal.network.store, [rule], 1, now, seconds=4)
        oldest = part.rules[0].newest[-1]
        assert (part.complete, part.posts, part.hits) == (False, 3, 3)
        assert part.since in {oldest.at, oldest.at + 1}


@in_loop
async def test_dry_run_finds_bursts_new_members_and_other_kinds() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        made = [await ann.create(f"post {n}") for n in range(5)]
        await ben.create("post")
        await ben.update_profile(note="spam in a profile")
        burst = await shoal.moderation_rules.create(draft(more_posts_than=3))
        few = await shoal.moderation_rules.create(draft(fewer_posts_than=2))
        profile = await shoal.moderation_rules.create(
            RuleDraft(name="p", conditions=Conditions(words=("spam",)), kinds=("profile",))
        )
        report = await shoal.moderation_rules.dry_run(days=1)
        hits = {found.rule.id: found for found in report.rules}
        assert [hit.id for hit in hits[burst.id].newest] == [made[4].id, made[3].id]
        assert {hit.id for hit in hits[few.id].newest} == {made[0].id, made[1].id, *ids_of(hits[few.id], "ben")}
        assert hits[few.id].hits == 3
        assert [(hit.kind, hit.id) for hit in hits[profile.id].newest] == [("profile", ben.id)]


@pytest.mark.parametrize("scanned", [8, 2_000])
@in_loop
async def test_dry_run_finds_bursts_across_pages(scanned: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.queries.moderation.SCANNED", scanned)
    monkeypatch.setattr("shoal.queries.moderation_rules.SEARCH_SCANS", 10_000)
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        chance, now = random.Random(5), time.time_ns() // 1_000_000
        times = sorted(now - 1_000 - chance.randrange(5 * 3_600_000) for _ in range(120))
        for moment in times:
            id_ = compose(moment, shard_of(ann.id))
            await posts.create(shoal.network.writes, ann.id, posts.Draft(text="hello"), id_=id_)
        rule = await shoal.moderation_rules.create(draft(more_posts_than=4))
        (found,) = (await shoal.moderation_rules.dry_run([rule.id], days=1)).rules
        bursts = [at for at in times if sum(at - 600_000 <= other <= at for other in times) > 4]
        assert found.hits == len(bursts)
        assert 0 < found.hits < 120
        assert [hit.at for hit in found.newest] == bursts[: -1 - len(found.newest) : -1]


def ids_of(found: Any, name: str) -> set[int]:
    return {hit.id for hit in found.newest if hit.member_name == name}


@in_loop
async def test_dry_run_reports_how_far_it_came_within_its_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = [await ann.create(f"spam {n}") for n in range(40)]
        await shoal.moderation_rules.create(draft())
        monkeypatch.setattr("shoal.queries.moderation.SCANNED", 16)
        checked = []
        for scans in range(1, 80, 3):
            monkeypatch.setattr("shoal.queries.moderation_rules.SEARCH_SCANS", scans)
            report = await shoal.moderation_rules.dry_run(days=30)
            # Some posts of the millisecond before may have been checked, too.
            assert report.posts >= sum(post.created_at >= report.since for post in made)
            assert report.posts <= sum(post.created_at >= report.since - 1 for post in made)
            assert report.rules[0].hits == report.posts
            assert report.complete is (report.since <= report.at - 30 * DAY_MS)
            checked.append(report.posts)
        assert checked[0] < 40
        assert 40 in checked


def is_active(book: RuleBook) -> bool:
    return bool(book.checks)


@in_loop
async def test_rule_book_applies_armed_rules_and_counts_dry_runs() -> None:
    async with Shoal.open("memory://") as shoal:
        book = RuleBook(shoal.network.store)
        await book.look()
        assert not is_active(book)
        spam = await shoal.moderation_rules.create(draft())
        await book.look()
        assert not is_active(book)
        await shoal.moderation_rules.set_state(spam.id, "dry_run")
        await book.look()
        assert is_active(book)
        assert (await book.check(candidate("spam"))).action == "allow"
        assert book.matches == {RuleState.DRY_RUN: 1, RuleState.ARMED: 0}
        await shoal.moderation_rules.dry_run()
        await shoal.moderation_rules.set_state(spam.id, "armed")
        await book.look()
        assert (await book.check(candidate("spam"))).action == "hold"
        assert (await book.check(candidate("ham"))).action == "allow"
        assert book.matches[RuleState.ARMED] == 1


@in_loop
async def test_rule_book_learns_of_removed_pictures_within_a_minute() -> None:
    now = [0.0]
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        media = await ann.upload(chart(1))
        post = await ann.create("look", media=[media])
        rule = await shoal.moderation_rules.create(draft(like_removed="same"))
        await shoal.moderation_rules.dry_run()
        await shoal.moderation_rules.set_state(rule.id, "armed")
        book = RuleBook(shoal.network.store, clock=lambda: now[0])
        await book.look()
        again = candidate("", media=(MediaFacts(id=1, kind="image", blurhash=media.blurhash),))
        assert (await book.check(again)).action == "allow"
        await shoal.hide(post)
        now[0] = 61.0
        await book.look()
        assert (await book.check(again)).action == "hold"
        assert (await shoal.moderation_rules.dry_run()).rules[0].hits == 1
        assert ben.id


class Counting:
    """A graph that counts how often the rules are read."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.reads = 0

    async def key_get(self, keys: Any) -> Any:
        self.reads += 1
        return await self._graph.key_get(keys)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)


@in_loop
async def test_rule_book_of_idle_process_reads_rules_before_the_next_check() -> None:
    async with Shoal.open("memory://") as shoal:
        graph: Any = Counting(shoal.network.store)
        book = RuleBook(graph, every=0.001)
        await book.look()
        book.start()
        rule = await shoal.moderation_rules.create(draft())
        await shoal.moderation_rules.set_state(rule.id, "dry_run")
        await asyncio.sleep(0.05)
        assert (graph.reads, is_active(book)) == (1, False)
        await book.stop()
        # The rules are due for the first check only, however slow the machine is.
        book._every = 60.0
        book._read_at -= 60.0
        await asyncio.gather(*[book.refresh() for _ in range(5)])
        assert (graph.reads, is_active(book)) == (2, True)


@in_loop
async def test_rule_book_of_active_process_reads_rules_in_the_background() -> None:
    async with Shoal.open("memory://") as shoal:
        graph: Any = Counting(shoal.network.store)
        book = RuleBook(graph, every=0.001)
        await book.look()
        book.start()
        book._used = True

        async def reads() -> int:
            return cast("int", graph.reads)

        await eventually(reads, 2)
        await book.stop()


@in_loop
async def test_rule_book_that_cannot_read_rules_tries_again_after_its_interval() -> None:
    async with Shoal.open("memory://") as shoal:
        book = RuleBook(shoal.network.store, every=60.0)
        graph: Any = Counting(Failing(Unavailable("down")))
        book._graph = graph
        for _ in range(3):
            await book.refresh()
        assert graph.reads == 1


class Failing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def key_get(self, keys: Any) -> Any:
        raise self._error


@in_loop
@pytest.mark.parametrize("error", [Unavailable("down"), msgspec.ValidationError("unknown condition")])
async def test_rule_book_keeps_its_rules_while_they_cannot_be_read(error: Exception) -> None:
    async with Shoal.open("memory://") as shoal:
        rule: Rule = await shoal.moderation_rules.create(draft())
        await shoal.moderation_rules.set_state(rule.id, "dry_run")
        book = RuleBook(shoal.network.store)
        await book.look()
        book._graph = Failing(error)  # type: ignore[assignment]
        await book.look()
        assert is_active(book)
