"""Tag rules of administrators, the check of canonical tag spellings, and the upgrade of tags from Shoal 0.2.

Each rule has an entry in the audit log. Tags are counted outside the graph, so one commit cannot include both. The entry is
written first: after a crash between the two, the log may name a rule that was not applied, but every rule that was applied
is in the log.

Shoal 0.2 and earlier did not fold the case of tags: `#Straße` and `#STRASSE` were different tags. Each move to the
canonical form is a commit of its own that leaves a consistent network, so a run after an interruption moves the remaining
tags. The upgrade runs as a background task of one process, which holds a claim that expires within a minute after it exits;
then another process takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from shoal.admin.consistency.invariants import MOST, Found
from shoal.admin.consistency.scan import FIRST
from shoal.admin.contract import AnyNetwork
from shoal.admin.report import Finding
from shoal.commands import posts, ranking
from shoal.commands.audit import note_alone
from shoal.commands.context import Writes
from shoal.commands.members import tags_named
from shoal.commands.tags import FOLDED_AT_ONCE, MAX_FOLLOWED_TAGS, TAG_LISTS, fold_lists, folded
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import NotFound, ShoalError
from shoal.core.events import PostImported
from shoal.core.ids import shard_of
from shoal.core.model import Member, Post, Visibility
from shoal.core.ranking.preferences import Taste
from shoal.core.ranking.preferences import folded as folded_wishes
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import AssocRow, Batch, Cursor, KeyTaken, Reader, Scanner, Store
from shoal.graph.schema import EVERYBODY, AnyNode, tag_id, tags_folded_key, tags_folding_key
from shoal.tagcloud import rules
from shoal.tagcloud import rules as ruling
from shoal.tagcloud.contract import CloudStore, TagRule
from shoal.tagcloud.reader import TagCloud
from shoal.tagcloud.rules import Decide


class Ruling(NamedTuple):
    """A rule that an admin wants, and what the log calls it."""

    verb: AuditVerb
    decide: Decide


def denying(name: str) -> Ruling:
    """Show a tag nowhere."""
    return Ruling(AuditVerb.TAG_DENIED, rules.denying(name))


def allowing(name: str) -> Ruling:
    """Show a tag again."""
    return Ruling(AuditVerb.TAG_ALLOWED, rules.allowing(name))


def merging(name: str, target: str) -> Ruling:
    """Count a tag as another."""
    return Ruling(AuditVerb.TAG_MERGED, rules.merging(name, target))


def unmerging(name: str) -> Ruling:
    """Count a tag for itself again."""
    return Ruling(AuditVerb.TAG_UNMERGED, rules.unmerging(name))


async def lay_down(writes: Writes, tags: TagCloud, wanted: Ruling) -> TagRule:
    """Have a rule hold; one that holds already leaves no entry. Raises `InvalidInput` when it cannot be, and `Unavailable`."""
    held = {rule.name: rule for rule in await tags.rules()}
    rule = wanted.decide(held)
    if rule != held.get(rule.name, TagRule(rule.name)):
        details = {"target": rule.target} if wanted.verb is AuditVerb.TAG_MERGED else {}
        await note_alone(writes, wanted.verb, AuditTarget(TargetKind.TAG, name=rule.name), **details)
    return await tags.rule(wanted.decide)


_AT_ONCE = 16
_PAGE = 1_000
_BETWEEN_PAUSES = 50
"""Objects that are checked without a pause: a post with 40 tags takes half a millisecond."""
_PATIENCE_SECONDS = 3_600.0
_LISTS = {atype.number for atype in TAG_LISTS}


class TagSpellings:
    """A search for tags that are stored in a form other than the canonical one."""

    def __init__(self) -> None:
        self._checked = self._wrong = 0
        self._findings: list[Finding] = []

    def take(self, page: Iterable[AnyNode]) -> None:
        """Check the posts and the wishes among these objects."""
        for node in page:
            self._checked += isinstance(node, Post | Taste)
            if is_outdated(node):
                what = "a tag" if isinstance(node, Post) else "an interest"
                self._find(f"{what} of {{0}} is stored under a former spelling", node.id)

    async def watch(self, page: Sequence[AssocRow]) -> None:
        """Check the followed and featured tags among these associations."""
        for row in page:
            if row.alive and row.atype in _LISTS:
                self._checked += 1
                if folded(row.id2, row.data) is not None:
                    self._find("a followed or featured tag of {0} is stored under a former spelling", row.id1)

    async def compared(self, cloud: CloudStore | None) -> Found:
        """Return all findings, with those among the rules of admins that the tag cloud has."""
        rules = await cloud.rules() if cloud else {}
        self._checked += len(rules)
        if rules != ruling.folded(rules):
            self._find("a rule on tags is stored under a former spelling")
        return Found(self._checked, self._wrong, self._findings)

    def _find(self, words: str, *about: int) -> None:
        self._wrong += 1
        if len(self._findings) < MOST:
            self._findings.append(Finding(words, about, fold=True))


def is_outdated(node: AnyNode) -> bool:
    """Return whether an object has tags that are stored in a form other than the canonical one."""
    if isinstance(node, Post):
        return node.tags != tags_named(node.text)
    return isinstance(node, Taste) and bool(node.said) and node.wishes != folded_wishes(node.wishes)


async def store_folded(network: AnyNetwork, findings: Iterable[Finding]) -> None:
    """Store all tags in their canonical form if there is a finding of another one, and wait until they are counted."""
    if any(finding.fold for finding in findings):
        await fold_all(network.store, network.writes, network.tag_store)
        await network.settle(_PATIENCE_SECONDS)


async def fold_all(
    store: Scanner, writes: Writes, cloud: CloudStore, after_page: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Store all tags of a network in their canonical form. A run after an interruption moves the remaining tags.

    `after_page` is awaited after every thousand objects.
    """
    former = await ruling.add_folded(cloud)
    after = FIRST
    while page := await store.obj_scan(after, _PAGE):
        outdated: list[AnyNode] = []
        for start in range(0, len(page), _BETWEEN_PAUSES):
            outdated += filter(is_outdated, page[start : start + _BETWEEN_PAUSES])
            await asyncio.sleep(0)
        outdated += await _with_outdated_lists(writes.graph, [node for node in page if isinstance(node, Member)])
        for start in range(0, len(outdated), _AT_ONCE):
            await asyncio.gather(*(_fold(writes, node) for node in outdated[start : start + _AT_ONCE]))
        after = page[-1].id
        if after_page is not None:
            await after_page()
    await ruling.fold(cloud, former)


