"""Moderation: reports, reported members, tag rules, and blocks of e-mail addresses and IP address ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from shoal.admin import tags
from shoal.admin.blocklists import Blocklists
from shoal.app.network import Network
from shoal.commands import blocklists, held_content, moderation, reports
from shoal.commands.blocklists import IpBlockChanges
from shoal.commands.context import Writes
from shoal.commands.reports import Complaint
from shoal.core.audit import SYSTEM_ACTOR, Actor, AuditVerb, verb_of
from shoal.core.blocklists import CanonicalEmailBlock, EmailDomainBlock, IpBlock, IpSeverity
from shoal.core.errors import NotFound
from shoal.core.model import Member, Post, Report, Role
from shoal.core.publishing import HeldContent
from shoal.graph.access import access_post, get_object, members_by_id
from shoal.library.acting import Acting, AnyMember, AnyPost, Owned, id_of, one_of, part, post_id, resolve
from shoal.queries import moderation as moderation_queries
from shoal.queries import trends
from shoal.queries.hydration import Entry, hydrate_reported
from shoal.queries.moderation import AuditFilter, AuditPage, HeldPage, Members, MemberState, ReportFilter, Reports

AnyReport: TypeAlias = Report | int
AnyHeld: TypeAlias = HeldContent | int
Category: TypeAlias = Literal["spam", "legal", "violation", "other"]
RoleName: TypeAlias = Literal["", "moderator", "admin"]


class Complains(Acting):
    """A member who reports others."""

    async def report(
        self,
        who: AnyMember,
        *,
        posts: Sequence[AnyPost] = (),
        comment: str = "",
        category: Category = "other",
        rules: Sequence[str] = (),
    ) -> Report:
        """Report a member, and some of their posts, to the moderators. The posts are hidden from the reporter.

        `rules` are positions in the setting `rules`, from "1".

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for an unknown category or rule, or a
        long comment.
        """
        complaint = Complaint(
            post_ids=[post_id(post) for post in posts], comment=comment, category=category, rule_ids=rules
        )
        target = await self._resolve(who)
        return await reports.file(self._writes, self.id, target, complaint, rules=_rules(self._network))


class OwnHeld(Owned):
    """Content of a member that waits for approval, or was rejected."""

    async def page(self, before: int | None = None, limit: int = 20) -> HeldPage:
        """Return a page of the member's held and rejected content, newest first."""
        return await moderation_queries.held_page(self._reads.graph, part(before, limit), self._owner)

    async def withdraw(self, which: AnyHeld) -> None:
        """Delete content before a decision, or after it was rejected. Raises `NotFound`."""
        await held_content.withdraw(self._writes, self._owner, id_of(which))


