"""Each audited action writes exactly one entry, even after a lost response or a conflict; a failed action writes none."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple, cast

import pytest

from shoal import Handle, Shoal
from shoal.admin import jobs
from shoal.admin import tags as tag_rules
from shoal.commands import (
    account_deletions,
    audit,
    blocklists,
    bulk_moderation,
    credentials,
    declared_reactions,
    external_ids,
    feeds,
    held_content,
    invitations,
    kinds,
    members,
    moderation,
    moderation_rules,
    oauth,
    passkeys,
    posts,
    publishing,
    reports,
    second_factor,
    server_keys,
    sessions,
)
from shoal.commands.blocklists import IpBlockChanges
from shoal.commands.context import Writes
from shoal.commands.posts import Draft, encode_draft
from shoal.commands.reports import Complaint
from shoal.core.audit import Actor, AuditVerb, TargetKind, member_target
from shoal.core.blocklists import IpSeverity
from shoal.core.bulk_moderation import BulkQuery
from shoal.core.errors import OutcomeUnknown, ShoalError, Unavailable
from shoal.core.events import ProfileChanged
from shoal.core.external_ids import ExternalId
from shoal.core.ids import shard_of
from shoal.core.kinds import KindDraft
from shoal.core.model import App, Member, Role
from shoal.core.moderation_rules import Conditions, RuleDraft, RuleState
from shoal.core.publishing import Candidate, Checks, Decision, HeldContent
from shoal.core.reactions import Reaction
from shoal.core.webhooks import Webhook
from shoal.graph.contract import Batch, Changed, Cursor, Graph, Store
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import AUDITED, PUBLIC_LISTS
from shoal.queries.events import EventReader
from shoal.scheduler import Agenda
from shoal.webhooks import endpoints
from tests.async_runner import in_loop
from tests.audit.log_reader import acts, entries
from tests.audit.login_clients import From
from tests.engines.authenticator_app import code_of
from tests.engines.smtp import PostOffice, post_office
from tests.engines.virtual_authenticator import SoftDevice

PASSWORD, OTHER = "a long password", "another long one"
WHERE = "203.0.113.9"
SPAM, HAM = (RuleDraft(name="Rule", conditions=Conditions(words=(word,))) for word in ("spam", "ham"))


class Faulty:
    """A graph whose first commit of an entry fails: applied with a lost response, not applied, or in conflict."""

    def __init__(self, graph: Graph, fails: type[ShoalError] | None) -> None:
        self._graph = graph
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        """Commit the batch or fail."""
        noted = any(op.atype == AUDITED.number and op.id1 in PUBLIC_LISTS for op in batch.assocs)
        fails, self.fails = (self.fails, None) if noted else (None, self.fails)
        if fails is Changed:
            raise Changed(batch.shard)
        if fails is Unavailable:
            raise Unavailable("not now")
        await self._graph.commit(batch)
        if fails is OutcomeUnknown:
            raise OutcomeUnknown("the answer is lost")


@dataclass
class Scene:
    """A network with member Ann and moderator Mo."""

    shoal: Shoal
    office: PostOffice
    graph: Faulty
    ann: Handle
    mo: Handle
    app: App

    @property
    def writes(self) -> Writes:
        """Writes with Mo as the actor."""
        return self.bundle(self.mo.id, "mo")

    @property
    def own(self) -> Writes:
        """Writes with Ann as the actor."""
        return self.bundle(self.ann.id, "ann")

    @property
    def nobody(self) -> Writes:
        """Writes with an anonymous actor."""
        return self.bundle(0, "")

    def bundle(self, id_: int, name: str) -> Writes:
        graph = cast("Graph", self.graph)
        return replace(self.shoal.network.writes, graph=graph).by(Actor(id_, name, WHERE))

    async def member(self, name: str = "ann") -> Member:
        """Return the current state of a member."""
        found = await members.find(self.shoal.network.writes, name)
        assert found is not None
        return found

    async def proof(self, address: str) -> str:
        """Return the token of the link in the newest mail to an address."""
        await self.shoal.settle()
        return self.office.to(address).proof


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    with post_office() as office:
        async with Shoal.open(
            "memory://", mail=office.url, base_url="https://sea.example.org", event_log="on"
        ) as shoal:
            ann = await shoal.register("ann", PASSWORD, email="ann@example.org")
            mo = await shoal.register("mo")
            app = await oauth.register(shoal.network.writes, "App", redirect_uris=("urn:x",))
            yield Scene(shoal, office, Faulty(shoal.network.writes.graph, None), ann, mo, app.app)
            # Deliver pending mail before the mail server closes.
            await shoal.settle()


Act = Callable[[], Awaitable[object]]


class Case(NamedTuple):
    """How to prepare an action, and its properties; the result of `prepare` runs it."""

    prepare: Callable[[Scene], Awaitable[Act]]
    kind: TargetKind = TargetKind.MEMBER
    by_mo: bool = True
    anew: bool = False


def on_ann(
    verb: Callable[[Writes, int], Awaitable[object]], *before: Callable[[Writes, int], Awaitable[object]]
) -> Case:
    async def prepare(it: Scene) -> Act:
        for earlier in before:
            await earlier(it.shoal.network.writes, it.ann.id)
        return lambda: verb(it.writes, it.ann.id)

    return Case(prepare)


def on_post(
    verb: Callable[[Writes, int], Awaitable[object]], *before: Callable[[Writes, int], Awaitable[object]]
) -> Case:
    async def prepare(it: Scene) -> Act:
        post = await it.ann.create("Buy my boat")
        for earlier in before:
            await earlier(it.shoal.network.writes, post.id)
        return lambda: verb(it.writes, post.id)

    return Case(prepare, TargetKind.POST)


def on_report(
    verb: Callable[[Writes, int], Awaitable[object]], *before: Callable[[Writes, int], Awaitable[object]]
) -> Case:
    async def prepare(it: Scene) -> Act:
        filed = await reports.file(it.shoal.network.writes, it.mo.id, it.ann.id, Complaint(comment="rude"))
        for earlier in before:
            await earlier(it.shoal.network.writes, filed.id)
        return lambda: verb(it.writes, filed.id)

    return Case(prepare, TargetKind.REPORT)


def on_held(verb: Callable[[Writes, int], Awaitable[object]]) -> Case:
    async def prepare(it: Scene) -> Act:
        held = HeldContent(id=0, owner_id=it.ann.id, kind="post", text="boat", content=encode_draft(Draft(text="boat")))
        stored = await publishing.hold(it.shoal.network.writes, held)
        return lambda: verb(it.writes, stored.held_id)

    return Case(prepare)


async def _undecided(_candidate: Candidate) -> Decision:
    return Decision("allow", unchecked=True)


def unchecked(it: Scene) -> Awaitable[object]:
    writes = replace(it.own, checks=Checks((_undecided,)))
    return posts.create(writes, it.ann.id, Draft(text="boat"), request="once")


def waiting(verb: Callable[[Writes, int], Awaitable[object]]) -> Case:
    async def prepare(it: Scene) -> Act:
        dora = await it.shoal.register("dora", PASSWORD, pending=True)
        return lambda: verb(it.writes, dora.id)

    return Case(prepare)


def doing(
    act: Callable[[Scene], Awaitable[object]],
    *before: Callable[[Scene], Awaitable[object]],
    kind: TargetKind = TargetKind.MEMBER,
    by_mo: bool = True,
    anew: bool = False,
) -> Case:
    async def prepare(it: Scene) -> Act:
        for earlier in before:
            await earlier(it)
        return lambda: act(it)

    return Case(prepare, kind, by_mo, anew)


def on_rule(wanted: tag_rules.Ruling, *before: tag_rules.Ruling) -> Case:
    async def prepare(it: Scene) -> Act:
        tags = it.shoal.network.tags
        for earlier in before:
            await tag_rules.lay_down(it.shoal.network.writes, tags, earlier)
        return lambda: tag_rules.lay_down(it.writes, tags, wanted)

    return Case(prepare, TargetKind.TAG, anew=True)


async def unblock_network(it: Scene) -> Act:
    block = await blocklists.block_ip(it.shoal.network.writes, "198.51.100.0/24", IpSeverity.NO_ACCESS)
    return lambda: blocklists.unblock_ip(it.writes, block.id)


async def change_network(it: Scene) -> Act:
    block = await blocklists.block_ip(it.shoal.network.writes, "198.51.100.0/24", IpSeverity.NO_ACCESS)
    return lambda: blocklists.update_ip_block(it.writes, block.id, IpBlockChanges(comment="again and again"))


async def create_rule(it: Scene) -> None:
    await moderation_rules.create(it.shoal.network.writes, SPAM)


async def bulk_apply(it: Scene) -> Act:
    writes = it.shoal.network.writes
    action = await bulk_moderation.create(writes, BulkQuery(words=("spam",)), "hide", [])
    return lambda: bulk_moderation.apply(it.writes, action.id)


async def bulk_undo(it: Scene) -> Act:
    writes = it.shoal.network.writes
    action = await bulk_moderation.create(writes, BulkQuery(words=("spam",)), "hide", [])
    await bulk_moderation.apply(writes, action.id)
    await it.shoal.settle()
    return lambda: bulk_moderation.undo(it.writes, action.id)


async def unblock_domain(it: Scene) -> Act:
    block = await blocklists.block_domain(it.shoal.network.writes, "junk.example")
    return lambda: blocklists.unblock_domain(it.writes, block.id)


async def unblock_address(it: Scene) -> Act:
    block = await blocklists.block_address(it.shoal.network.writes, "a@junk.example")
    return lambda: blocklists.unblock_address(it.writes, block.id)


async def end_invitation(it: Scene) -> Act:
    inviting = replace(it.shoal.network.writes, inviters="members")
    made = await invitations.create(inviting, it.ann.id)
    return lambda: invitations.end(it.own, it.ann.id, made.id)


async def end_session(it: Scene) -> Act:
    token = (await oauth.issue_token(it.shoal.network.writes, it.app.id, it.ann.id, ("read",))).token
    return lambda: sessions.end(it.own, it.ann.id, token.id)


async def authorize(it: Scene) -> Act:
    member = await it.member()
    return lambda: oauth.issue_code(it.nobody, member, it.app.id, ("read",), "urn:x")


async def guarded(it: Scene, steps: int = 0) -> str:
    """Turn Ann's second factor on, and return its key."""
    key = await it.ann.second_factor_key()
    await it.ann.turn_on_second_factor(PASSWORD, key, code_of(key, steps))
    return key


