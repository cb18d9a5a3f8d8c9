"""The event log without a store: what is logged, cursors, and the merged order of several logs while shards move."""

from __future__ import annotations

import typing
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.audit import MODERATION_VERBS, AuditEntry, AuditVerb, TargetKind
from shoal.core.errors import Conflict, InvalidInput
from shoal.core.ids import shard_of
from shoal.core.model import Member, Post, Share, Visibility
from shoal.graph.contract import MAX_CURSOR, AssocOp, Batch, CursorTooOld, LogCursor, LogEntry, LogPlace, StorePage
from shoal.graph.event_log import (
    ASSOCIATIONS,
    OBJECTS,
    EventLog,
    Logged,
    LogKind,
    LogPage,
    _merged,
    former_visibility,
    place_in,
)
from shoal.graph.memory import MemoryGraph
from shoal.graph.payloads.members import put_entry
from shoal.graph.resolve import Known, Resolution, decide
from shoal.graph.schema import (
    ASSOC_TYPES,
    AUDITED,
    BLOCKS,
    FOLLOWED_BY,
    FOLLOWS,
    LIKES,
    REACTS,
    AnyNode,
    public_list,
)
from tests.async_runner import in_loop
from tests.example_counts import examples
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, moment

NOW = 1_000
SHARD = shard_of(ANN)


UNLOGGED = {
    "is private, or for the staff": (
        "Login ScheduledPost MemberList Invitation Filter EmailDomainBlock CanonicalEmailBlock IpBlock NameBlock "
        "App Token ProductToken ExternalLink ExternalObject AuthorizationCode FeedPreferences SeenPosts ContactSalt "
        "ChallengeKey AccountDeletion EmailToken Webhook WebhookLog HeldContent blocks blocked_by mutes "
        "bookmarks bookmarked_by logged_in webhooks parked_events follows_tag tag_followed_by requests "
        "requested_by notes watches watched_by dismisses mutes_thread schedules votes voted_by chooses chosen_by "
        "owns_list lists listed_in owns_filter notified converses marked held accepts_notices pushes "
        "owns_invitation expiring blocks_email_domain blocks_email blocks_ip blocks_name ip_blocks_changed "
        "declares declared_by server_keys external_ids holds queued StoredRules BulkAction bulk_actions bulk_changed "
        "removed_pictures NamedFeed owns_feed follows_feed sets_feed PostKind kinds StoredReactions reactions"
    ),
    "is part of an object or association that is logged": (
        "Revision Poll shares posted comments_on comments_aside_on in_thread tagged placed_in revised owns "
        "attached published posted_to_followers posted_aside filed reports_post serves report_upheld "
        "report_dismissed follow_times follower_times shows_emoji puts_emoji indexed"
    ),
    "is the inverse of another type, and changes only with it": (
        "shared_by commented_by commented_aside_by thread tag_of cell_of emoji_put_by reported staff "
        "post_reported_by collected_in queue index_of"
    ),
    "arranges a profile": "Album owns_album collects endorses features_tag pins",
    "is upkeep": "ImportProgress loud due_on due active history_kept token_uses_kept",
}
"""The kinds of objects and the association types that are not logged, by the reason."""


def test_event_log_rules_cover_every_object_kind_and_association_type() -> None:
    logged_names = [kind.__name__ for kind in OBJECTS] + [atype.name for atype in ASSOCIATIONS]
    decided = [*logged_names, *" ".join(UNLOGGED.values()).split()]
    every = [kind.__name__ for kind in typing.get_args(AnyNode)] + [atype.name for atype in ASSOC_TYPES.values()]
    assert sorted(decided) == sorted(every)


def test_log_kinds_cover_all_rules_and_have_stable_numbers() -> None:
    objects = [(rule.tens, (1, 2, 3)) for rule in OBJECTS.values()]
    associations = [
        (rule.tens, (1,) if atype is AUDITED else (1, 2, 3) if rule.updates else (1, 3))
        for atype, rule in ASSOCIATIONS.items()
    ]
    labels = {1: ".created", 2: ".updated", 3: ".deleted"}
    for tens, changes in (*objects, *associations):
        assert all(LogKind(tens + change).label.endswith(labels[change]) for change in changes)
    assert (LogKind.POST_CREATED, LogKind.FOLLOW_DELETED, LogKind.REACTION_UPDATED) == (21, 63, 82)
    assert LogKind.POST_CREATED.label == "post.created"


