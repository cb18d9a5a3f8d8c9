"""All operations that an operator may run on a network; their union is `AnyOperation`.

Operations on members, sessions, blocks, slow requests, imports, checks, jobs, tags and feeds. Operations on archive imports, the
audit log, events, external ids, held content, moderation rules, bulk actions, named feeds and server keys are in the modules of
their subjects.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import structs

from shoal.admin import feeds, jobs, tags
from shoal.admin.archives.importer import ImportArchive
from shoal.admin.audit_log import ExportAudit, ListAudit
from shoal.admin.blocklists import Blocklists
from shoal.admin.bulk_moderation import ApplyBulk, ListBulk, PreviewBulk, ShowBulk, UndoBulk
from shoal.admin.consistency.check import check, check_sampled
from shoal.admin.contract import AnyNetwork, Operation, member_named
from shoal.admin.database_imports.run import ImportMapped
from shoal.admin.declared_reactions import DeclareReactions, ListReactions, RetireReaction
from shoal.admin.events import ReadEvents
from shoal.admin.external_ids import LinkExternalId, ListExternalIds, UnlinkExternalId
from shoal.admin.feeds import FeedShown, ReplayOptions, ReplayReport, SuggestionsShown
from shoal.admin.held_content import ApproveHeld, ListHeld, RejectHeld
from shoal.admin.imports.files import Sources
from shoal.admin.imports.records import ImportReport, Summary
from shoal.admin.imports.run import import_all
from shoal.admin.kinds import DeclareKind, IndexKind, ListKindPosts, ListKinds, ShowKind
from shoal.admin.moderation_rules import DeleteRule, ListRules, PutRule, SetRuleState, TryRules
from shoal.admin.named_feeds import DeleteFeed, ListFeeds, PutFeed, ReplayFeed, ShowNamedFeed, TryFeed
from shoal.admin.report import CheckReport, Progress
from shoal.admin.server_keys import CreateKey, DeleteKey, ListKeys, RotateKey
from shoal.admin.webhooks import (
    AddWebhook,
    ChangeWebhook,
    ListDeliveries,
    ListWebhooks,
    ReplayWebhook,
    RotateWebhook,
    TestWebhook,
    UpdateWebhook,
)
from shoal.commands import account_deletions, credentials, invitations, members, moderation, second_factor, sessions
from shoal.core.blocklists import IpSeverity
from shoal.core.errors import NotFound, Taken
from shoal.core.ids import milliseconds_of
from shoal.core.model import Role
from shoal.core.ranking.recipes import Recipe
from shoal.graph.contract import Cursor
from shoal.observability.request_log import LoggedJob, LoggedRequest, read_entry
from shoal.tagcloud.contract import TagRule

EntryT = TypeVar("EntryT", LoggedRequest, LoggedJob)

_MOST = 1_000


class MemberSession(msgspec.Struct, kw_only=True):
    id: int
    app: str
    """Name of the app; empty for a browser, and if the app was deleted."""
    program: str
    system: str
    made_at: int
    """`made_at` and `used_at` are in Unix milliseconds. `used_at` is 0 if the session was never used."""
    used_at: int
    used_from: str


class ListSessions(Operation[list[MemberSession]]):
    """List the newest 1,000 sessions of a member, newest first."""

    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[MemberSession]:
        member_id = (await member_named(network, self.name)).id
        page = await sessions.page(network.writes, member_id, Cursor(limit=_MOST))
        return [
            MemberSession(
                id=token.id,
                app=app.name if app else "",
                program=token.use.program,
                system=token.use.system,
                made_at=milliseconds_of(token.id),
                used_at=token.use.at,
                used_from=token.use.used_from,
            )
            for token, app in page.sessions
        ]


class EndSessions(Operation[int]):
    """Log out a session of a member, or all sessions if `session_id` is 0. Return the number of sessions."""

    name: str
    session_id: int = 0

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> int:
        member_id = (await member_named(network, self.name)).id
        if not self.session_id:
            return await sessions.end_others(network.writes, member_id, 0)
        try:
            await sessions.end(network.writes, member_id, self.session_id)
        except NotFound:
            raise NotFound(f"{self.name} has no session {self.session_id}") from None
        return 1


_MOST_JOBS = 20
_MARK = b'"kind"'
"""A text in every log line of a request or a job."""


class SlowShown(msgspec.Struct):
    requests: list[LoggedRequest]
    jobs: list[LoggedJob] = []
    """Runs of jobs in the trace of the request, oldest first; 20 at most."""
    recorded: str = ""
    """The server's setting `request_log`; empty if the requests come from a log file."""
    slow_ms: float = 0.0


class ShowSlow(Operation[SlowShown]):
    """Read slow requests from the server's memory: the request with `id`; if that is empty, the slowest requests."""

    id: str = ""
    limit: int = 20

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> SlowShown:
        recorder = network.recorder
        shown = followed(self.id, recorder.slow, recorder.jobs) if self.id else slowest(recorder.slow, self.limit)
        shown.recorded, shown.slow_ms = recorder.log, recorder.slow_ms
        return shown


