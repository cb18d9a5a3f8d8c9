"""Moderation rules, their dry runs, and bulk moderation. Mastodon has no equivalent."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shoal.admin import bulk_moderation as bulk
from shoal.admin.bulk_moderation import BulkPreview
from shoal.admin.moderation_rules import try_rules
from shoal.commands import bulk_moderation, moderation_rules
from shoal.core.bulk_moderation import BulkAction, BulkQuery, BulkState, Verb
from shoal.core.ids import milliseconds_of
from shoal.core.model import Role
from shoal.core.moderation_rules import (
    MAX_DOMAINS,
    MAX_RULES,
    MAX_WORDS,
    Conditions,
    Rule,
    RuleAction,
    RuleDraft,
    RuleState,
)
from shoal.core.publishing import MAX_REASON, HeldKind
from shoal.graph.access import get_object
from shoal.graph.contract import MAX_TIME
from shoal.http.params import Id
from shoal.mastodon_api.context import Context, One, Router, actor
from shoal.mastodon_api.entities.serializers import moment
from shoal.queries.moderation_rules import DryRunReport, RuleHit, RuleHits

router = Router(role=Role.ADMIN)
bulk_router = Router(role=Role.MODERATOR)

_log = logging.getLogger("shoal.moderation")

_RULES = "/api/shoal/v1/admin/moderation_rules"
_BULK = "/api/shoal/v1/admin/bulk_actions"

_Text = Annotated[str, Meta(max_length=2_000)]
_Words = Annotated[tuple[_Text, ...], Meta(max_length=MAX_WORDS)]
_Domains = Annotated[tuple[_Text, ...], Meta(max_length=MAX_DOMAINS)]
_Number = Annotated[int, Meta(ge=0, le=10_000)]
_Milliseconds = Annotated[int, Meta(ge=0, le=2**53)]
_Days = Annotated[int, Meta(ge=1, le=90)]


class RuleParams(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a rule. Content must meet all given conditions; empty values, and zeros, are no condition."""

    name: _Text
    action: RuleAction = "hold"
    reason: Annotated[str, Meta(max_length=10 * MAX_REASON)] = ""
    """The reason that the author of rejected content reads."""
    kinds: Annotated[tuple[HeldKind, ...], Meta(max_length=4)] = ("post", "edit")
    words: _Words = ()
    """Words and phrases, of which the text has at least one."""
    domains: _Domains = ()
    """Domains, to one of which, or below, a link leads."""
    more_links_than: _Number | None = None
    younger_than_days: _Number = 0
    """The member joined fewer days ago or, if `fewer_posts_than` is given too, has fewer posts."""
    fewer_posts_than: _Number = 0
    more_posts_than: _Number = 0
    """The member has posted more than this number of times in ten minutes."""
    like_removed: Literal["", "same", "similar"] = ""
    """A picture looks like a picture of a post that moderators hid."""

    def draft(self) -> RuleDraft:
        conditions = Conditions(**{name: getattr(self, name) for name in Conditions.__struct_fields__})
        return RuleDraft(
            name=self.name, action=self.action, conditions=conditions, kinds=self.kinds, reason=self.reason
        )


class ChangedRule(RuleParams, frozen=True, kw_only=True):
    id: Id


class StateParams(msgspec.Struct, frozen=True):
    id: Id
    state: RuleState


class DryRunParams(msgspec.Struct, frozen=True):
    days: _Days = 7
    """The age of the oldest content that is checked."""
    ids: Annotated[tuple[Id, ...], Meta(max_length=MAX_RULES)] = ()
    """The rules; none for all rules."""


class RuleDryRun(msgspec.Struct, kw_only=True):
    """The result of the last dry run of a rule."""

    at: str
    since: str
    posts: int
    hits: int


class RuleEntity(msgspec.Struct, kw_only=True):
    """A moderation rule, with its conditions and its last dry run."""

    id: str
    name: str
    state: RuleState
    action: RuleAction
    reason: str
    kinds: list[HeldKind]
    words: list[str]
    domains: list[str]
    more_links_than: int | None
    younger_than_days: int
    fewer_posts_than: int
    more_posts_than: int
    like_removed: str
    dry_run: RuleDryRun | None


class HitEntity(msgspec.Struct, kw_only=True):
    """Content that a rule matched."""

    kind: HeldKind
    id: str
    """Id of the status or media file, or of the account whose profile it is."""
    account_id: str
    username: str
    created_at: str
    text: str
    """The beginning of the text; empty for a media file, and for a status that is not public or unlisted."""
    trusted: bool
    """Whether the account has a role or a long history: the hit may be a mistake."""
    hidden: bool
    """Whether moderators have hidden the status since."""


class RuleHitsEntity(msgspec.Struct, kw_only=True):
    rule_id: str
    name: str
    hits: int
    accounts: int
    trusted: int
    """Hits by accounts with a role or a long history."""
    hidden: int
    """Hits that moderators have hidden since."""
    newest: list[HitEntity]
    """The newest 20 hits."""