def logged(*batches: Batch, known: Known | None = None) -> list[Logged]:
    changes = Resolution(logs=True)
    known = known or Known()
    for batch in batches:
        with suppress(Conflict):
            decide(batch, known, changes, owns=lambda _: True, now=NOW)
    assert changes.logged is not None
    return changes.logged


def batch_on_ann() -> Batch:
    return Batch(SHARD)


def test_event_log_switched_off_derives_nothing() -> None:
    batch, changes = batch_on_ann(), Resolution()
    batch.obj_add(Member(id=ANN, name="ann"))
    decide(batch, Known(), changes, owns=lambda _: True, now=NOW)
    assert changes.logged is None


def test_object_transitions_are_logged_with_their_versions() -> None:
    made, edited, deleted, again = (batch_on_ann() for _ in range(4))
    post = Post(id=ANN + 1, author_id=ANN, parent_id=POST_OF_BEN)
    made.obj_add(post)
    edited.obj_set(Post(id=ANN + 1, author_id=ANN, parent_id=POST_OF_BEN, version=2))
    deleted.obj_del(post, 2)
    again.obj_del(post)
    assert logged(made, edited, deleted, again) == [
        Logged(LogKind.POST_CREATED, ANN, post.id, POST_OF_BEN, 1),
        Logged(LogKind.POST_UPDATED, ANN, post.id, 1, 2),
        Logged(LogKind.POST_DELETED, ANN, post.id, 1, 3),
    ]


def test_updates_and_deletions_of_posts_and_shares_are_logged_with_the_former_visibility() -> None:
    direct = Post(id=ANN + 1, author_id=ANN, visibility=Visibility.DIRECT)
    narrowed = Post(id=ANN + 2, author_id=ANN, visibility=Visibility.FOLLOWERS, version=2)
    share = Share(id=ANN + 3, author_id=ANN, post_id=9, post_author_id=BEN, visibility=Visibility.UNLISTED)
    batch = batch_on_ann()
    batch.obj_del(direct)
    batch.obj_set(narrowed, Post(id=ANN + 2, author_id=ANN))
    batch.obj_del(share)
    batch.obj_add(Post(id=ANN + 4, author_id=ANN, visibility=Visibility.DIRECT))
    known = Known()
    known.versions = {direct.id: 1, narrowed.id: 1, share.id: 1}
    entries = [LogEntry(1, (n,), 1, *entry) for n, entry in enumerate(logged(batch, known=known))]
    assert [(entry.object, former_visibility(entry)) for entry in entries] == [
        (direct.id, Visibility.DIRECT),
        (narrowed.id, Visibility.PUBLIC),
        (share.id, Visibility.UNLISTED),
        (ANN + 4, None),
    ]
    assert former_visibility(LogEntry(1, (1,), 1, LogKind.LIKE_DELETED, ANN, 7, 0, 1)) is None


@in_loop
async def test_batch_that_changes_a_logged_object_without_its_former_version_is_refused() -> None:
    graph = MemoryGraph()
    post = Post(id=ANN + 1, author_id=ANN)
    await add(graph, post)
    deletion, narrowing = batch_on_ann(), batch_on_ann()
    deletion.obj_del(post.id, 1)
    narrowing.obj_set(Post(id=post.id, author_id=ANN, visibility=Visibility.DIRECT, version=2))
    for batch in (deletion, narrowing):
        with pytest.raises(TypeError, match="without its former version: pass the object to obj_del or obj_set"):
            await graph.commit(batch)
    assert await graph.obj_get([post.id]) == {post.id: post}


def test_association_transitions_are_logged_and_repeats_are_not() -> None:
    batches = [batch_on_ann() for _ in range(4)]
    for batch, alive in zip(batches, (True, True, False, False), strict=True):
        (batch.assoc_add if alive else batch.assoc_del)(ANN, LIKES, POST_OF_BEN, moment(1))
    assert logged(*batches) == [
        Logged(LogKind.LIKE_CREATED, ANN, POST_OF_BEN, 0, moment(1)),
        Logged(LogKind.LIKE_DELETED, ANN, POST_OF_BEN, 0, moment(1) + 2),
    ]


