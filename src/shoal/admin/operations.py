"""Operations that an operator may run on a network, all of them in `AnyOperation`.

Operations on members, sessions, blocks, slow requests, imports, checks, jobs, tags and feeds. Archive imports and audit log
operations are in the modules of their subjects.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import structs

from shoal.admin import feeds, jobs, tags
from shoal.admin import feeds as replays
from shoal.admin.archives.importer import ImportArchive
from shoal.admin.audit_log import ExportAudit, ListAudit
from shoal.admin.blocklists import Blocklists
from shoal.admin.consistency.check import check, check_sampled
from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.feeds import FeedShown, ReplayOptions, ReplayReport, SuggestionsShown
from shoal.admin.imports.files import Sources
from shoal.admin.imports.records import ImportReport, Summary
from shoal.admin.imports.run import import_all
from shoal.admin.report import CheckReport, Progress
from shoal.admin.tags import Ruling
from shoal.commands import account_deletions, credentials, invitations, members, moderation, second_factor, sessions
from shoal.core.blocklists import IpSeverity
from shoal.core.errors import NotFound, Taken
from shoal.core.ids import milliseconds_of
from shoal.core.model import Member, Role
from shoal.core.ranking.recipes import Recipe
from shoal.graph.contract import Cursor
from shoal.observability.request_log import AnyEntry, LoggedJob, LoggedRequest, read_entry
from shoal.tagcloud.contract import TagRule

_MOST = 1_000


class MemberSession(msgspec.Struct, kw_only=True):
    """A login of a member, as commands tell of one."""

    id: int
    app: str
    """Name of the app; empty for a browser, and where the app is gone."""
    program: str
    system: str
    made_at: int
    """Unix milliseconds, as `used_at`, which is 0 where no use was noted yet."""
    used_at: int
    used_from: str


class ListSessions(Operation[list[MemberSession]]):
    """Tell where a member is logged in, newest first; the newest 1,000."""

    answer = list[MemberSession]
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[MemberSession]:
        member_id = await _id_of(network, self.name)
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
    """End one login of a member, or all of them (0); how many there were."""

    answer = int
    name: str
    session_id: int = 0

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> int:
        member_id = await _id_of(network, self.name)
        if not self.session_id:
            return await sessions.end_others(network.writes, member_id, 0)
        try:
            await sessions.end(network.writes, member_id, self.session_id)
        except NotFound:
            raise NotFound(f"{self.name} has no login {self.session_id}") from None
        return 1


async def _id_of(network: AnyNetwork, name: str) -> int:
    found = await members.find(network.writes, name)
    if found is None:
        raise NotFound(f"there is no member {name!r}")
    return found.id


_MOST_JOBS = 20
_MARK = b'"kind"'
"""Every line of a log that tells of a request or a job has this in it."""


class SlowShown(msgspec.Struct):
    """Requests that were asked for, and the jobs that followed from them."""

    requests: list[LoggedRequest]
    jobs: list[LoggedJob] = []
    """Runs of jobs in the trace of the request, the oldest first; 20 at most."""
    recorded: str = ""
    """Which requests the server records: its `request_log`; empty where a log was read."""
    slow_ms: float = 0.0


class ShowSlow(Operation[SlowShown]):
    """Read the slow requests that a server remembers: the one of this id, or the slowest."""

    answer = SlowShown
    id: str = ""
    limit: int = 20

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> SlowShown:
        recorder = network.recorder
        shown = followed(self.id, recorder.slow, recorder.jobs) if self.id else slowest(recorder.slow, self.limit)
        shown.recorded, shown.slow_ms = recorder.log, recorder.slow_ms
        return shown


def slowest(requests: Iterable[LoggedRequest], limit: int) -> SlowShown:
    """Return so many of the slowest requests, the slowest first, without their statements one by one."""
    found = heapq.nlargest(limit, requests, key=lambda one: one.ms)
    return SlowShown([structs.replace(one, spans=[]) for one in found])


def followed(id_: str, requests: Iterable[LoggedRequest], jobs: Iterable[LoggedJob]) -> SlowShown:
    """Return the newest request of this id, if there is one, and the jobs in its trace."""
    found = None
    for one in requests:
        if one.id == id_:
            found = one
    if found is None:
        return SlowShown([])
    of_trace = [job for job in jobs if found.trace and job.trace == found.trace][:_MOST_JOBS]
    return SlowShown([found], [structs.replace(job, spans=[]) for job in of_trace])


def in_logs(paths: Sequence[Path], id_: str, limit: int) -> SlowShown:
    """Read logs instead of a server's memory. Lines that are no JSON are passed over. Raises `OSError`.

    The logs are read twice where an id is given, and never held in memory.
    """
    if not id_:
        return slowest((one for one in _entries(paths) if isinstance(one, LoggedRequest)), limit)
    shown = followed(id_, (one for one in _entries(paths) if isinstance(one, LoggedRequest)), ())
    if not shown.requests or not shown.requests[0].trace:
        return shown
    return followed(id_, shown.requests, (one for one in _entries(paths) if isinstance(one, LoggedJob)))


def _entries(paths: Sequence[Path]) -> Iterator[AnyEntry]:
    for path in paths:
        with path.open("rb") as lines:
            for line in lines:
                if _MARK in line and (entry := read_entry(line)) is not None:
                    yield entry


class BlockDomain(Operation[str]):
    """Refuse sign-ups with e-mail addresses of a domain; the domain as it is compared."""

    answer = str
    domain: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        return (await Blocklists(network.writes).block_domain(self.domain)).domain


class BlockAddress(Operation[None]):
    """Refuse sign-ups with an e-mail address."""

    address: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).block_address(self.address)


class BlockNetwork(Operation[str]):
    """Keep a network out, or those who would sign up from there; the network as it is compared."""

    answer = str
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
    """Refuse sign-ups with a user name, or with all that have it in them."""

    word: str
    part: bool = False

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).block_name(self.word, part=self.part)


class UnblockName(Operation[None]):
    """End the blocks of a user name."""

    word: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).unblock_name(self.word)


class Unblock(Operation[None]):
    """End the block of a domain, an e-mail address or a network."""

    what: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await Blocklists(network.writes).unblock(self.what)


_MOST_WARM = 10_000_000


class NamedMember(msgspec.Struct):
    """A member, as commands tell of one."""

    id: int
    name: str


class CheckFree(Operation[None]):
    """Raise `Taken` when the name or the address of a new member belongs to somebody."""

    name: str
    email: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        for taken in filter(None, (self.name, self.email)):
            if await members.find(network.writes, taken):
                raise Taken(f"{taken} belongs to a member already")


class AddMember(Operation[NamedMember]):
    """Make a member who logs in with this password. `reserved` allows a name that is kept for the operator."""

    answer = NamedMember
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
    """Raise `NotFound` when there is no member of this name or address."""

    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await _found(network, self.name)


class SetPassword(Operation[None]):
    """Give a member another password, which ends all sessions."""

    name: str
    password: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await credentials.set_password(network.writes, (await _found(network, self.name)).id, self.password)


class SetEmail(Operation[None]):
    """Give a member another e-mail address, or none."""

    name: str
    address: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await credentials.set_email(network.writes, (await _found(network, self.name)).id, self.address)


class ResetSecondFactor(Operation[None]):
    """Ask a member for no codes any more who lost their app and their recovery codes."""

    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await second_factor.reset(network.writes, (await _found(network, self.name)).id)


class SetSuspended(Operation[None]):
    """Take a member out of sight, with all they posted; or undo that."""

    name: str
    suspended: bool

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        verb = moderation.suspend if self.suspended else moderation.restore
        await verb(network.writes, (await _found(network, self.name)).id)


class DeleteMember(Operation[str]):
    """Have a member deleted in so many days, with everything of theirs; the text of the receipt."""

    answer = str
    name: str
    days: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        member = await _found(network, self.name)
        return (await account_deletions.dismiss(network.writes, member.id, self.days)).receipt


class KeepMember(Operation[None]):
    """Keep a member who is to be deleted."""

    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await account_deletions.keep(network.writes, (await _found(network, self.name)).id)


class Judge(Operation[None]):
    """Let a member in who waits for approval, or delete them."""

    name: str
    approved: bool

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        verb = moderation.approve if self.approved else moderation.reject
        await verb(network.writes, (await _found(network, self.name)).id)


class Invite(Operation[str]):
    """Make an invitation of a member's, for so many uses and days; the end of its link."""

    answer = str
    name: str
    uses: int
    days: int
    follow: bool = False

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> str:
        owner, seconds = await _found(network, self.name), self.days * 86_400
        made = await invitations.create(network.writes, owner.id, uses=self.uses, seconds=seconds, follow=self.follow)
        return made.code


