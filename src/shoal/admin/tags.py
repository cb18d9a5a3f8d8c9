"""Tag rules of administrators, and the background upgrade of tags from Shoal 0.2.

Each rule has an entry in the audit log. Tags are counted outside the graph, so one commit cannot include both. The
entry is written first. After a crash between the two, the log may name a rule that was not applied, but every applied
rule is in the log.

The upgrade (`admin/consistency/tag_spellings.py`) runs as a background task in a single process. This process holds a
claim that expires within a minute after the process exits; then another process takes over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import NamedTuple

from shoal.admin.consistency.tag_spellings import fold_all
from shoal.commands.audit import note_alone
from shoal.commands.context import Writes
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import ShoalError
from shoal.core.ids import now_ms, shard_of
from shoal.graph.contract import Batch, KeyTaken, Store
from shoal.graph.schema import EVERYBODY, tags_folded_key, tags_folding_key
from shoal.tagcloud import rules
from shoal.tagcloud.contract import CloudStore, TagRule
from shoal.tagcloud.reader import TagCloud
from shoal.tagcloud.rules import Decide
from shoal.tasks import BackgroundWorker


class Ruling(NamedTuple):
    verb: AuditVerb
    decide: Decide


def denying(name: str) -> Ruling:
    return Ruling(AuditVerb.TAG_DENIED, rules.denying(name))


def allowing(name: str) -> Ruling:
    return Ruling(AuditVerb.TAG_ALLOWED, rules.allowing(name))


def merging(name: str, target: str) -> Ruling:
    return Ruling(AuditVerb.TAG_MERGED, rules.merging(name, target))


def unmerging(name: str) -> Ruling:
    return Ruling(AuditVerb.TAG_UNMERGED, rules.unmerging(name))


async def lay_down(writes: Writes, tags: TagCloud, ruling: Ruling) -> TagRule:
    """Apply a rule and add it to the audit log. Nothing is logged if the rule was already in force.

    Raises `InvalidInput` for an impossible rule, and `Unavailable` if a store cannot be reached.
    """
    rules = {rule.name: rule for rule in await tags.rules()}
    rule = ruling.decide(rules)
    if rule != rules.get(rule.name, TagRule(rule.name)):
        details = {"target": rule.target} if ruling.verb is AuditVerb.TAG_MERGED else {}
        await note_alone(writes, ruling.verb, AuditTarget(TargetKind.TAG, name=rule.name), **details)
    return await tags.rule(ruling.decide)


_log = logging.getLogger(__name__)

_CLAIM_SECONDS = 60.0
_RENEWED_SECONDS = 15.0
_OTHER_SECONDS = 30.0
_RETRY_SECONDS = 600.0
_PAUSE_PER_SECOND = 3.0
"""Seconds of pause for each second of work, so that requests have priority."""
_LONGEST_PAUSE = 5.0


class TagUpgrade(BackgroundWorker):
    """A background worker that stores all tags of a network in canonical form, once."""

    task_name = "shoal-tag-upgrade"

    def __init__(self, store: Store, writes: Writes, cloud: CloudStore) -> None:
        self._store = store
        self._writes = writes
        self._cloud = cloud
        self._id = writes.new_id(shard_of(EVERYBODY))
        self._claimed = 0.0
        self._worked_since = 0.0

    async def stop(self) -> None:
        """Cancel the upgrade, and let another process start it, which then converts the remaining tags."""
        await super().stop()
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
                # Another process is upgrading the tags, or was killed and its claim on the upgrade has not expired yet.
                await asyncio.sleep(_OTHER_SECONDS)
            except Exception:  # noqa: BLE001  # a later attempt may succeed
                _log.exception("tag upgrade failed; retrying in %d s", _RETRY_SECONDS)
                await asyncio.sleep(_RETRY_SECONDS)

    async def once(self) -> None:
        """Store all tags in canonical form, unless that was done before.

        Raises `KeyTaken` while another process is doing it.
        """
        if await self._store.key_get((tags_folded_key(),)):
            return
        await self._claim()
        self._worked_since = time.monotonic()
        await fold_all(self._store, self._writes, self._cloud, self._pause)
        batch = Batch(shard_of(EVERYBODY))
        batch.key_add(tags_folded_key(), EVERYBODY)
        batch.key_del(tags_folding_key(), self._id)
        await self._store.commit(batch)

    async def _claim(self) -> None:
        batch = Batch(shard_of(EVERYBODY))
        batch.key_add(tags_folding_key(), self._id, until=now_ms() + int(_CLAIM_SECONDS * 1_000))
        await self._store.commit(batch)
        self._claimed = time.monotonic()

    async def _pause(self) -> None:
        now = time.monotonic()
        if now - self._claimed > _RENEWED_SECONDS:
            await self._claim()
        await asyncio.sleep(min(_LONGEST_PAUSE, _PAUSE_PER_SECOND * (now - self._worked_since)))
        self._worked_since = time.monotonic()