def test_follow_ended_by_followee_is_logged_with_the_follower_as_subject() -> None:
    begun, ended = batch_on_ann(), Batch(shard_of(BEN))
    begun.assoc_add(ANN, FOLLOWS, BEN, moment(1))
    ended.assoc_del(BEN, FOLLOWED_BY, ANN, moment(2))
    assert logged(begun, ended) == [
        Logged(LogKind.FOLLOW_CREATED, ANN, BEN, 0, moment(1)),
        Logged(LogKind.FOLLOW_DELETED, ANN, BEN, 0, moment(2)),
    ]


def test_changed_reactions_are_logged_as_updates() -> None:
    batches = [batch_on_ann() for _ in range(3)]
    batches[0].assoc_add(ANN, REACTS, POST_OF_BEN, moment(1), b"1")
    batches[1].assoc_add(ANN, REACTS, POST_OF_BEN, moment(2), b"12")
    batches[2].assoc_del(ANN, REACTS, POST_OF_BEN, moment(3))
    assert [entry.kind for entry in logged(*batches)] == [81, 82, 83]


def test_inverses_repairs_and_refused_batches_are_not_logged() -> None:
    plain, refused = batch_on_ann(), batch_on_ann()
    plain.put(AssocOp(ANN, FOLLOWS.number, BEN, moment(1), alive=True, plain=True))
    refused.obj_add(Member(id=ANN, name="ann"))
    refused.expect(CYD)
    private = batch_on_ann()
    private.assoc_add(ANN, BLOCKS, BEN, moment(1))
    assert logged(plain, refused, private) == []


def audited(verb: AuditVerb) -> bytes:
    """Return the data of the association of an audit entry whose address is in the list of the member ANN."""
    batch = batch_on_ann()
    put_entry(batch, 7, AuditEntry(verb, ANN, "ann", TargetKind.MEMBER, ANN, "ann"), "")
    return batch.assocs[0].data


def test_audit_entries_are_logged_in_the_public_list_only_and_not_when_they_expire() -> None:
    noted, expired = batch_on_ann(), batch_on_ann()
    public = public_list(SHARD)
    for id1 in (public, ANN):
        noted.assoc_add(id1, AUDITED, 7, 7, audited(AuditVerb.MEMBER_SUSPENDED))
        expired.assoc_del(id1, AUDITED, 7, moment(1))
    assert logged(noted, expired) == [Logged(LogKind.AUDIT_CREATED, public, 7, 0, 7)]


def test_audit_entries_of_moderators_only_are_logged() -> None:
    kinds = {}
    for verb in AuditVerb:
        noted = batch_on_ann()
        noted.assoc_add(public_list(SHARD), AUDITED, 7, 7, audited(verb))
        kinds[verb] = [entry.kind for entry in logged(noted)]
    assert {verb for verb, found in kinds.items() if found == [LogKind.AUDIT_CREATED]} == MODERATION_VERBS
    assert {verb for verb, found in kinds.items() if not found} == set(AuditVerb) - MODERATION_VERBS
    own = {
        "login",
        "session",
        "password",
        "passkey",
        "second_factor",
        "export",
        "deletion",
        "external_id",
        "server_key",
    }
    assert own.isdisjoint(verb.partition(".")[0] for verb in MODERATION_VERBS)


def test_audit_entry_for_a_list_in_another_store_is_logged_by_the_acting_store() -> None:
    noted, changes = batch_on_ann(), Resolution(logs=True)
    public = public_list(shard_of(CYD))
    noted.assoc_add(public, AUDITED, 7, 7, audited(AuditVerb.POST_HIDDEN))
    decide(noted, Known(), changes, owns=lambda shard: shard == SHARD, now=NOW)
    assert changes.logged == [Logged(LogKind.AUDIT_CREATED, public, 7, 0, 7)]


