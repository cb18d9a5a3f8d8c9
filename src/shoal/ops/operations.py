"""Every operation that an operator may ask of a network, in `AnyOperation`; some are in modules of their own."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import msgspec

from shoal.commands import account_deletions, credentials, invitations, members, moderation, second_factor
from shoal.core.errors import NotFound, Taken
from shoal.core.model import Member, Role
from shoal.core.ranking.recipes import Recipe
from shoal.ops import jobs, reading, tag_rules
from shoal.ops.archive_operations import ImportArchive
from shoal.ops.audit_operations import ExportAudit, ListAudit
from shoal.ops.block_operations import BlockAddress, BlockDomain, BlockName, BlockNetwork, Unblock, UnblockName
from shoal.ops.checking.check import check
from shoal.ops.checking.report import CheckReport, Progress
from shoal.ops.checking.sampled import check_sampled
from shoal.ops.network import AnyNetwork
from shoal.ops.operation import Operation
from shoal.ops.reading import FeedShown, SuggestionsShown
from shoal.ops.replays import replay as replays
from shoal.ops.replays.replay import ReplayOptions, ReplayReport
from shoal.ops.session_operations import EndSessions, ListSessions
from shoal.ops.slow_operations import ShowSlow
from shoal.ops.tag_rules import Ruling
from shoal.ops.transfer.imports import import_all
from shoal.ops.transfer.sources import Sources
from shoal.ops.transfer.summary import ImportReport, Summary
from shoal.tagcloud.contract import TagRule

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
    """Compare what is stored with what is promised. See `ops.check.check`."""

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
        return await tag_rules.lay_down(network.writes, network.reads.tags, self._wanted())

    def _wanted(self) -> Ruling:
        match self.do:
            case "deny":
                return tag_rules.denying(self.name)
            case "allow":
                return tag_rules.allowing(self.name)
            case "merge":
                return tag_rules.merging(self.name, self.target)
            case "unmerge":
                return tag_rules.unmerging(self.name)


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
            return await reading.missed(network.reads, member.id, self.limit, explain=self.explain)
        return await reading.show(network.reads, member.id, self.limit, for_you=self.for_you, explain=self.explain)


class ShowSuggestions(Operation[SuggestionsShown]):
    """Read whom a member is suggested to follow."""

    answer = SuggestionsShown
    name: str
    limit: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> SuggestionsShown:
        return await reading.show_suggestions(network.reads, (await _found(network, self.name)).id, self.limit)


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
