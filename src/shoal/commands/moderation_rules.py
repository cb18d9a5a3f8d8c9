"""Moderation rules: create, change, arm and delete them. All rules of a network are one object, so changes are in one order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Writes, made_once
from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.moderation_rules import DryRun, Rule, RuleDraft, RuleState, StoredRules, changed, with_state
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch, Reader, find_object
from shoal.graph.schema import moderation_rules_key

_NOTED: Mapping[AuditVerb, Callable[[Rule], dict[str, str | int]]] = {
    AuditVerb.RULE_CREATED: lambda rule: {"action": rule.action},
    AuditVerb.RULE_CHANGED: lambda rule: {"action": rule.action, "state": rule.state.value},
    AuditVerb.RULE_STATE_CHANGED: lambda rule: {"state": rule.state.value},
    AuditVerb.RULE_DELETED: lambda rule: {"state": rule.state.value},
}
"""What the audit log tells about a rule, by the action."""


async def stored(graph: Reader) -> StoredRules:
    """Return all rules; an object without rules if none was ever created."""
    key = moderation_rules_key()
    found = await find_object(graph, StoredRules, (await graph.key_get((key,))).get(key, 0))
    return found or StoredRules(id=0)


async def create(writes: Writes, draft: RuleDraft) -> Rule:
    """Create a rule that is off. Raises `InvalidInput`, and `Unfit` if there are too many rules."""
    checked = draft.checked()

    def change(rules: StoredRules) -> StoredRules:
        rule = Rule(
            id=rules.last_id + 1,
            name=checked.name,
            action=checked.action,
            conditions=checked.conditions,
            kinds=checked.kinds,
            reason=checked.reason,
        )
        return rules.with_rule(rule)

    after = await _change(writes, change, AuditVerb.RULE_CREATED, None)
    return after.rule(after.last_id)


async def update(writes: Writes, rule_id: int, draft: RuleDraft) -> Rule:
    """Replace all values of a rule. With other conditions, an armed rule becomes a dry run. Raises `NotFound` and as `create`."""
    checked = draft.checked()
    return await _change_rule(writes, rule_id, lambda rule: changed(rule, checked), AuditVerb.RULE_CHANGED)


async def set_state(writes: Writes, rule_id: int, state: RuleState) -> Rule:
    """Turn a rule off, or make it a dry run or armed. Raises `NotFound`, and `Unfit` for arming without a recent dry run."""
    now = writes.new_id.now()
    return await _change_rule(writes, rule_id, lambda rule: with_state(rule, state, now), AuditVerb.RULE_STATE_CHANGED)


async def record_dry_run(writes: Writes, tested: Rule, result: DryRun) -> None:
    """Store the result of a dry run, unless the rule was deleted, or its conditions were changed since."""

    def record(rules: StoredRules) -> StoredRules:
        for rule in rules.rules:
            if (rule.id, rule.conditions, rule.kinds) == (tested.id, tested.conditions, tested.kinds):
                return rules.with_rule(replace(rule, dry_run=result))
        return rules

    await _change(writes, record, None, tested.id)


async def delete(writes: Writes, rule_id: int) -> None:
    """Delete a rule. Raises `NotFound`."""

    def change(rules: StoredRules) -> StoredRules:
        rules.rule(rule_id)
        return rules.without(rule_id)

    await _change(writes, change, AuditVerb.RULE_DELETED, rule_id)


async def _change_rule(writes: Writes, rule_id: int, change: Callable[[Rule], Rule], verb: AuditVerb) -> Rule:
    after = await _change(writes, lambda rules: rules.with_rule(change(rules.rule(rule_id))), verb, rule_id)
    return after.rule(rule_id)


async def _change(
    writes: Writes, change: Callable[[StoredRules], StoredRules], verb: AuditVerb | None, rule_id: int | None
) -> StoredRules:
    """Change the rules, and record the rule `rule_id` (None: the newest) in the audit log. Unchanged rules are not stored."""

    async def read() -> StoredRules:
        return await made_once(writes, moderation_rules_key(), StoredRules, lambda id_: StoredRules(id=id_))

    def extra(batch: Batch, before: StoredRules, after: StoredRules) -> None:
        if verb is None:
            return
        rule = (
            before.rule(rule_id) if verb is AuditVerb.RULE_DELETED and rule_id else after.rule(rule_id or after.last_id)
        )
        note(writes, batch, verb, AuditTarget(TargetKind.RULE, rule.id, rule.name), **_NOTED[verb](rule))

    return await change_object(writes.graph, read, change, extra)