@given(
    st.dictionaries(
        st.integers(1, 2**62),
        st.builds(
            LogPlace,
            st.lists(st.integers(0, 2**62), min_size=1, max_size=3).map(tuple),
            st.lists(st.integers(0, 2**62), max_size=2).map(tuple),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_log_cursor_survives_encoding(places: dict[int, LogPlace]) -> None:
    text = LogCursor(places).encode()
    assert LogCursor.decode(text) == LogCursor(places)
    assert text.isascii()


@pytest.mark.parametrize(
    "text",
    [
        *("", "!", "é", "AAAA", "x" * (MAX_CURSOR + 1), f"!!!!{LogCursor({1: LogPlace((1,))}).encode()}"),
        *(LogCursor({1: LogPlace((-1,))}).encode(), LogCursor({}).encode()),
    ],
)
def test_log_cursor_of_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="after: this is not a cursor"):
        LogCursor.decode(text)


# Several logs


class FakeLog:
    """A log in memory whose clock is behind or ahead of those of the others."""

    def __init__(self, number: int, skew: int) -> None:
        self.number = number
        self.skew = skew
        self.entries: list[LogEntry] = []
        self.reads = 0

    def add(self, now: int, kind: int, subject: int, object_: int = 0, other: int = 0) -> None:
        position = (1, len(self.entries) + 1, 1)
        self.entries.append(LogEntry(self.number, position, now + self.skew, kind, subject, object_, other, 0))

    async def log_page(self, places: typing.Mapping[int, LogPlace] | None, limit: int) -> StorePage:
        self.reads += 1
        start = place_in(places, self.number, LogPlace((1, 0, 0))) or LogPlace((1, 0, 0))
        rows = [entry for entry in self.entries if entry.position > start.position]
        page = rows[:limit]
        after = LogPlace(page[-1].position) if page else start
        reached = after.position if len(rows) > limit else (1, len(self.entries) + 1, 0)
        return StorePage(self.number, page, after, more=len(rows) > limit, start=start, reached=reached)


class FakeStore:
    def __init__(self, logs: list[FakeLog]) -> None:
        self.log_sources = logs


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("move"), st.integers(0, 1), st.integers(0, 2)),
        st.tuples(st.just("read"), st.integers(1, 4), st.integers(0, 2)),
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=examples(100))
@given(steps, st.tuples(*[st.integers(-50, 50)] * 3))
def test_commits_of_a_member_are_delivered_once_and_in_order_while_shards_move(
    story: list[tuple[str, int, int]], skews: tuple[int, int, int]
) -> None:
    in_loop(_told)(story, skews)