class DryRunEntity(msgspec.Struct, kw_only=True):
    """The result of a dry run."""

    since: str
    """Content from this time on was checked."""
    complete: bool
    """Whether the whole requested time was checked."""
    posts: int
    profiles: int
    uploads: int
    hits: int
    """Content that at least one of the rules matched."""
    rules: list[RuleHitsEntity]


class BulkParams(msgspec.Struct, frozen=True, kw_only=True):
    """A query for statuses, which must meet all given conditions, and the action for them. Times are in Unix milliseconds."""

    action: Verb
    words: _Words = ()
    """Words and phrases, of which the text or content warning has at least one."""
    domains: _Domains = ()
    """Domains, to one of which, or below, a link leads."""
    tag: _Text = ""
    account_id: Id = Id(0)
    since: _Milliseconds = 0
    until: _Milliseconds = 0
    media_id: Id = Id(0)
    """Statuses with a picture that looks like this one."""
    likeness: Literal["same", "similar"] = "same"

    def query(self) -> BulkQuery:
        return BulkQuery(
            words=self.words,
            domains=self.domains,
            tag=self.tag,
            member_id=self.account_id,
            since=self.since,
            until=self.until,
            media_id=self.media_id,
            likeness=self.likeness,
        )


class ShownAction(msgspec.Struct, frozen=True):
    id: Id
    max_id: Id | None = None


class ApplyParams(msgspec.Struct, frozen=True):
    id: Id
    text: Annotated[str, Meta(max_length=20_000)] = ""
    """The reason, for the audit log."""


class BulkExampleEntity(msgspec.Struct, kw_only=True):
    status_id: str
    account_id: str
    username: str
    created_at: str
    text: str


class BulkEntity(msgspec.Struct, kw_only=True):
    """A preview of a bulk action or, once it was applied, the action."""

    id: str
    action: Verb
    state: BulkState
    created_at: str
    username: str
    """The member who created it; empty for an operator and a server key."""
    reason: str
    statuses: int
    """Number of matching statuses, at most 1,000."""
    read: int
    """Number of statuses that the search read."""
    reached: str | None
    """The search covers statuses from this time on; null if it covers all."""
    changed: int
    """Number of statuses that the action changes now."""
    applied_at: str | None
    undone_at: str | None


class BulkPreviewEntity(BulkEntity, kw_only=True):
    examples: list[BulkExampleEntity]
    """20 of the statuses, newest first, without statuses that are no longer public or unlisted."""
    next_max_id: str | None
    """The `max_id` for the statuses after these; null at the end."""


@router.get(_RULES, scope="admin:read", answer=list[RuleEntity])
async def list_rules(context: Context, _params: None) -> list[RuleEntity]:
    """List the moderation rules, oldest first."""
    return [_rule(rule) for rule in (await moderation_rules.stored(context.app.graph)).rules]


@router.get(f"{_RULES}/{{id}}", scope="admin:read", answer=RuleEntity)
async def get_rule(context: Context, params: One) -> RuleEntity:
    """Show a moderation rule."""
    return _rule((await moderation_rules.stored(context.app.graph)).rule(params.id))


@router.post(_RULES, scope="admin:write", answer=RuleEntity)
async def create_rule(context: Context, params: RuleParams) -> RuleEntity:
    """Create a moderation rule, which is off."""
    rule = await moderation_rules.create(context.app.writes, params.draft())
    _log.info("moderator %s: create moderation rule %d", actor(context), rule.id)
    return _rule(rule)


@router.put(f"{_RULES}/{{id}}", scope="admin:write", answer=RuleEntity)
async def update_rule(context: Context, params: ChangedRule) -> RuleEntity:
    """Replace all values of a moderation rule. With other conditions, an armed rule becomes a dry run."""
    rule = await moderation_rules.update(context.app.writes, params.id, params.draft())
    _log.info("moderator %s: change moderation rule %d", actor(context), rule.id)
    return _rule(rule)


@router.delete(f"{_RULES}/{{id}}", scope="admin:write", answer=dict)
async def delete_rule(context: Context, params: One) -> None:
    """Delete a moderation rule."""
    await moderation_rules.delete(context.app.writes, params.id)
    _log.info("moderator %s: delete moderation rule %d", actor(context), params.id)


@router.post(f"{_RULES}/{{id}}/state", scope="admin:write", answer=RuleEntity)
async def set_state(context: Context, params: StateParams) -> RuleEntity:
    """Turn a rule off, make it a dry run, or arm it. Arming requires a dry run in the last seven days.

    Servers apply the change within five seconds.
    """
    rule = await moderation_rules.set_state(context.app.writes, params.id, params.state)
    _log.info("moderator %s: moderation rule %d is %s", actor(context), rule.id, rule.state.value)
    return _rule(rule)


@router.post(f"{_RULES}/dry_run", scope="admin:write", answer=DryRunEntity)
async def dry_run(context: Context, params: DryRunParams) -> DryRunEntity:
    """Check the content of the last days with rules, without any effect on it.

    A dry run reads a bounded number of objects, from the newest back, for at most 30 seconds. `since` is the time that it reached.
    """
    return _dry_run(await try_rules(context.app.store, context.app.writes, params.ids, params.days))


