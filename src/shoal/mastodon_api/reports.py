"""Reports of accounts to the moderators."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.commands import reports
from shoal.commands.reports import MAX_POSTS, Complaint
from shoal.core.errors import InvalidInput
from shoal.http.params import Id
from shoal.mastodon_api.context import AppContext, Context, Router, actor, profile_of
from shoal.mastodon_api.entities import moderation as moderation_entities
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.moderation import Report

router = Router()

Category = Literal["spam", "legal", "violation", "other"]
RuleIds = Annotated[tuple[Annotated[str, Meta(max_length=20)], ...], Meta(max_length=100)]


class NewReport(msgspec.Struct, frozen=True, kw_only=True):
    account_id: Id
    status_ids: Annotated[tuple[Id, ...], Meta(max_length=MAX_POSTS)] = ()
    comment: Annotated[str, Meta(max_length=20_000)] = ""
    category: Category = "other"
    rule_ids: RuleIds = ()
    forward: bool = False
    """Must be false: all accounts are local, so a report cannot be forwarded to another server."""


def known_rules(app_context: AppContext) -> frozenset[str]:
    return frozenset(rule.id for rule in moderation_entities.rules_of(app_context.settings))


@router.post("/api/v1/reports", scope="write:reports", answer=Report)
async def create(context: Context, params: NewReport) -> object:
    """Report an account, and statuses by it, to the moderators. The reported statuses are hidden from the caller."""
    if params.forward:
        raise InvalidInput("forward: not supported, because this network has no remote servers", field="forward")
    complaint = Complaint(
        post_ids=params.status_ids, comment=params.comment, category=params.category, rule_ids=params.rule_ids
    )
    filed = await reports.file(
        context.app.writes, actor(context), params.account_id, complaint, rules=known_rules(context.app)
    )
    target = await profile_of(context, filed.target_id)
    return moderation_entities.report(filed, serializers.account(target, context.app.at))