async def _told(story: list[tuple[str, int, int]], skews: tuple[int, int, int]) -> None:
    logs = [FakeLog(number + 1, skew) for number, skew in enumerate(skews)]
    log = EventLog(typing.cast("typing.Any", FakeStore(logs)))
    homes = [0, 1]
    written: list[list[int]] = [[] for _ in homes]
    read: list[list[int]] = [[] for _ in homes]
    after: LogCursor | LogPage | None = None
    for now, (verb, n, other) in enumerate([*story, *[("read", 4, 1), ("read", 4, 0)] * 40]):
        if verb == "write":
            written[n].append(now)
            logs[homes[n]].add(now, LogKind.POST_CREATED, n, now)
        elif verb == "move" and other != homes[n]:
            before = logs[homes[n]]
            logs[other].add(now, LogKind.MOVED, before.number, 1, len(before.entries) + 1)
            homes[n] = other
        elif verb == "read":
            page = await log.read(after, n)
            assert len(page.entries) <= n
            if other == 2:
                page = page.first(len(page.entries) // 2)
            after = page if other else page.cursor
            for entry in page.entries:
                read[entry.subject].append(entry.object)
    assert read == written


@in_loop
async def test_log_entries_that_a_page_did_not_reach_are_not_read_again() -> None:
    logs = [FakeLog(number, 0) for number in range(1, 9)]
    for now in range(400):
        logs[now % 8].add(now, LogKind.POST_CREATED, ANN, now)
    log = EventLog(typing.cast("typing.Any", FakeStore(logs)))
    page = await log.read(None, 10)
    found = list(page.entries)
    while page.more:
        page = await log.read(page, 10)
        found += page.entries
    assert [entry.object for entry in found] == list(range(400))
    # Each log has five pages of 10 entries, and its end may be read twice.
    assert all(log.reads <= 7 for log in logs), [log.reads for log in logs]


@in_loop
async def test_log_entries_of_an_uneven_log_come_before_later_ones_of_another() -> None:
    logs = [FakeLog(number, 0) for number in (1, 2)]
    for now in range(60):
        logs[now == 5 or now >= 30].add(now, LogKind.POST_CREATED, ANN, now)
    log = EventLog(typing.cast("typing.Any", FakeStore(logs)))
    page = await log.read(None, 10)
    found = list(page.entries)
    while page.more:
        page = await log.read(page, 10)
        found += page.entries
    assert [entry.object for entry in found] == list(range(60))


@in_loop
async def test_log_page_continues_after_any_of_its_entries() -> None:
    logs = [FakeLog(number, 0) for number in (1, 2)]
    for now in range(12):
        logs[now % 2].add(now, LogKind.POST_CREATED, ANN, now)
    log = EventLog(typing.cast("typing.Any", FakeStore(logs)))
    page = await log.read(None, 8)
    for number in range(8):
        part = page.first(number)
        assert (part.entries, part.more) == (page.entries[:number], True)
        for after in (part, part.cursor):
            assert (await log.read(after, 1)).entries[0] == page.entries[number]


@pytest.mark.parametrize(
    "places",
    [
        {2**63: LogPlace((1,))},
        {0: LogPlace((1,))},
        {-5: LogPlace((1,))},
        {1: LogPlace((), (7,))},
        {1: LogPlace((1,) * 5)},
        {1: LogPlace((1,), (1,) * 5)},
    ],
)
def test_log_cursor_with_impossible_place_is_refused(places: dict[int, LogPlace]) -> None:
    with pytest.raises(InvalidInput, match="not a cursor"):
        LogCursor.decode(LogCursor(places).encode())


def test_marker_of_a_move_waits_until_the_former_log_was_delivered_up_to_its_end() -> None:
    former = [LogEntry(1, (1, n, 1), 50, LogKind.POST_CREATED, ANN, n, 0, 1) for n in (1, 2)]
    marker = LogEntry(2, (1, 1, 1), 5, LogKind.MOVED, 1, 1, 3, 0)
    moved = LogEntry(2, (1, 2, 1), 5, LogKind.POST_CREATED, ANN, 3, 0, 1)
    new = StorePage(2, [marker, moved], LogPlace((1, 2, 1)), start=LogPlace((1, 0, 0)))
    waiting = LogPlace((1, 0, 0))
    first = _merged(None, [StorePage(1, former[:1], LogPlace((1, 1, 1)), more=True), new], 10)
    places = {1: LogPlace((1, 1, 1), (50,)), 2: waiting}
    assert (first.entries, first.cursor.places, first.more) == ([former[0]], places, True)
    running = _merged(None, [StorePage(1, former, LogPlace((1, 2, 1)), reached=(1, 2, 1)), new], 10)
    assert (running.entries, running.cursor.places[2], running.more) == (former, waiting, False)
    ended = _merged(None, [StorePage(1, former, LogPlace((1, 2, 1)), reached=(1, 3, 0)), new], 10)
    places = {1: LogPlace((1, 2, 1)), 2: LogPlace((1, 2, 1))}
    assert (ended.entries, ended.cursor.places, ended.more) == ([*former, moved], places, False)


def test_consumer_is_not_asked_to_continue_at_once_while_a_marker_waits_and_its_page_is_full() -> None:
    marker = LogEntry(2, (1, 1, 1), 5, LogKind.MOVED, 1, 1, 3, 0)
    full = StorePage(2, [marker], LogPlace((1, 1, 1)), more=True, start=LogPlace((1, 0, 0)))
    page = _merged(None, [StorePage(1, [], LogPlace((1, 0, 0)), reached=(1, 2, 0)), full], 1)
    assert (page.entries, page.more) == ([], False)
    assert page.cursor.places == {1: LogPlace((1, 0, 0)), 2: LogPlace((1, 0, 0))}


def test_marker_of_a_removed_store_does_not_wait() -> None:
    entry = LogEntry(1, (1, 2, 1), 5, LogKind.POST_CREATED, ANN, 1, 0, 1)
    marker = LogEntry(1, (1, 1, 1), 5, LogKind.MOVED, 99, 1, 7, 0)
    page = _merged(None, [StorePage(1, [marker, entry], LogPlace((1, 2, 1)))], 10)
    assert (page.entries, page.cursor.places, page.more) == ([entry], {1: LogPlace((1, 2, 1))}, False)


def test_cursor_with_a_log_that_no_store_has_is_refused() -> None:
    with pytest.raises(CursorTooOld, match="another event log"):
        _merged({7: LogPlace((1,))}, [StorePage(1, [], LogPlace((0,)))], 10)


@in_loop
async def test_event_log_page_size_is_bounded() -> None:
    log = EventLog(typing.cast("typing.Any", FakeStore([])))
    for limit in (0, 1_001):
        with pytest.raises(InvalidInput, match="limit: 1 to 1000 entries"):
            await log.read(None, limit)
