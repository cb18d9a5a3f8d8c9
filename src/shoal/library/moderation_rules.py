"""Moderation rules, and bulk moderation of posts."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.admin import bulk_moderation as bulk
from shoal.admin.bulk_moderation import BulkPreview
from shoal.admin.moderation_rules import try_rules
from shoal.app.network import Network
from shoal.commands import bulk_moderation, moderation_rules
from shoal.commands.context import Writes
from shoal.core.bulk_moderation import BulkAction, BulkQuery, Verb
from shoal.core.moderation_rules import Rule, RuleDraft, RuleState
from shoal.graph.access import get_object
from shoal.graph.contract import MAX_TIME
from shoal.library.acting import one_of
from shoal.queries.moderation_rules import DryRunReport


class ModerationRules:
    """The moderation rules of a network. Roles are not checked: the application decides who may use them."""

    def __init__(self, network: Network) -> None:
        self._network = network

    @property
    def _writes(self) -> Writes:
        return self._network.writes

    async def all(self) -> list[Rule]:
        """Return all rules, oldest first."""
        return list((await moderation_rules.stored(self._network.store)).rules)

    async def create(self, draft: RuleDraft) -> Rule:
        """Create a rule, which is off. Raises `InvalidInput`, and `Unfit` if there are 100 rules."""
        return await moderation_rules.create(self._writes, draft)

    async def update(self, rule_id: int, draft: RuleDraft) -> Rule:
        """Replace all values of a rule. With other conditions, an armed rule becomes a dry run.

        Raises `NotFound`, and the errors of `create`.
        """
        return await moderation_rules.update(self._writes, rule_id, draft)

    async def delete(self, rule_id: int) -> None:
        """Delete a rule. Raises `NotFound`."""
        await moderation_rules.delete(self._writes, rule_id)

    async def dry_run(self, rule_ids: Sequence[int] = (), days: int = 7) -> DryRunReport:
        """Check the content of the last 1 to 90 `days` with rules (none given: all rules), without any effect on it.

        Raises `NotFound`, and `InvalidInput` for an invalid number of days.
        """
        return await try_rules(self._network.store, self._writes, rule_ids, days)

    async def set_state(self, rule_id: int, state: RuleState | str) -> Rule:
        """Set a rule to "off", "dry_run" or "armed", which applies within five seconds.

        Raises `NotFound`, `InvalidInput` for an unknown state, and `Unfit` for arming a rule without a dry run in the last seven
        days.
        """
        return await moderation_rules.set_state(self._writes, rule_id, one_of(RuleState, state, "state"))


class BulkModeration:
    """Bulk actions on posts, which can be undone. Roles are not checked."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def preview(self, query: BulkQuery, action: Verb) -> BulkPreview:
        """Select up to 1,000 public or unlisted posts that the action would change. Nothing changes yet.

        Actions are "hide", "mark_sensitive" and "keep_from_trends". Raises `InvalidInput`, and `NotFound` for unknown media.
        """
        return await bulk.preview(self._network.store, self._network.writes, query, action)

    async def all(self) -> list[BulkAction]:
        """Return the stored previews and actions, at most 100, newest first."""
        return await bulk_moderation.stored(self._network.store)

    async def show(self, action_id: int, *, before: int = MAX_TIME) -> BulkPreview:
        """Return a preview or action with 20 of its posts, newest first; the `next` of the result is `before` of the next 20.

        Raises `NotFound`.
        """
        action = await get_object(self._network.store, BulkAction, action_id)
        return await bulk.shown(self._network.store, action, before)

    async def apply(self, action_id: int, reason: str = "") -> BulkAction:
        """Apply a preview; idempotent. The posts change soon after (see `settle`).

        Raises `NotFound`, `Gone` for a preview older than a day, and `Unfit` for an action that was undone.
        """
        return await bulk_moderation.apply(self._network.writes.because(reason), action_id)

    async def undo(self, action_id: int) -> BulkAction:
        """Restore the posts that an action changed; idempotent. Raises `NotFound`, and `Unfit` for a preview."""
        return await bulk_moderation.undo(self._network.writes, action_id)