class SetRole(Operation[None]):
    """Make a member a moderator or an admin, or neither."""

    name: str
    role: Role

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await moderation.set_role(network.writes, (await _found(network, self.name)).id, self.role)


class SetHidden(Operation[None]):
    """Take a post out of everybody's sight but its author's; or show it again."""

    post_id: int
    hidden: bool

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        verb = moderation.hide if self.hidden else moderation.reveal
        await verb(network.writes, self.post_id)


class Import(Operation[ImportReport]):
    """Take in files of this machine, named by absolute paths. Every refused record is written to `refused`."""

    answer = ImportReport
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
    """Compare what is stored with what is promised. See `admin.consistency.check`."""

    answer = CheckReport
    alone = True
    repair: bool = False
    sample: int | None = None
    members: int | None = None
    """Look at so many members by chance, and not at everything."""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> CheckReport:
        if self.members is not None:
            return await check_sampled(network, self.members, progress)
        return await check(network, repair=self.repair, sample=self.sample, progress=progress)


class Replay(Operation[int]):
    """Give jobs that were set aside another chance (None: all of them); how many there were."""

    answer = int
    names: list[str] | None = None

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> int:
        return await jobs.replay({"store": network.store}, self.names, network.writes.graph, network.writes.new_id)


class RuleTag(Operation[TagRule]):
    """Have a rule on a tag hold: deny it, allow it, merge it into another or unmerge it."""

    answer = TagRule
    do: Literal["deny", "allow", "merge", "unmerge"]
    name: str
    target: str = ""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> TagRule:
        return await tags.lay_down(network.writes, network.reads.tags, self._wanted())

    def _wanted(self) -> Ruling:
        match self.do:
            case "deny":
                return tags.denying(self.name)
            case "allow":
                return tags.allowing(self.name)
            case "merge":
                return tags.merging(self.name, self.target)
            case "unmerge":
                return tags.unmerging(self.name)