def slowest(requests: Iterable[LoggedRequest], limit: int) -> SlowShown:
    """Return the slowest requests, slowest first, without their spans."""
    found = heapq.nlargest(limit, requests, key=lambda record: record.ms)
    return SlowShown([structs.replace(record, spans=[]) for record in found])


def followed(id_: str, requests: Iterable[LoggedRequest], jobs: Iterable[LoggedJob]) -> SlowShown:
    """Return the newest request with this id, if there is one, and the jobs of its trace."""
    found = None
    for request in requests:
        if request.id == id_:
            found = request
    if found is None:
        return SlowShown([])
    of_trace = [job for job in jobs if found.trace and job.trace == found.trace][:_MOST_JOBS]
    return SlowShown([found], [structs.replace(job, spans=[]) for job in of_trace])


def in_logs(paths: Sequence[Path], id_: str, limit: int) -> SlowShown:
    """Read requests from log files. Lines without JSON are skipped. Raises `OSError` for a file that cannot be read.

    The files are streamed. If an id is given, they are read twice.
    """
    requests = _entries(paths, LoggedRequest)
    if not id_:
        return slowest(requests, limit)
    shown = followed(id_, requests, ())
    if not shown.requests or not shown.requests[0].trace:
        return shown
    return followed(id_, shown.requests, _entries(paths, LoggedJob))


def _entries(paths: Sequence[Path], kind: type[EntryT]) -> Iterator[EntryT]:
    for path in paths:
        with path.open("rb") as lines:
            for line in lines:
                if _MARK in line and isinstance(entry := read_entry(line), kind):
                    yield entry


class BlockDomain(Operation[str]):
    """Refuse sign-ups with e-mail addresses of a domain. Return the normalized domain."""

    domain: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        return (await Blocklists(network.writes).block_domain(self.domain)).domain


class BlockAddress(Operation[None]):
    address: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).block_address(self.address)


class BlockNetwork(Operation[str]):
    """Block an IP address range, or sign-ups from it; return the normalized range."""

    network: str
    severity: IpSeverity
    comment: str = ""
    seconds: int = 0

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        made = await Blocklists(network.writes).block_network(
            self.network, self.severity, comment=self.comment, seconds=self.seconds
        )
        return made.network


class BlockName(Operation[None]):
    """Refuse sign-ups with a user name. With `part`, refuse every name that contains it."""

    word: str
    part: bool = False

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).block_name(self.word, part=self.part)


class UnblockName(Operation[None]):
    word: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).unblock_name(self.word)


class Unblock(Operation[None]):
    what: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).unblock(self.what)


_MOST_WARM = 10_000_000


class NamedMember(msgspec.Struct):
    id: int
    name: str


class CheckFree(Operation[None]):
    name: str
    email: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        for taken in filter(None, (self.name, self.email)):
            if await members.find(network.writes, taken):
                raise Taken(f"{taken} is already used by a member")


class AddMember(Operation[NamedMember]):
    """Create a member with a password. With `reserved`, the name may be a reserved one."""

    name: str
    password: str
    email: str = ""
    display_name: str = ""
    reserved: bool = False

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> NamedMember:
        made = await members.register(
            network.writes,
            self.name,
            password=self.password,
            email=self.email,
            display_name=self.display_name,
            reserved=self.reserved,
        )
        return NamedMember(made.id, made.name)