class Moderation:
    """Moderation of a network. Roles are not checked: the application decides who may use it.

    The audit log names as actor the application or, for `Handle.moderation`, the member.
    """

    def __init__(self, network: Network, actor: Actor = SYSTEM_ACTOR) -> None:
        self._network = network
        self._actor = actor
        self._reads = network.reads

    @property
    def _writes(self) -> Writes:
        return self._network.writes.by(self._actor)

    async def members(
        self,
        before: int | None = None,
        limit: int = 100,
        *,
        states: Sequence[MemberState] = (),
        roles: Sequence[Role | RoleName] = (),
        name: str = "",
    ) -> Members:
        """Return a page of members, newest first, that are in all of these states and have any of these roles.

        `name` is a prefix of their user names. A page may have fewer members than `limit` although `next` is set. Raises
        `InvalidInput` for an unknown role.
        """
        requested = frozenset(one_of(Role, role, "roles") for role in roles)
        begins = name.lower()

        def fits(member: Member) -> bool:
            if (requested and member.role not in requested) or not member.name.startswith(begins):
                return False
            return all(moderation_queries.is_in(member, state) for state in states)

        return await moderation_queries.members_page(self._network.store, part(before, limit), fits)

    async def member(self, who: AnyMember) -> Member:
        """Return a member in any state. Raises `NotFound`."""
        id_ = await resolve(self._network, who)
        found = await members_by_id(self._reads.graph, (id_,))
        if id_ not in found:
            raise NotFound("Record not found")
        return found[id_]

    async def suspend(self, who: AnyMember) -> Member:
        """Suspend a member: hide them and all their posts, and prevent logins. Raises `NotFound`."""
        return await moderation.suspend(self._writes, await self._id(who))

    async def restore(self, who: AnyMember) -> Member:
        """Undo `suspend`. Raises `NotFound`."""
        return await moderation.restore(self._writes, await self._id(who))

    async def approve(self, who: AnyMember) -> Member:
        """Approve a pending member. Raises `NotFound`, and `NotAllowed` unless the member is pending."""
        return await moderation.approve(self._writes, await self._id(who))

    async def reject(self, who: AnyMember) -> Member:
        """Reject and delete a pending member. Raises `NotFound`, and `NotAllowed` unless the member is pending."""
        return await moderation.reject(self._writes, await self._id(who))

    async def silence(self, who: AnyMember) -> Member:
        """Remove a member's posts from public lists, except for their followers. Raises `NotFound`."""
        return await moderation.silence(self._writes, await self._id(who))

    async def unsilence(self, who: AnyMember) -> Member:
        """Undo `silence`. Raises `NotFound`."""
        return await moderation.unsilence(self._writes, await self._id(who))

    async def sensitize(self, who: AnyMember) -> Member:
        """Mark all media of a member as sensitive. Raises `NotFound`."""
        return await moderation.sensitize(self._writes, await self._id(who))

    async def unsensitize(self, who: AnyMember) -> Member:
        """Undo `sensitize`. Raises `NotFound`."""
        return await moderation.unsensitize(self._writes, await self._id(who))

    async def disable(self, who: AnyMember) -> Member:
        """Prevent a member from logging in and acting; their posts stay visible. Raises `NotFound`."""
        return await moderation.disable(self._writes, await self._id(who))

    async def enable(self, who: AnyMember) -> Member:
        """Undo `disable`. Raises `NotFound`."""
        return await moderation.enable(self._writes, await self._id(who))

    async def set_role(self, who: AnyMember, role: Role | RoleName) -> Member:
        """Make a member a moderator, an admin, or neither (""). Raises `NotFound`, and `InvalidInput` for an unknown role."""
        return await moderation.set_role(self._writes, await self._id(who), one_of(Role, role, "role"))

    async def hide(self, post: AnyPost) -> Post:
        """Hide a post from everyone except its author, and remove it from tag counts. Raises `NotFound`."""
        return await moderation.hide(self._writes, post_id(post))

    async def reveal(self, post: AnyPost) -> Post:
        """Undo `hide`. Raises `NotFound`."""
        return await moderation.reveal(self._writes, post_id(post))

    async def trending_posts(self, limit: int = 20, offset: int = 0) -> list[Entry]:
        """Return trending posts, including those kept from trends. Raises `Unavailable`."""
        return await trends.reviewed(self._reads, limit, offset)

    async def keep_from_trends(self, post: AnyPost) -> Post:
        """Exclude a public post from trends. Raises `NotFound`."""
        await access_post(self._reads.graph, None, post_id(post))
        return await moderation.keep_from_trends(self._writes, post_id(post))

    async def let_trend(self, post: AnyPost) -> Post:
        """Undo `keep_from_trends`. Raises `NotFound`."""
        await access_post(self._reads.graph, None, post_id(post))
        return await moderation.let_trend(self._writes, post_id(post))

    async def deny_tag(self, name: str) -> None:
        """Hide a tag in trends, the tag cloud and lists of tags. Raises `InvalidInput` for an invalid tag."""
        await tags.lay_down(self._writes, self._reads.tags, tags.denying(name))

    async def allow_tag(self, name: str) -> None:
        """Undo `deny_tag`. Raises `InvalidInput` for an invalid tag."""
        await tags.lay_down(self._writes, self._reads.tags, tags.allowing(name))

    async def denied_tags(self) -> list[str]:
        """Return the denied tags. Raises `Unavailable`."""
        return [rule.name for rule in await self._reads.tags.rules() if rule.denied]

    async def reports(
        self,
        before: int | None = None,
        limit: int = 100,
        *,
        resolved: bool = False,
        by: AnyMember | None = None,
        about: AnyMember | None = None,
        waiting: bool = False,
    ) -> Reports:
        """Return a page of open (or `resolved`) reports, newest first. A page may have fewer than `limit` although `next` is set.

        With `waiting`, only reports about posts that are removed from public lists until a moderator resolves a report. Raises
        `NotFound` for an unknown user name.
        """
        requested = ReportFilter(
            resolved=resolved,
            reporter_id=None if by is None else await resolve(self._network, by),
            target_id=None if about is None else await resolve(self._network, about),
            waiting=waiting,
        )
        return await moderation_queries.reports_page(self._reads.graph, part(before, limit), requested)

    async def report(self, which: AnyReport) -> Report:
        """Return a report. Raises `NotFound`."""
        return await reports.access_report(self._reads.graph, id_of(which))

    async def reported_posts(self, which: AnyReport) -> list[Entry]:
        """Return the posts of a report, including hidden posts. Raises `NotFound`."""
        report = await self.report(which)
        return await hydrate_reported(self._reads.graph, report.post_ids)

    async def assign(self, which: AnyReport, to: AnyMember | None) -> Report:
        """Assign a report to a member; None unassigns it. Raises `NotFound`."""
        member = 0 if to is None else await resolve(self._network, to)
        return await reports.assign(self._writes, id_of(which), member)

    async def resolve(self, which: AnyReport, by: AnyMember, *, upheld: bool | None = None) -> Report:
        """Close a report as `upheld` or not, and notify the reporter. Raises `NotFound`.

        Posts that were removed from public lists pending the decision return there, unless the report is upheld. If `upheld` is
        None, it is upheld if moderators acted on the member or the posts, or if one of them was deleted. A closed report does
        not change.
        """
        by_id = await resolve(self._network, by)
        return await reports.resolve(self._writes, id_of(which), by_id, upheld=upheld)

    async def reopen(self, which: AnyReport) -> Report:
        """Undo `resolve`. Raises `NotFound`."""
        return await reports.reopen(self._writes, id_of(which))

    async def sort(
        self, which: AnyReport, *, category: Category | None = None, rules: Sequence[str] | None = None
    ) -> Report:
        """Change the category and rules of a report. Raises `NotFound`, and `InvalidInput` for an unknown category or rule."""
        known = _rules(self._network)
        return await reports.sort(self._writes, id_of(which), category=category, rule_ids=rules, rules=known)

    async def held(self, before: int | None = None, limit: int = 100) -> HeldPage:
        """Return a page of the content that is waiting for approval, newest first."""
        return await moderation_queries.held_page(self._reads.graph, part(before, limit))

    async def held_item(self, which: AnyHeld) -> HeldContent:
        """Return content that is waiting for approval or was rejected. Raises `NotFound`."""
        return await get_object(self._reads.graph, HeldContent, id_of(which))

    async def approve_held(self, which: AnyHeld) -> int:
        """Publish held content, and return the id of the post, or of the changed post, member or media.

        A repeated call has the same result for 30 days. Raises `NotFound` for content that is unknown or was withdrawn, and
        `Unfit` if it was rejected or cannot be published, for example because a post that it answers was deleted.
        """
        return await held_content.approve(self._writes, id_of(which))

    async def reject_held(self, which: AnyHeld, reason: str = "") -> None:
        """Reject held content. Its author sees the `reason`.

        A repeated call changes nothing. Raises `NotFound`, `Unfit` if the content was approved, and `InvalidInput` for a long
        reason.
        """
        await held_content.reject(self._writes, id_of(which), reason)

    async def audit_log(
        self,
        before: int | None = None,
        limit: int = 100,
        *,
        by: AnyMember | None = None,
        about: AnyMember | None = None,
        verbs: Sequence[AuditVerb | str] = (),
    ) -> AuditPage:
        """Return a page of the audit log, newest first, filtered by actor, target and action (such as "login.failed").

        A page may have fewer entries than `limit` although `next` is set. Raises `NotFound` for an unknown user name, and
        `InvalidInput` for an unknown action.
        """
        requested = AuditFilter(
            actor_id=None if by is None else await resolve(self._network, by),
            target_id=None if about is None else await resolve(self._network, about),
            verbs=frozenset(verb_of(verb) for verb in verbs),
        )
        return await moderation_queries.audit_page(self._reads.graph, part(before, limit), requested)

    async def _id(self, who: AnyMember) -> int:
        return (await self.member(who)).id


