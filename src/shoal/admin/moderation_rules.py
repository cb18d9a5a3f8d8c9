"""Moderation rules in operation: the compiled rules of a process, dry runs, and the operations on rules."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.commands import moderation_rules
from shoal.commands.context import Writes
from shoal.core.moderation_rules import CompiledRules, Rule, RuleDraft, RuleState, decision
from shoal.core.publishing import Candidate, Check, Decision
from shoal.graph.cache.coherence import another_request
from shoal.graph.contract import Reader, Store
from shoal.graph.payloads.moderation import removed_pictures
from shoal.queries.moderation_rules import DryRunReport, dry_run
from shoal.tasks import BackgroundWorker
from shoal.throttled_log import ThrottledLog

_log = logging.getLogger("shoal.moderation")

_EVERY_SECONDS = 5.0
_PICTURES_SECONDS = 60.0
_PATIENCE_SECONDS = 2.0
_LARGE = 3_000
"""Characters that are checked in the event loop."""


class RuleBook(BackgroundWorker):
    """The compiled moderation rules of this process, which reads them again every five seconds while it checks content.

    In a process that checked nothing in the last five seconds, the next check waits until they are read.
    """

    task_name = "shoal-moderation-rules"

    def __init__(
        self,
        graph: Reader,
        *,
        clock: Callable[[], float] = time.time,
        every: float = _EVERY_SECONDS,
    ) -> None:
        self._graph = graph
        self._clock = clock
        self._every = every
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._used = self._watched = False
        """`_used`: content was checked since `_run` read the rules last. `_watched`: `_run` will read them in time."""
        self._rules = CompiledRules(())
        self.checks: list[Check] = []
        """`check` while a rule is in force; empty without rules, and with rules that are all off."""
        self._version = (0, 0)
        self._pictures_at = float("-inf")
        self._outage = ThrottledLog(_log)
        self.matches = dict.fromkeys((RuleState.DRY_RUN, RuleState.ARMED), 0)
        """Number of matches in this process, by the state of the rule."""

    async def check(self, candidate: Candidate) -> Decision:
        """Return what the armed rules decide. Matches of rules in a dry run are logged and counted only."""
        rules, now = self._rules, self._clock()
        if len(candidate.text) + len(candidate.data) > _LARGE:
            # In a thread: the words of 64 KB take up to a third of a second, in which the event loop must answer others.
            matching = await asyncio.to_thread(rules.matching, candidate, now)
        else:
            matching = rules.matching(candidate, now)
        for rule in matching:
            self.matches[rule.state] += 1
            about = (rule.id, rule.state.value, candidate.kind, candidate.member_id)
            _log.info("moderation rule %d (%s) matches a %s by member %d", *about)
        return decision(matching)

    async def refresh(self) -> None:
        """Read the rules if they were read more than five seconds ago. Call it before content is checked."""
        self._used = True
        if not self._watched and self._is_due():
            async with self._reading:
                if self._is_due():
                    await self.look()

    def _is_due(self) -> bool:
        return time.monotonic() - self._read_at >= self._every

    async def look(self) -> None:
        """Read the rules. Changes that were committed before this call are in force when it returns."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self.read()
        except Exception as error:  # noqa: BLE001  # rules that cannot be decoded must not end the task that reads them
            self._outage.warning(
                "reading moderation rules failed, the previous ones stay in force: %s", str(error) or "timeout"
            )

    async def read(self) -> None:
        """Read the rules, as `look`. Raises `Unavailable`."""
        # Note the time also if the store is down, so that not every check waits for it.
        self._read_at = time.monotonic()
        with another_request():
            await self._read()

    async def _read(self) -> None:
        stored = await moderation_rules.stored(self._graph)
        version, now = (stored.id, stored.version), self._clock()
        pictured = any(rule.conditions.like_removed and rule.state is not RuleState.OFF for rule in stored.rules)
        if version == self._version and not (pictured and now - self._pictures_at >= _PICTURES_SECONDS):
            return
        pictures = await removed_pictures(self._graph) if pictured else ()
        # In a thread, because compiling many words takes a tenth of a second.
        self._rules = await asyncio.to_thread(CompiledRules, stored.rules, pictures)
        self.checks[:] = [self.check] if self._rules.rules else []
        self._version, self._pictures_at = version, now

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            self._watched, self._used = self._used, False
            if self._watched:
                await self.look()


async def try_rules(store: Store, writes: Writes, rule_ids: Sequence[int], days: int) -> DryRunReport:
    """Do a dry run of rules (none given: of all rules), and record the result with each rule, which allows arming it.

    Raises `NotFound` for an unknown rule, and `InvalidInput` for an invalid number of days.
    """
    stored = await moderation_rules.stored(writes.graph)
    rules = [stored.rule(rule_id) for rule_id in dict.fromkeys(rule_ids)] or list(stored.rules)
    report = await dry_run(store, rules, days, writes.new_id.now(), direct=writes.checks.direct)
    for hits in report.rules:
        await moderation_rules.record_dry_run(writes, hits.rule, report.recorded(hits))
    return report


class ListRules(Operation[list[Rule]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[Rule]:
        return list((await moderation_rules.stored(network.store)).rules)


class PutRule(Operation[Rule]):
    """Create a rule or, with `rule_id`, replace the values of one."""

    draft: RuleDraft
    rule_id: int = 0

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> Rule:
        if self.rule_id:
            return await moderation_rules.update(network.writes, self.rule_id, self.draft)
        return await moderation_rules.create(network.writes, self.draft)


class SetRuleState(Operation[Rule]):
    rule_id: int
    state: RuleState

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> Rule:
        return await moderation_rules.set_state(network.writes, self.rule_id, self.state)


class DeleteRule(Operation[None]):
    rule_id: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await moderation_rules.delete(network.writes, self.rule_id)


class TryRules(Operation[DryRunReport]):
    """Check the content of the last `days` with rules (none given: all rules), without any effect on it."""

    rule_ids: list[int]
    days: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> DryRunReport:
        return await try_rules(network.store, network.writes, self.rule_ids, self.days)