class ShowFeed(Operation[FeedShown]):
    """Read a member's feed as they would."""

    answer = FeedShown
    name: str
    limit: int
    for_you: bool = False
    explain: bool = False
    catch_up: bool = False

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> FeedShown:
        member = await _found(network, self.name)
        if self.catch_up:
            return await feeds.missed(network.reads, member.id, self.limit, explain=self.explain)
        return await feeds.show(network.reads, member.id, self.limit, for_you=self.for_you, explain=self.explain)


class ShowSuggestions(Operation[SuggestionsShown]):
    """Read whom a member is suggested to follow."""

    answer = SuggestionsShown
    name: str
    limit: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> SuggestionsShown:
        return await feeds.show_suggestions(network.reads, (await _found(network, self.name)).id, self.limit)


class ReplayRecipe(Operation[ReplayReport]):
    """Say what another recipe of the server would change in ranked feeds. Nothing is written."""

    answer = ReplayReport
    alone = True
    recipe: Recipe
    options: ReplayOptions

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> ReplayReport:
        return await replays.replay(network, self.recipe, self.options, progress)


class Status(msgspec.Struct):
    """The process and the counts of a running server."""

    pid: int
    warm_timelines: int
    events_waiting: int
    events_set_aside: int


class AskStatus(Operation[Status]):
    """Ask a server what it holds."""

    answer = Status

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> Status:
        store = network.store
        warm = await network.timelines.members(_MOST_WARM)
        return Status(os.getpid(), len(warm), await store.backlog(), len(await store.buried()))


AnyOperation = (
    CheckFree
    | AddMember
    | CheckThere
    | SetPassword
    | SetSuspended
    | DeleteMember
    | KeepMember
    | SetEmail
    | ResetSecondFactor
    | Judge
    | Invite
    | SetRole
    | ListSessions
    | EndSessions
    | SetHidden
    | BlockDomain
    | BlockAddress
    | BlockNetwork
    | BlockName
    | UnblockName
    | Unblock
    | Import
    | ImportArchive
    | Check
    | Replay
    | RuleTag
    | AskStatus
    | ShowFeed
    | ShowSuggestions
    | ReplayRecipe
    | ShowSlow
    | ListAudit
    | ExportAudit
)


async def _found(network: AnyNetwork, name: str) -> Member:
    found = await members.find(network.writes, name)
    if found is None:
        raise NotFound(f"there is no member {name!r}")
    return found
