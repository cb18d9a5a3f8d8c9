"""Check that tags are stored in their canonical form, and convert the others.

Shoal 0.2 and earlier did not fold the case of tags: `#Straße` and `#STRASSE` were different tags. Each conversion is a
separate commit after which the network is consistent. After an interruption, another run converts the remaining tags.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec.structs import replace

from shoal.admin.consistency.invariants import MOST, Found
from shoal.admin.contract import AnyNetwork
from shoal.admin.report import Finding
from shoal.commands import posts, ranking
from shoal.commands.context import Writes
from shoal.commands.members import tags_named
from shoal.commands.tags import FOLDED_AT_ONCE, MAX_FOLLOWED_TAGS, TAG_LISTS, fold_lists, folded
from shoal.core.errors import NotFound
from shoal.core.events import PostImported
from shoal.core.ids import shard_of
from shoal.core.model import Member, Post, Visibility
from shoal.core.ranking.preferences import FeedPreferences
from shoal.core.ranking.preferences import folded as folded_feedback
from shoal.graph.bulk import FIRST
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import AssocRow, Batch, Cursor, Reader, Scanner
from shoal.graph.schema import AnyNode, tag_id
from shoal.tagcloud import rules as ruling
from shoal.tagcloud.contract import CloudStore

_AT_ONCE = 16
_PAGE = 1_000
_BETWEEN_PAUSES = 50
"""Number of objects that are checked between two pauses. A post with 40 tags takes half a millisecond."""
_PATIENCE_SECONDS = 3_600.0
_LISTS = {atype.number for atype in TAG_LISTS}


class TagSpellings:
    def __init__(self) -> None:
        self._checked = self._wrong = 0
        self._findings: list[Finding] = []

    def take(self, page: Iterable[AnyNode]) -> None:
        """Find posts and feedback ("more like this", "less like this") whose tags are not in canonical form."""
        for node in page:
            self._checked += isinstance(node, Post | FeedPreferences)
            if is_outdated(node):
                what = "a tag" if isinstance(node, Post) else "an interest"
                self._add(f"{what} of {{0}} is stored under a former spelling", node.id)

    async def watch(self, page: Sequence[AssocRow]) -> None:
        """Find followed and featured tags that are not in canonical form."""
        for row in page:
            if row.alive and row.atype in _LISTS:
                self._checked += 1
                if folded(row.id2, row.data) is not None:
                    self._add("a followed or featured tag of {0} is stored under a former spelling", row.id1)

    async def compared(self, cloud: CloudStore | None) -> Found:
        """Return the findings: tags that are not in canonical form, including those in the admins' tag rules."""
        rules = await cloud.rules() if cloud else {}
        self._checked += len(rules)
        if rules != ruling.folded(rules):
            self._add("a rule on tags is stored under a former spelling")
        return Found(self._checked, self._wrong, self._findings)

    def _add(self, words: str, *about: int) -> None:
        self._wrong += 1
        if len(self._findings) < MOST:
            self._findings.append(Finding(words, about, fold=True))


def is_outdated(node: AnyNode) -> bool:
    if isinstance(node, Post):
        return node.tags != tags_named(node.text)
    return isinstance(node, FeedPreferences) and bool(node.said) and node.feedback != folded_feedback(node.feedback)


async def repair_spellings(network: AnyNetwork, findings: Iterable[Finding]) -> None:
    """If a finding is a tag not in canonical form (`fold`), store all tags in that form, and wait until they are counted."""
    if any(finding.fold for finding in findings):
        await fold_all(network.store, network.writes, network.tag_store)
        await network.settle(_PATIENCE_SECONDS)


async def fold_all(
    store: Scanner, writes: Writes, cloud: CloudStore, after_page: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Store all tags of a network in canonical form. After an interruption, another run converts the remaining tags.

    `after_page` is awaited after every 1,000 objects.
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
            id_ for id_, assocs in lists.items() if any(folded(assoc.id2, assoc.data) is not None for assoc in assocs)
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
        case FeedPreferences():
            await ranking.fold_tags(writes, node.member_id)


async def _fold_post(writes: Writes, post_id: int) -> bool:
    """Store the canonical tags of a post's text. Return whether a tag changed.

    One commit changes a limited number of tags, so call this until it returns False. This is no edit: there is no
    revision and no notification.
    """
    post = (await writes.graph.obj_get((post_id,))).get(post_id)
    if not isinstance(post, Post) or not is_outdated(post):
        return False
    after = replace(post, tags=_next_tags(post), version=post.version + 1)
    batch = Batch(shard_of(post.author_id))
    posts.change(batch, post, after, writes.new_id(batch.shard))
    added = {*map(tag_id, after.tags)} - {*map(tag_id, post.tags)}
    if added and post.visibility is Visibility.PUBLIC:
        # Like an imported post, the post enters the timelines of followers of its new tags without a notification.
        # Followers of its author already have the post.
        batch.emit(PostImported(post_id=post.id, author_id=0, visibility=post.visibility, tag_ids=tuple(added)))
    await writes.graph.commit(batch)
    return True


def _next_tags(post: Post) -> tuple[str, ...]:
    """Return the tags of a post after the next commit. It adds at most `FOLDED_AT_ONCE` tags and removes at most as many."""
    tags = tags_named(post.text)
    go, come = ([tag for tag in some if tag not in others] for some, others in ((post.tags, tags), (tags, post.tags)))
    if max(len(go), len(come)) <= FOLDED_AT_ONCE:
        return tags
    gone = set(go[:FOLDED_AT_ONCE])
    return (*(tag for tag in post.tags if tag not in gone), *come[:FOLDED_AT_ONCE])