async def _with_outdated_lists(graph: Reader, members: Sequence[Member]) -> list[Member]:
    found: set[int] = set()
    for atype in TAG_LISTS:
        lists = await graph.assoc_ranges([member.id for member in members], atype, Cursor(limit=MAX_FOLLOWED_TAGS))
        found |= {
            id_ for id_, held in lists.items() if any(folded(assoc.id2, assoc.data) is not None for assoc in held)
        }
    return [member for member in members if member.id in found]


async def _fold(writes: Writes, node: AnyNode) -> None:
    match node:
        case Post():
            while await retry_on_conflict(lambda: _fold_post(writes, node.id)):
                continue
        case Member():
            with contextlib.suppress(NotFound):
                await fold_lists(writes, node.id)
        case Taste():
            await ranking.fold_tags(writes, node.member_id)


async def _fold_post(writes: Writes, post_id: int) -> bool:
    """Give a post the tags of its text in canonical form, or some of them, and return whether anything changed.

    The change is not an edit: it stores no revision and sends no notification.
    """
    post = (await writes.graph.obj_get((post_id,))).get(post_id)
    if not isinstance(post, Post) or not is_outdated(post):
        return False
    after = replace(post, tags=_next_tags(post), version=post.version + 1)
    batch = Batch(shard_of(post.author_id))
    posts.change(batch, post, after, writes.new_id(batch.shard))
    added = {*map(tag_id, after.tags)} - {*map(tag_id, post.tags)}
    if added and post.visibility is Visibility.PUBLIC:
        # As an import, it enters the timelines of followers of these tags quietly. Followers of its author have it.
        batch.emit(PostImported(post_id=post.id, author_id=0, visibility=post.visibility, tag_ids=tuple(added)))
    await writes.graph.commit(batch)
    return True


def _next_tags(post: Post) -> tuple[str, ...]:
    """Return the tags of a post after the next commit: those of its text, unless too many are added or removed at once."""
    tags = tags_named(post.text)
    go, come = ([tag for tag in some if tag not in others] for some, others in ((post.tags, tags), (tags, post.tags)))
    if max(len(go), len(come)) <= FOLDED_AT_ONCE:
        return tags
    gone = set(go[:FOLDED_AT_ONCE])
    return (*(tag for tag in post.tags if tag not in gone), *come[:FOLDED_AT_ONCE])


_log = logging.getLogger(__name__)

_CLAIM_SECONDS = 60.0
_RENEWED_SECONDS = 15.0
_OTHER_SECONDS = 30.0
_RETRY_SECONDS = 600.0
_REST = 3.0
"""Seconds of pause per second of work, so that requests take priority."""
_LONGEST_REST = 5.0


class TagUpgrade:
    """Stores all tags of a network in their canonical form, unless that was done before."""

    def __init__(self, store: Store, writes: Writes, cloud: CloudStore) -> None:
        self._store = store
        self._writes = writes
        self._cloud = cloud
        self._id = writes.new_id(shard_of(EVERYBODY))
        self._claimed = 0.0
        self._worked_since = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the background task."""
        self._task = asyncio.create_task(self._run(), name="shoal-tag-upgrade")

    async def stop(self) -> None:
        """Cancel the background task and release its claim. The next start moves the remaining tags."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._claimed:
            with contextlib.suppress(ShoalError):
                batch = Batch(shard_of(EVERYBODY))
                batch.key_del(tags_folding_key(), self._id)
                await self._store.commit(batch)

    async def _run(self) -> None:
        while True:
            try:
                return await self.once()
            except KeyTaken:
                # Another process has the claim, or had it until it was killed.
                await asyncio.sleep(_OTHER_SECONDS)
            except Exception:  # noqa: BLE001  # a later attempt may succeed
                _log.exception("tag upgrade failed; retrying in %d s", _RETRY_SECONDS)
                await asyncio.sleep(_RETRY_SECONDS)

    async def once(self) -> None:
        """Upgrade the tags unless that was done before. Raises `KeyTaken` while another process holds the claim."""
        if await self._store.key_get((tags_folded_key(),)):
            return
        await self._claim()
        self._worked_since = time.monotonic()
        await fold_all(self._store, self._writes, self._cloud, self._rest)
        batch = Batch(shard_of(EVERYBODY))
        batch.key_add(tags_folded_key(), EVERYBODY)
        batch.key_del(tags_folding_key(), self._id)
        await self._store.commit(batch)

    async def _claim(self) -> None:
        batch = Batch(shard_of(EVERYBODY))
        batch.key_add(tags_folding_key(), self._id, until=_now_ms() + int(_CLAIM_SECONDS * 1_000))
        await self._store.commit(batch)
        self._claimed = time.monotonic()

    async def _rest(self) -> None:
        now = time.monotonic()
        if now - self._claimed > _RENEWED_SECONDS:
            await self._claim()
        await asyncio.sleep(min(_LONGEST_REST, _REST * (now - self._worked_since)))
        self._worked_since = time.monotonic()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