@bulk_router.get(_BULK, scope="admin:read", answer=list[BulkEntity])
async def list_actions(context: Context, _params: None) -> list[BulkEntity]:
    """List the stored previews and bulk actions, at most 100, newest first."""
    return [_action(action) for action in await bulk_moderation.stored(context.app.graph)]


@bulk_router.get(f"{_BULK}/{{id}}", scope="admin:read", answer=BulkPreviewEntity)
async def get_action(context: Context, params: ShownAction) -> BulkPreviewEntity:
    """Show a preview or bulk action, with 20 of its statuses."""
    action = await get_object(context.app.graph, BulkAction, params.id)
    return _preview(await bulk.shown(context.app.graph, action, params.max_id or MAX_TIME))


@bulk_router.post(_BULK, scope="admin:write", answer=BulkPreviewEntity)
async def preview_action(context: Context, params: BulkParams) -> BulkPreviewEntity:
    """Select up to 1,000 statuses that are public or unlisted and that the action would change. Nothing changes yet."""
    return _preview(await bulk.preview(context.app.store, context.app.writes, params.query(), params.action))


@bulk_router.post(f"{_BULK}/{{id}}/apply", scope="admin:write", answer=BulkEntity)
async def apply_action(context: Context, params: ApplyParams) -> BulkEntity:
    """Apply a preview, which is valid for a day. Idempotent. The statuses change soon after."""
    action = await bulk_moderation.apply(context.app.writes.because(params.text), params.id)
    _log.info("moderator %s: apply bulk action %d to %d posts", actor(context), action.id, len(action.post_ids))
    return _action(action)


@bulk_router.post(f"{_BULK}/{{id}}/undo", scope="admin:write", answer=BulkEntity)
async def undo_action(context: Context, params: One) -> BulkEntity:
    """Change back all statuses that a bulk action changed. Idempotent. The statuses change soon after."""
    action = await bulk_moderation.undo(context.app.writes, params.id)
    _log.info("moderator %s: undo bulk action %d", actor(context), action.id)
    return _action(action)


def _rule(rule: Rule) -> RuleEntity:
    conditions, run = rule.conditions, rule.dry_run
    return RuleEntity(
        id=str(rule.id),
        name=rule.name,
        state=rule.state,
        action=rule.action,
        reason=rule.reason,
        kinds=list(rule.kinds),
        words=list(conditions.words),
        domains=list(conditions.domains),
        more_links_than=conditions.more_links_than,
        younger_than_days=conditions.younger_than_days,
        fewer_posts_than=conditions.fewer_posts_than,
        more_posts_than=conditions.more_posts_than,
        like_removed=conditions.like_removed,
        dry_run=RuleDryRun(at=moment(run.at), since=moment(run.since), posts=run.posts, hits=run.hits) if run else None,
    )


def _dry_run(report: DryRunReport) -> DryRunEntity:
    return DryRunEntity(
        since=moment(report.since),
        complete=report.complete,
        posts=report.posts,
        profiles=report.profiles,
        uploads=report.uploads,
        hits=report.hits,
        rules=[_hits(each) for each in report.rules],
    )


def _hits(found: RuleHits) -> RuleHitsEntity:
    return RuleHitsEntity(
        rule_id=str(found.rule.id),
        name=found.rule.name,
        hits=found.hits,
        accounts=found.members,
        trusted=found.trusted,
        hidden=found.hidden,
        newest=[_hit(hit) for hit in found.newest],
    )


def _hit(hit: RuleHit) -> HitEntity:
    return HitEntity(
        kind=hit.kind,
        id=str(hit.id),
        account_id=str(hit.member_id),
        username=hit.member_name,
        created_at=moment(hit.at),
        text=hit.text,
        trusted=hit.trusted,
        hidden=hit.hidden,
    )


def _action(action: BulkAction) -> BulkEntity:
    return BulkEntity(**_values(action))


def _preview(preview: BulkPreview) -> BulkPreviewEntity:
    examples = [
        BulkExampleEntity(
            status_id=str(each.post_id),
            account_id=str(each.author_id),
            username=each.author_name,
            created_at=moment(each.created_at),
            text=each.text,
        )
        for each in preview.examples
    ]
    next_max_id = str(preview.next) if preview.next else None
    return BulkPreviewEntity(**_values(preview.action), examples=examples, next_max_id=next_max_id)


def _values(action: BulkAction) -> dict[str, Any]:
    return {
        "id": str(action.id),
        "action": action.verb,
        "state": action.state,
        "created_at": moment(milliseconds_of(action.id)),
        "username": action.actor_name,
        "reason": action.reason,
        "statuses": len(action.post_ids),
        "read": action.read,
        "reached": moment(action.reached) if action.reached else None,
        "changed": action.changed,
        "applied_at": moment(action.applied_at) if action.applied_at else None,
        "undone_at": moment(action.undone_at) if action.undone_at else None,
    }