async def turn_on(it: Scene) -> Act:
    key = await it.ann.second_factor_key()
    return lambda: second_factor.turn_on(it.own, it.ann.id, PASSWORD, key, code_of(key))


async def turn_off(it: Scene) -> Act:
    key = await guarded(it)
    return lambda: second_factor.turn_off(it.own, it.ann.id, PASSWORD, code_of(key, 1))


async def reset_factor(it: Scene) -> Act:
    await guarded(it)
    return lambda: second_factor.reset(it.writes, it.ann.id)


async def renew_codes(it: Scene) -> Act:
    key = await guarded(it, -1)
    steps = iter((0, 1))
    return lambda: second_factor.new_codes(it.own, it.ann.id, code_of(key, next(steps)))


async def add_passkey(it: Scene) -> Act:
    client = From(WHERE)
    asked: Any = await passkeys.options(it.own, client.site, await it.member())
    answer = SoftDevice().make(asked)
    return lambda: passkeys.add(it.own, it.ann.id, "Phone", answer, PASSWORD, "", client)


async def remove_passkey(it: Scene) -> Act:
    await (await add_passkey(it))()
    (one,) = await passkeys.of_member(it.own, it.ann.id)
    return lambda: passkeys.remove(it.own, it.ann.id, one.id, PASSWORD, "", None)


