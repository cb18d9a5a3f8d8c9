"""Ids are unique across processes with identical, stopped clocks, for objects and all other records."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from msgspec.structs import replace as changed

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import (
    audit,
    authentication,
    blocklists,
    filters,
    media,
    members,
    oauth,
    polls,
    posts,
    reactions,
    scheduled_posts,
)
from shoal.commands.context import Writes
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.consumers.mail import Whom, prove
from shoal.core.audit import AuditVerb, member_target
from shoal.core.blocklists import IpBlock, IpSeverity
from shoal.core.credentials import Purpose
from shoal.core.email import MailKind
from shoal.core.events import MailDue
from shoal.core.filters import Filter, FilterContext
from shoal.core.ids import IdMaker, shard_of
from shoal.core.model import App, Member, Poll, Post, ScheduledPost
from shoal.core.placement import place
from shoal.graph.contract import Batch, Cursor, KeyTaken
from shoal.graph.member_lookup import login_of
from shoal.graph.payloads.posts import emoji_positions
from shoal.graph.schema import AGENDA, AUDITED, CHOSEN_BY, DUE, public_list
from shoal.scheduler import Agenda
from tests.api.in_memory_network import picture
from tests.async_runner import in_loop

PROCESSES = 12
MINUTE = 60_000
POLL = PollDraft(options=("a", "b", "c", "d"), seconds=600, multiple=True)


class Network(NamedTuple):
    """A network, its processes, and one member for each process; all members are on one shard."""

    shoal: Shoal
    now: int
    processes: list[Writes]
    members: list[Handle]

    @property
    def shard(self) -> int:
        return shard_of(self.members[0].id)


def names_of_one_shard(number: int) -> list[str]:
    """Return `number` user names on a single shard."""
    found: dict[int, list[str]] = {}
    for at in count():
        names = found.setdefault(place(name := f"m{at}").shard, [])
        names.append(name)
        if len(names) == number:
            return names
    raise AssertionError


@asynccontextmanager
async def network(tmp_path: Path, url: str, seed: int = 0) -> AsyncIterator[Network]:
    """Yield a network whose processes share a stopped clock and start within 8 sequence numbers of each other."""
    random = Random(seed)
    async with Shoal.open(url.format(tmp_path)) as shoal:
        names = names_of_one_shard(PROCESSES)
        handles = [await shoal.register(name) for name in names]
        await shoal.settle()
        now = time.time_ns() // 1_000_000 + 1_000
        writes = shoal.network.writes
        processes = [replace(writes, new_id=IdMaker(lambda: now, first=random.randrange(8))) for _ in range(PROCESSES)]
        yield Network(shoal, now, processes, handles)


def check_unique(ids: Iterable[int]) -> None:
    """Assert that no id occurs twice."""
    assert [id_ for id_, number in Counter(ids).items() if number > 1] == []


async def together(waiting: Iterable[Awaitable[object]]) -> list[object]:
    """Run all of these concurrently, and return their results."""
    return list(await asyncio.gather(*waiting))


STORES = pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/shoal.db"], ids=["memory", "sqlite"])


@STORES
@in_loop
async def test_poll_option_ids_of_processes_with_equal_clocks_are_unique(tmp_path: Path, url: str) -> None:
    async with network(tmp_path, url) as there:
        made = await together(
            posts.create(process, member.id, Draft(text="?", poll=POLL))
            for process, member in zip(there.processes, there.members, strict=True)
        )
        poll_ids = [post.poll_id for post in made if isinstance(post, Post)]
        nodes = (await there.shoal.network.store.obj_get(poll_ids)).values()
        found = [node for node in nodes if isinstance(node, Poll)]
        check_unique(option.id for poll in found for option in poll.options)
        await together(
            polls.vote(process, member.id, poll_ids[at - 1], (3,))
            for at, (process, member) in enumerate(zip(there.processes, there.members, strict=True))
        )
        await there.shoal.settle()
        for poll in found:
            counts = await there.shoal.network.store.assoc_count([o.id for o in poll.options], (CHOSEN_BY,))
            assert counts[CHOSEN_BY] == {poll.options[3].id: 1}


@STORES
@in_loop
async def test_scheduler_tickets_of_processes_with_equal_clocks_are_unique_and_all_processed(
    tmp_path: Path, url: str
) -> None:
    async with network(tmp_path, url) as there:
        pairs = list(zip(there.processes, there.members, strict=True))
        planned = await together(
            scheduled_posts.schedule(process, member.id, Draft(text=f"by {member.id}"), there.now + 10 * MINUTE)
            for process, member in pairs
        )
        await together(media.upload(process, member.id, picture()) for process, member in pairs)
        await together(oauth.register(process, "Tide") for process in there.processes)
        await together(
            blocklists.block_ip(process, f"192.0.2.{at}", IpSeverity.NO_ACCESS, seconds=600)
            for at, process in enumerate(there.processes)
        )
        # Half of the posts are moved, each by the process of another member.
        await together(
            scheduled_posts.put_off(process, one.owner_id, one.id, there.now + 20 * MINUTE)
            for process, one in zip(reversed(there.processes), planned[::2], strict=False)
            if isinstance(one, ScheduledPost)
        )
        due = await there.shoal.network.store.assoc_range(AGENDA, DUE, Cursor(limit=1_000))
        assert len(due) == 4 * PROCESSES
        check_unique(ticket.id2 for ticket in due)
        check_unique(int.from_bytes(ticket.data) for ticket in due)
        await there.shoal.settle()
        assert (await check(there.shoal.network)).clean
        await Agenda(there.shoal.network.writes, clock=lambda: there.now + 30 * MINUTE).once()
        await there.shoal.settle()
        for member in there.members:
            assert [entry.post.text for entry in (await member.home()).entries] == [f"by {member.id}"]
        nodes = await there.shoal.network.store.obj_scan(0, 1_000)
        assert not any(isinstance(node, IpBlock | ScheduledPost) for node in nodes)
        assert sum(isinstance(node, App) for node in nodes) == PROCESSES


@STORES
@in_loop
async def test_ids_of_emoji_added_to_a_post_by_processes_with_equal_clocks_are_unique(tmp_path: Path, url: str) -> None:
    async with network(tmp_path, url) as there:
        pairs = list(zip(there.processes, there.members, strict=True))
        made = [await member.create("look") for member in there.members]
        # On each post two processes add different emoji at once.
        await together(
            reactions.react(process, member.id, made[(at + step) % PROCESSES].id, emoji)
            for at, (process, member) in enumerate(pairs)
            for step, emoji in ((1, "🎉"), (2, "🌊"))
        )
        await there.shoal.settle()
        shown = await emoji_positions(there.shoal.network.store, [post.id for post in made])
        assert [sorted(one.emoji for one in shown[post.id]) for post in made] == [["🌊", "🎉"]] * PROCESSES
        check_unique(one.id for places in shown.values() for one in places)
        assert (await check(there.shoal.network)).clean


@STORES
@in_loop
async def test_audit_entries_of_processes_with_equal_clocks_are_all_kept(tmp_path: Path, url: str) -> None:
    async with network(tmp_path, url) as there:
        store = there.shoal.network.store
        before = len(await store.assoc_range(public_list(there.shard), AUDITED, Cursor(limit=1_000)))
        acts = []
        for process, handle in zip(there.processes, there.members, strict=True):
            member = (await handle.profile()).member
            acts += [
                audit.note_alone(process, AuditVerb.SESSION_ENDED, member_target(member)),
                audit.note_failed_login(process, member.id, member.name, "192.0.2.1", "password"),
            ]
        await together(acts)
        entries = await store.assoc_range(public_list(there.shard), AUDITED, Cursor(limit=1_000))
        assert len(entries) - before == 2 * PROCESSES


@in_loop
async def test_post_revisions_of_processes_with_equal_clocks_are_all_kept(tmp_path: Path) -> None:
    async with network(tmp_path, "memory://") as there:
        made = [await member.create("first") for member in there.members]
        await together(
            posts.update(process, member.id, post.id, Draft(text="second", poll=POLL))
            for process, member, post in zip(there.processes, there.members, made, strict=True)
        )
        await there.shoal.settle()
        assert (await check(there.shoal.network)).clean
        for member, post in zip(there.members, made, strict=True):
            assert [one.text for one in await member.history(post.id)] == ["first"]


@in_loop
async def test_member_ids_of_processes_with_equal_clocks_are_unique(tmp_path: Path) -> None:
    async with network(tmp_path, "memory://") as there:
        names = names_of_one_shard(2 * PROCESSES)[PROCESSES:]
        made = await together(
            members.register(process, name, email=f"{name}@example.org")
            for process, name in zip(there.processes, names, strict=True)
        )
        await there.shoal.settle()
        check_unique(member.id for member in made if isinstance(member, Member))
        store = there.shoal.network.store
        for member in made:
            assert isinstance(member, Member)
            login = await login_of(store, member)
            assert login is not None
            assert login.member_id == member.id
            await members.check_free(there.processes[0], login.email, member.id)
        assert (await check(there.shoal.network)).clean


@in_loop
async def test_filter_keyword_and_status_ids_of_processes_with_equal_clocks_are_unique(
    tmp_path: Path,
) -> None:
    async with network(tmp_path, "memory://") as there:
        member = there.members[0]
        post = await member.create("look")
        change = FilterChange(title="f", contexts=(FilterContext.HOME,), words=(KeywordChange(keyword="k"),))
        made = await together(filters.create(process, member.id, change) for process in there.processes)
        await together(
            filters.add_post(process, member.id, one.id, post.id)
            for process, one in zip(there.processes, made, strict=True)
            if isinstance(one, Filter)
        )
        nodes = (await there.shoal.network.store.obj_get([one.id for one in made if isinstance(one, Filter)])).values()
        parts = [part for node in nodes if isinstance(node, Filter) for part in (*node.keywords, *node.posts)]
        assert len(parts) == 2 * PROCESSES
        check_unique(part.id for part in parts)  # type: ignore[attr-defined]  # both kinds have ids


@in_loop
async def test_passkey_challenge_used_in_processes_with_equal_clocks_is_accepted_once(tmp_path: Path) -> None:
    async with network(tmp_path, "memory://") as there:
        challenge = await authentication.make_challenge(there.processes[0], Purpose.CONFIRM, there.members[0].id)
        used = 0
        for process in there.processes:
            batch = Batch(there.shard)
            authentication.use_up_challenge(process, batch, challenge)
            try:
                await process.graph.commit(batch)
            except KeyTaken:
                continue
            used += 1
        assert used == 1


@in_loop
async def test_poll_vote_in_processes_with_equal_clocks_is_counted_once(tmp_path: Path) -> None:
    async with network(tmp_path, "memory://") as there:
        single = changed(POLL, multiple=False)
        post = await posts.create(there.processes[0], there.members[0].id, Draft(text="?", poll=single))
        same = [replace(process, new_id=IdMaker(lambda: there.now, first=7)) for process in there.processes]
        answers = await asyncio.gather(
            *(polls.vote(process, there.members[1].id, post.poll_id, (at % 4,)) for at, process in enumerate(same)),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, Poll) for answer in answers) == 1


@in_loop
async def test_mail_link_tokens_of_processes_with_equal_clocks_are_unique(tmp_path: Path) -> None:
    async with network(tmp_path, "memory://") as there:
        graph = there.shoal.network.store
        asked = there.processes[0].new_id(there.shard)
        texts = []
        for process, handle in zip(there.processes, there.members, strict=True):
            member = (await handle.profile()).member
            login = await login_of(graph, member)
            assert login is not None
            due = MailDue(kind=MailKind.CONFIRM, asked=asked, member_id=member.id)
            texts.append(await prove(graph, process.new_id, due, Whom(member, login, "m@example.org")))
        assert len(set(texts)) == PROCESSES
        tickets = await graph.assoc_range(AGENDA, DUE, Cursor(limit=1_000))
        check_unique(int.from_bytes(ticket.data) for ticket in tickets)
        assert len(tickets) == PROCESSES