def _rules(network: Network) -> frozenset[str]:
    return frozenset(str(number) for number, _ in enumerate(network.settings.rules, 1))


SeverityName: TypeAlias = Literal["sign_up_requires_approval", "sign_up_block", "no_access"]


class NetworkBlocklists(Blocklists):
    """The blocklists of a network. They do not check roles: the application decides who may use them."""

    async def block_digest(self, digest: str) -> CanonicalEmailBlock:
        """Refuse sign-ups with addresses whose canonical form has this hash. Raises `InvalidInput`, `Taken` and `Unfit`."""
        return await blocklists.block_digest(self._writes, digest)

    async def refusing(self, address: str) -> Sequence[CanonicalEmailBlock]:
        """Return the blocks that match an email address. Raises `InvalidInput` for an invalid address."""
        return await blocklists.matching_email_blocks(self._writes.graph, address)

    async def domain(self, block_id: int) -> EmailDomainBlock:
        """Return a blocked email domain by the id of its block, with the sign-ups it refused. Raises `NotFound`."""
        return await get_object(self._writes.graph, EmailDomainBlock, block_id)

    async def address(self, block_id: int) -> CanonicalEmailBlock:
        """Return a blocked email address by the id of its block. Raises `NotFound`."""
        return await get_object(self._writes.graph, CanonicalEmailBlock, block_id)

    async def network(self, block_id: int) -> IpBlock:
        """Return a blocked address range by the id of its block. Raises `NotFound`."""
        return await get_object(self._writes.graph, IpBlock, block_id)

    async def update_network(
        self,
        block: IpBlock | int,
        *,
        network: str | None = None,
        severity: IpSeverity | SeverityName | None = None,
        comment: str | None = None,
        seconds: int | None = None,
    ) -> IpBlock:
        """Change the given values of an IP block; None keeps a value. Raises `NotFound`, `InvalidInput` and `Taken`."""
        changes = IpBlockChanges(
            network,
            None if severity is None else one_of(IpSeverity, severity, "severity"),
            comment,
            seconds,
        )
        return await blocklists.update_ip_block(self._writes, id_of(block), changes)