class CheckThere(Operation[None]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await member_named(network, self.name)


class SetPassword(Operation[None]):
    name: str
    password: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await credentials.set_password(network.writes, (await member_named(network, self.name)).id, self.password)


class SetEmail(Operation[None]):
    name: str
    address: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await credentials.set_email(network.writes, (await member_named(network, self.name)).id, self.address)


class ResetSecondFactor(Operation[None]):
    """Turn off the second factor of a member who has lost the authenticator app and the recovery codes."""

    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await second_factor.reset(network.writes, (await member_named(network, self.name)).id)


class SetSuspended(Operation[None]):
    """Suspend a member, which hides all their posts, or undo the suspension."""

    name: str
    suspended: bool

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        verb = moderation.suspend if self.suspended else moderation.restore
        await verb(network.writes, (await member_named(network, self.name)).id)


class DeleteMember(Operation[str]):
    """Schedule the deletion of a member and all their data. Return the text of the receipt."""

    name: str
    days: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        member = await member_named(network, self.name)
        return (await account_deletions.dismiss(network.writes, member.id, self.days)).receipt


class KeepMember(Operation[None]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await account_deletions.keep(network.writes, (await member_named(network, self.name)).id)


class Judge(Operation[None]):
    name: str
    approved: bool

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        verb = moderation.approve if self.approved else moderation.reject
        await verb(network.writes, (await member_named(network, self.name)).id)


class Invite(Operation[str]):
    """Create an invitation on behalf of a member. Return the code of its link."""

    name: str
    uses: int
    days: int
    follow: bool = False

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        owner, seconds = await member_named(network, self.name), self.days * 86_400
        made = await invitations.create(network.writes, owner.id, uses=self.uses, seconds=seconds, follow=self.follow)
        return made.code


class SetRole(Operation[None]):
    name: str
    role: Role

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await moderation.set_role(network.writes, (await member_named(network, self.name)).id, self.role)


class SetHidden(Operation[None]):
    post_id: int
    hidden: bool

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        verb = moderation.hide if self.hidden else moderation.reveal
        await verb(network.writes, self.post_id)


class Import(Operation[ImportReport]):
    """Import local files, given by absolute paths. Rejected records are written to the file `refused`."""

    alone = True
    background = True
    sources: Sources
    refused: Path | None = None

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> ImportReport:
        with ExitStack() as stack:
            summary = Summary(stack.enter_context(self.refused.open("wb")) if self.refused else None)
            await import_all(network, self.sources, summary, progress)
            return summary.report()


class Check(Operation[CheckReport]):
    """Check the consistency of all stored data and home timelines, or only that of `members` random members."""

    alone = True
    repair: bool = False
    sample: int | None = None
    members: int | None = None

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> CheckReport:
        if self.members is not None:
            return await check_sampled(network, self.members, progress)
        return await check(network, repair=self.repair, sample=self.sample, progress=progress)


class Replay(Operation[int]):
    """Retry parked jobs; None retries all. Return their number."""

    names: list[str] | None = None

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> int:
        return await jobs.replay({"store": network.store}, self.names, network.writes.graph, network.writes.new_id)


class RuleTag(Operation[TagRule]):
    """Set a rule for a tag: deny it, allow it, merge it into another tag, or undo a merge."""

    do: Literal["deny", "allow", "merge", "unmerge"]
    name: str
    target: str = ""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> TagRule:
        rulings = {"deny": tags.denying, "allow": tags.allowing, "unmerge": tags.unmerging}
        ruling = tags.merging(self.name, self.target) if self.do == "merge" else rulings[self.do](self.name)
        return await tags.lay_down(network.writes, network.reads.tags, ruling)


class ShowFeed(Operation[FeedShown]):
    name: str
    limit: int
    for_you: bool = False
    explain: bool = False
    catch_up: bool = False

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> FeedShown:
        member = await member_named(network, self.name)
        if self.catch_up:
            return await feeds.missed(network.reads, member.id, self.limit, explain=self.explain)
        return await feeds.show(network.reads, member.id, self.limit, for_you=self.for_you, explain=self.explain)


class ShowSuggestions(Operation[SuggestionsShown]):
    name: str
    limit: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> SuggestionsShown:
        return await feeds.show_suggestions(network.reads, (await member_named(network, self.name)).id, self.limit)


class ReplayRecipe(Operation[ReplayReport]):
    """Compare ranked feeds under another recipe with the current feeds. Nothing is written."""

    alone = True
    recipe: Recipe
    options: ReplayOptions

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> ReplayReport:
        return await feeds.replay(network, self.recipe, self.options, progress)


class Status(msgspec.Struct):
    pid: int
    warm_timelines: int
    events_waiting: int
    events_set_aside: int


class AskStatus(Operation[Status]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> Status:
        store = network.store
        warm = await network.timelines.members(_MOST_WARM)
        return Status(os.getpid(), len(warm), await store.backlog(), len(await store.parked()))


_KEYS = (CreateKey, ListKeys, RotateKey, DeleteKey)
_EXTERNAL_IDS = (ListExternalIds, LinkExternalId, UnlinkExternalId)
_MODERATION = (
    DeclareKind,
    IndexKind,
    ListKindPosts,
    ListKinds,
    ShowKind,
    DeclareReactions,
    ListReactions,
    RetireReaction,
    ListRules,
    PutRule,
    SetRuleState,
    DeleteRule,
    TryRules,
    PreviewBulk,
    ApplyBulk,
    UndoBulk,
    ShowBulk,
    ListBulk,
)
_HELD = (ListHeld, ApproveHeld, RejectHeld)
_FEEDS = (ListFeeds, ShowNamedFeed, PutFeed, DeleteFeed, TryFeed, ReplayFeed)
_WEBHOOKS = (
    *(AddWebhook, ListWebhooks, UpdateWebhook, ChangeWebhook),
    *(TestWebhook, ReplayWebhook, RotateWebhook, ListDeliveries),
)
AnyOperation = reduce(
    or_,
    {
        ImportArchive,
        ImportMapped,
        ListAudit,
        ExportAudit,
        ReadEvents,
        *_KEYS,
        *_EXTERNAL_IDS,
        *_MODERATION,
        *_HELD,
        *_FEEDS,
        *_WEBHOOKS,
        *Operation.__subclasses__(),
    },
)
"""The union of all operations."""
