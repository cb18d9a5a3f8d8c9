"""Admins' rules on tags, each with an entry of the audit log.

Tags are counted outside the graph, so no commit takes both. The entry is written first: a process that dies in between leaves a
word too many in the log, and never a rule that the log does not know.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.commands.audit import note_alone
from shoal.commands.context import Writes
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.tagcloud import rules
from shoal.tagcloud.contract import TagRule
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