async def reset_password(it: Scene) -> Act:
    proof = await forgotten(it)
    return lambda: credentials.reset_password(it.nobody, proof, OTHER)


async def forgotten(it: Scene) -> str:
    await it.shoal.forgot_password("ann")
    return await it.proof("ann@example.org")


async def confirm_change(it: Scene) -> Act:
    await it.ann.change_email(PASSWORD, "new@example.org")
    proof = await it.proof("new@example.org")
    return lambda: credentials.confirm(it.nobody, proof)


async def undo_change(it: Scene) -> Act:
    await (await confirm_change(it))()
    proof = await it.proof("ann@example.org")
    return lambda: credentials.undo_change(it.nobody, proof)


async def complete_deletion(it: Scene) -> Act:
    await it.shoal.delete_member(it.ann)
    agenda = Agenda(it.bundle(0, ""), clock=lambda: time.time_ns() // 1_000_000 + 1_000)
    return agenda.once


async def replay(it: Scene) -> Act:
    # Broker jobs are not in the graph.
    outbox = MemoryGraph()
    batch = Batch(shard_of(it.ann.id))
    batch.emit(ProfileChanged(member_id=it.ann.id))
    await outbox.commit(batch)

    async def again() -> int:
        for job in await outbox.claim(1, 60.0):
            await outbox.park(job, "broken")
        writes = it.writes
        return await jobs.replay({"broker": outbox}, None, writes.graph, writes.new_id, writes.actor)

    return again


def _invite(it: Scene) -> Awaitable[object]:
    return invitations.create(replace(it.own, inviters="members"), it.ann.id)


async def _fail(it: Scene) -> None:
    with contextlib.suppress(ShoalError):
        await members.log_in(it.nobody, "ann", "wrong")


async def _begin(it: Scene) -> None:
    await sessions.begin(it.nobody, await it.member())


async def _export(it: Scene) -> None:
    target = member_target(await it.member())
    await audit.note_alone(it.own, AuditVerb.EXPORT_REQUESTED, target)


async def _import(it: Scene) -> None:
    await audit.note_alone(it.own, AuditVerb.ARCHIVE_IMPORTED, member_target(await it.member()))


async def create_key(it: Scene) -> None:
    await server_keys.create(it.shoal.network.writes, "shop", ("server",))


async def _resume(writes: Writes, hook: Webhook) -> None:
    await endpoints.resume(writes, EventReader(cast("Store", writes.graph), ""), hook)


def on_webhook(
    verb: Callable[[Writes, Webhook], Awaitable[object]],
    *before: Callable[[Writes, Webhook], Awaitable[object]],
    anew: bool = False,
) -> Case:
    async def prepare(it: Scene) -> Act:
        writes, events = it.shoal.network.writes, EventReader(it.shoal.network.store, "")
        made = await endpoints.create(writes, events, "https://shop.example")
        for earlier in before:
            await earlier(writes, await endpoints.find(writes.graph, made.id))
        hook = await endpoints.find(writes.graph, made.id)
        return lambda: verb(it.writes, hook)

    return Case(prepare, TargetKind.WEBHOOK, anew=anew)


FEED = {"sources": [{"from": "everybody"}]}


async def declare_reaction(it: Scene) -> None:
    await declared_reactions.declare(it.shoal.network.writes, COOKED)


async def create_feed(it: Scene) -> None:
    await feeds.create_for_server(it.shoal.network.writes, "all", FEED)


SHOP = ExternalId("https://shop.example", "42")
COOKED = Reaction(name="cooked", title="Cooked it")
NEW_NETWORK = "198.51.100.0/24"
CASES: dict[AuditVerb, Case] = {
    AuditVerb.MEMBER_SUSPENDED: on_ann(moderation.suspend),
    AuditVerb.MEMBER_UNSUSPENDED: on_ann(moderation.restore, moderation.suspend),
    AuditVerb.MEMBER_SILENCED: on_ann(moderation.silence),
    AuditVerb.MEMBER_UNSILENCED: on_ann(moderation.unsilence, moderation.silence),
    AuditVerb.MEMBER_SENSITIZED: on_ann(moderation.sensitize),
    AuditVerb.MEMBER_UNSENSITIZED: on_ann(moderation.unsensitize, moderation.sensitize),
    AuditVerb.MEMBER_DISABLED: on_ann(moderation.disable),
    AuditVerb.MEMBER_ENABLED: on_ann(moderation.enable, moderation.disable),
    AuditVerb.MEMBER_ROLE_CHANGED: on_ann(lambda writes, id_: moderation.set_role(writes, id_, Role.ADMIN)),
    AuditVerb.SIGN_UP_APPROVED: waiting(moderation.approve),
    AuditVerb.SIGN_UP_REJECTED: waiting(moderation.reject),
    AuditVerb.POST_HIDDEN: on_post(moderation.hide),
    AuditVerb.POST_REVEALED: on_post(moderation.reveal, moderation.hide),
    AuditVerb.HELD_APPROVED: on_held(held_content.approve),
    AuditVerb.HELD_REJECTED: on_held(held_content.reject),
    AuditVerb.CONTENT_UNCHECKED: doing(unchecked, kind=TargetKind.POST, by_mo=False),
    AuditVerb.POST_KEPT_FROM_TRENDS: on_post(moderation.keep_from_trends),
    AuditVerb.POST_ALLOWED_IN_TRENDS: on_post(moderation.let_trend, moderation.keep_from_trends),
    AuditVerb.POSTS_CHANGED: Case(bulk_apply, TargetKind.BULK_ACTION),
    AuditVerb.POSTS_RESTORED: Case(bulk_undo, TargetKind.BULK_ACTION),
    AuditVerb.RULE_CREATED: doing(lambda it: moderation_rules.create(it.writes, SPAM), kind=TargetKind.RULE, anew=True),
    AuditVerb.RULE_CHANGED: doing(
        lambda it: moderation_rules.update(it.writes, 1, HAM), create_rule, kind=TargetKind.RULE
    ),
    AuditVerb.RULE_STATE_CHANGED: doing(
        lambda it: moderation_rules.set_state(it.writes, 1, RuleState.DRY_RUN), create_rule, kind=TargetKind.RULE
    ),
    AuditVerb.RULE_DELETED: doing(lambda it: moderation_rules.delete(it.writes, 1), create_rule, kind=TargetKind.RULE),
    AuditVerb.TAG_DENIED: on_rule(tag_rules.denying("tide")),
    AuditVerb.TAG_ALLOWED: on_rule(tag_rules.allowing("tide"), tag_rules.denying("tide")),
    AuditVerb.TAG_MERGED: on_rule(tag_rules.merging("tides", "tide")),
    AuditVerb.TAG_UNMERGED: on_rule(tag_rules.unmerging("tides"), tag_rules.merging("tides", "tide")),
    AuditVerb.REPORT_RESOLVED: on_report(lambda writes, id_: reports.resolve(writes, id_, 1)),
    AuditVerb.REPORT_REOPENED: on_report(reports.reopen, lambda writes, id_: reports.resolve(writes, id_, 1)),
    AuditVerb.REPORT_ASSIGNED: on_report(lambda writes, id_: reports.assign(writes, id_, 1)),
    AuditVerb.REPORT_UNASSIGNED: on_report(
        lambda writes, id_: reports.assign(writes, id_, 0), lambda writes, id_: reports.assign(writes, id_, 1)
    ),
    AuditVerb.REPORT_CATEGORIZED: on_report(lambda writes, id_: reports.sort(writes, id_, category="spam")),
    AuditVerb.EMAIL_DOMAIN_BLOCKED: doing(
        lambda it: blocklists.block_domain(it.writes, "junk.example"), kind=TargetKind.EMAIL_DOMAIN
    ),
    AuditVerb.EMAIL_DOMAIN_UNBLOCKED: Case(unblock_domain, TargetKind.EMAIL_DOMAIN),
    AuditVerb.EMAIL_BLOCKED: doing(
        lambda it: blocklists.block_address(it.writes, "a@junk.example"), kind=TargetKind.EMAIL
    ),
    AuditVerb.EMAIL_UNBLOCKED: Case(unblock_address, TargetKind.EMAIL),
    AuditVerb.IP_BLOCKED: doing(
        lambda it: blocklists.block_ip(it.writes, NEW_NETWORK, IpSeverity.NO_ACCESS), kind=TargetKind.IP
    ),
    AuditVerb.IP_BLOCK_CHANGED: Case(change_network, TargetKind.IP),
    AuditVerb.IP_UNBLOCKED: Case(unblock_network, TargetKind.IP),
    AuditVerb.NAME_BLOCKED: doing(lambda it: blocklists.block_name(it.writes, "spammer"), kind=TargetKind.NAME),
    AuditVerb.NAME_UNBLOCKED: doing(
        lambda it: blocklists.unblock_name(it.writes, "spammer"),
        lambda it: blocklists.block_name(it.shoal.network.writes, "spammer"),
        kind=TargetKind.NAME,
    ),
    AuditVerb.INVITATION_CREATED: doing(_invite, kind=TargetKind.INVITATION, by_mo=False, anew=True),
    AuditVerb.INVITATION_ENDED: Case(end_invitation, TargetKind.INVITATION, by_mo=False),
    AuditVerb.LOGIN_SUCCEEDED: doing(_begin, by_mo=False, anew=True),
    AuditVerb.LOGIN_FAILED: doing(_fail, by_mo=False),
    AuditVerb.APP_AUTHORIZED: Case(authorize, by_mo=False, anew=True),
    AuditVerb.SESSION_ENDED: Case(end_session, by_mo=False),
    AuditVerb.PASSWORD_CHANGED: doing(
        lambda it: credentials.change_password(it.own, it.ann.id, PASSWORD, OTHER), by_mo=False
    ),
    AuditVerb.PASSWORD_RESET: Case(reset_password, by_mo=False),
    AuditVerb.PASSWORD_SET: doing(lambda it: credentials.set_password(it.writes, it.ann.id, OTHER), anew=True),
    AuditVerb.EMAIL_CHANGED: Case(confirm_change, by_mo=False),
    AuditVerb.EMAIL_RESTORED: Case(undo_change, by_mo=False),
    AuditVerb.EMAIL_SET: doing(lambda it: credentials.set_email(it.writes, it.ann.id, "new@example.org"), anew=True),
    AuditVerb.SECOND_FACTOR_ENABLED: Case(turn_on, by_mo=False),
    AuditVerb.SECOND_FACTOR_DISABLED: Case(turn_off, by_mo=False),
    AuditVerb.SECOND_FACTOR_RESET: Case(reset_factor),
    AuditVerb.SECOND_FACTOR_CODES_RENEWED: Case(renew_codes, by_mo=False, anew=True),
    AuditVerb.PASSKEY_ADDED: Case(add_passkey, by_mo=False),
    AuditVerb.PASSKEY_REMOVED: Case(remove_passkey, by_mo=False),
    AuditVerb.EXPORT_REQUESTED: doing(_export, by_mo=False, anew=True),
    AuditVerb.ARCHIVE_IMPORTED: doing(_import, by_mo=False, anew=True),
    AuditVerb.DELETION_REQUESTED: doing(lambda it: account_deletions.leave(it.own, it.ann.id, PASSWORD), by_mo=False),
    AuditVerb.DELETION_CANCELLED: doing(
        lambda it: account_deletions.come_back(it.nobody, "ann", PASSWORD),
        lambda it: account_deletions.leave(it.shoal.network.writes, it.ann.id, PASSWORD),
        by_mo=False,
    ),
    AuditVerb.DELETION_COMPLETED: Case(complete_deletion, by_mo=False),
    AuditVerb.JOBS_REPLAYED: Case(replay, TargetKind.JOBS, anew=True),
    AuditVerb.EXTERNAL_ID_LINKED: doing(lambda it: external_ids.link(it.writes, it.ann.id, SHOP)),
    AuditVerb.EXTERNAL_ID_UNLINKED: doing(
        lambda it: external_ids.unlink(it.writes, it.ann.id, SHOP),
        lambda it: external_ids.link(it.shoal.network.writes, it.ann.id, SHOP),
    ),
    AuditVerb.SERVER_KEY_CREATED: doing(
        lambda it: server_keys.create(it.writes, "shop", ("server",)), kind=TargetKind.SERVER_KEY
    ),
    AuditVerb.SERVER_KEY_ROTATED: doing(
        lambda it: server_keys.rotate(it.writes, "shop"), create_key, kind=TargetKind.SERVER_KEY, anew=True
    ),
    AuditVerb.SERVER_KEY_DELETED: doing(
        lambda it: server_keys.delete(it.writes, "shop"), create_key, kind=TargetKind.SERVER_KEY
    ),
    AuditVerb.KIND_DECLARED: doing(
        lambda it: kinds.declare(it.writes, KindDraft(name="recipe", schema={"type": "object"})),
        kind=TargetKind.KIND,
    ),
    AuditVerb.REACTION_DECLARED: doing(
        lambda it: declared_reactions.declare(it.writes, COOKED), kind=TargetKind.REACTION
    ),
    AuditVerb.REACTION_RETIRED: doing(
        lambda it: declared_reactions.retire(it.writes, "cooked"), declare_reaction, kind=TargetKind.REACTION
    ),
    AuditVerb.FEED_CREATED: doing(lambda it: feeds.create_for_server(it.writes, "all", FEED), kind=TargetKind.FEED),
    AuditVerb.FEED_CHANGED: doing(
        lambda it: feeds.update_for_server(it.writes, "all", title="Everything"), create_feed, kind=TargetKind.FEED
    ),
    AuditVerb.FEED_DELETED: doing(
        lambda it: feeds.delete_for_server(it.writes, "all"), create_feed, kind=TargetKind.FEED
    ),
    AuditVerb.WEBHOOK_CREATED: doing(
        lambda it: endpoints.create(it.writes, EventReader(it.shoal.network.store, ""), "https://shop.example"),
        kind=TargetKind.WEBHOOK,
        anew=True,
    ),
    AuditVerb.WEBHOOK_UPDATED: on_webhook(lambda writes, hook: endpoints.update(writes, hook, types="post")),
    AuditVerb.WEBHOOK_PAUSED: on_webhook(endpoints.pause),
    AuditVerb.WEBHOOK_RESUMED: on_webhook(_resume, endpoints.pause),
    AuditVerb.WEBHOOK_ROTATED: on_webhook(endpoints.rotate, anew=True),
    AuditVerb.WEBHOOK_DELETED: on_webhook(endpoints.delete),
}


def test_audit_log_test_cases_cover_all_verbs() -> None:
    assert list(CASES) == list(AuditVerb)


@pytest.mark.parametrize("verb", AuditVerb)
@in_loop
async def test_audited_action_writes_one_entry_with_actor(verb: AuditVerb) -> None:
    async with scene() as it:
        case = CASES[verb]
        act = await case.prepare(it)
        before = {one.id for one in await entries(it.graph)}
        await act()
        new = [one for one in await entries(it.graph) if one.id not in before]
        assert [one.entry.verb for one in new] == [verb]
        entry = new[0].entry
        assert entry.kind is case.kind
        if case.by_mo:
            assert (entry.actor_id, entry.actor_name, new[0].address) == (it.mo.id, "mo", WHERE)
        elif verb not in {AuditVerb.LOGIN_FAILED, AuditVerb.DELETION_COMPLETED, AuditVerb.CONTENT_UNCHECKED}:
            assert (entry.actor_id, entry.actor_name, new[0].address) == (it.ann.id, "ann", WHERE)
        if case.kind is TargetKind.MEMBER:
            assert entry.target_name in {"ann", "dora"}


@pytest.mark.parametrize("verb", AuditVerb)
@in_loop
async def test_audited_action_retried_after_unknown_outcome_writes_one_entry(verb: AuditVerb) -> None:
    async with scene() as it:
        case = CASES[verb]
        act = await case.prepare(it)
        before = len(await entries(it.graph, verb))
        it.graph.fails = OutcomeUnknown
        for _ in range(2):
            # The client retries, and the retry of an applied action may be refused.
            with contextlib.suppress(ShoalError, StopIteration):
                await act()
        assert len(await entries(it.graph, verb)) == before + 1 + case.anew


@pytest.mark.parametrize("verb", AuditVerb)
@in_loop
async def test_audited_action_that_fails_writes_no_entry(verb: AuditVerb) -> None:
    async with scene() as it:
        act = await CASES[verb].prepare(it)
        before = await acts(it.graph)
        it.graph.fails = Unavailable
        with contextlib.suppress(Unavailable):
            await act()
        assert await acts(it.graph) == before


# A failed login does not wait for its entry.
@pytest.mark.parametrize("verb", sorted(set(AuditVerb) - {AuditVerb.LOGIN_FAILED}))
@in_loop
async def test_audited_action_retried_after_conflict_writes_one_entry(verb: AuditVerb) -> None:
    async with scene() as it:
        act = await CASES[verb].prepare(it)
        before = len(await entries(it.graph, verb))
        it.graph.fails = Changed
        for _ in range(2):
            # The action retries itself, or is refused and the client retries.
            if len(await entries(it.graph, verb)) == before:
                with contextlib.suppress(ShoalError):
                    await act()
        assert len(await entries(it.graph, verb)) == before + 1


@in_loop
async def test_audit_login_entry_actor_is_logged_in_member_not_browser_session() -> None:
    async with scene() as it:
        borrowed = it.bundle(it.mo.id, "mo")
        await sessions.begin(borrowed, await it.member())
        await credentials.reset_password(borrowed, await forgotten(it), OTHER)
        for verb in (AuditVerb.LOGIN_SUCCEEDED, AuditVerb.PASSWORD_RESET):
            (one,) = await entries(it.graph, verb)
            assert (one.entry.actor_id, one.entry.actor_name, one.entry.holder_id) == (it.ann.id, "ann", it.ann.id)
        own = await it.shoal.network.store.assoc_range(it.ann.id, AUDITED, Cursor(limit=9))
        assert [held.data.decode() for held in own] == [WHERE, WHERE]


@in_loop
async def test_audit_app_authorization_entry_has_address_of_member_not_app_server() -> None:
    async with scene() as it:
        verifier = "v" * 43
        challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        code = await oauth.issue_code(it.own, await it.member(), it.app.id, ("read",), "urn:x", challenge)
        server = it.nobody.by(Actor(address="198.51.100.7"))
        await oauth.exchange_code(server, it.app.id, code, "urn:x", verifier)
        (one,) = await entries(it.graph, AuditVerb.APP_AUTHORIZED)
        assert (one.entry.actor_name, one.address) == ("ann", WHERE)
        assert not await entries(it.graph, AuditVerb.LOGIN_SUCCEEDED)


@in_loop
async def test_audited_action_without_effect_writes_no_entry() -> None:
    async with scene() as it:
        for verb in (moderation.suspend, moderation.silence, moderation.sensitize, moderation.disable):
            await verb(it.writes, it.ann.id)
        done = await acts(it.graph)
        for verb in (moderation.suspend, moderation.silence, moderation.sensitize, moderation.disable):
            await verb(it.writes, it.ann.id)
        assert await acts(it.graph) == done
