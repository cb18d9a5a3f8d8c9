"""Moderation: reports and the members whom they are about, as those see them who look after the network.

Made from `shoal.library.moderation` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.audit import AuditVerb
from shoal.core.model import Member, Post, Report, Role
from shoal.library import moderation as awaited
from shoal.library.acting import AnyMember, AnyPost
from shoal.library.moderation import AnyReport, Category, RoleName
from shoal.queries.hydration import Entry
from shoal.queries.moderation import AuditPage, Members, MemberState, Reports
from shoal.sync.calling import Acting, Calling


class Complains(Acting):
    """A member who reports others."""

    _awaited: awaited.Complains

    def report(
        self,
        who: AnyMember,
        *,
        posts: Sequence[AnyPost] = (),
        comment: str = "",
        category: Category = "other",
        rules: Sequence[str] = (),
    ) -> Report:
        """Report a member, and posts of theirs, to the moderators. The reporter is shown these posts no more.

        `rules` are places in the setting, from "1".

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for another category, rule or too long a comment.
        """
        return self._loop.call(self._awaited.report(who, posts=posts, comment=comment, category=category, rules=rules))


class Moderation(Calling):
    """Verbs of moderators. The caller says who may use them: the network does not ask.

    The audit log says that a program did them. A `Handle.moderation` says who."""

    _awaited: awaited.Moderation

    def members(
        self,
        before: int | None = None,
        limit: int = 100,
        *,
        states: Sequence[MemberState] = (),
        roles: Sequence[Role | RoleName] = (),
        name: str = "",
    ) -> Members:
        """A page of all members, newest first: in all of these states, of any of these roles, whose user names begin so.

        A page may come short, and `next` goes on from there. Raises `InvalidInput` for another role.
        """
        return self._loop.call(self._awaited.members(before, limit, states=states, roles=roles, name=name))

    def member(self, who: AnyMember) -> Member:
        """A member, whatever became of them. Raises `NotFound`."""
        return self._loop.call(self._awaited.member(who))

    def suspend(self, who: AnyMember) -> Member:
        """Hide a member and all their posts from everybody; they cannot log in. Raises `NotFound`."""
        return self._loop.call(self._awaited.suspend(who))

    def restore(self, who: AnyMember) -> Member:
        """Undo `suspend`. Raises `NotFound`."""
        return self._loop.call(self._awaited.restore(who))

    def approve(self, who: AnyMember) -> Member:
        """Let a member in who waits for approval. Raises `NotFound`, and `NotAllowed` for one who does not wait."""
        return self._loop.call(self._awaited.approve(who))

    def reject(self, who: AnyMember) -> Member:
        """Delete a member who waits for approval. Raises `NotFound`, and `NotAllowed` for one who does not wait."""
        return self._loop.call(self._awaited.reject(who))

    def silence(self, who: AnyMember) -> Member:
        """Keep a member's posts out of public lists, but for their followers. Raises `NotFound`."""
        return self._loop.call(self._awaited.silence(who))

    def unsilence(self, who: AnyMember) -> Member:
        """Undo `silence`. Raises `NotFound`."""
        return self._loop.call(self._awaited.unsilence(who))

    def sensitize(self, who: AnyMember) -> Member:
        """Show all media of a member as sensitive to others. Raises `NotFound`."""
        return self._loop.call(self._awaited.sensitize(who))

    def unsensitize(self, who: AnyMember) -> Member:
        """Undo `sensitize`. Raises `NotFound`."""
        return self._loop.call(self._awaited.unsensitize(who))

    def disable(self, who: AnyMember) -> Member:
        """Let a member neither log in nor act; their posts stay. Raises `NotFound`."""
        return self._loop.call(self._awaited.disable(who))

    def enable(self, who: AnyMember) -> Member:
        """Undo `disable`. Raises `NotFound`."""
        return self._loop.call(self._awaited.enable(who))

    def set_role(self, who: AnyMember, role: Role | RoleName) -> Member:
        """Make a member a moderator, an admin, or neither (""). Raises `NotFound`, and `InvalidInput` for another role."""
        return self._loop.call(self._awaited.set_role(who, role))

    def hide(self, post: AnyPost) -> Post:
        """Hide a post from everybody but its author; its tags do not count any more. Raises `NotFound`."""
        return self._loop.call(self._awaited.hide(post))

    def reveal(self, post: AnyPost) -> Post:
        """Undo `hide`. Raises `NotFound`."""
        return self._loop.call(self._awaited.reveal(post))

    def trending_posts(self, limit: int = 20, offset: int = 0) -> list[Entry]:
        """Posts that trend, with those that are kept from trends in their places. Raises `Unavailable`."""
        return self._loop.call(self._awaited.trending_posts(limit, offset))

    def keep_from_trends(self, post: AnyPost) -> Post:
        """Take a post that everybody may see out of trends. Raises `NotFound`."""
        return self._loop.call(self._awaited.keep_from_trends(post))

    def let_trend(self, post: AnyPost) -> Post:
        """Undo `keep_from_trends`. Raises `NotFound`."""
        return self._loop.call(self._awaited.let_trend(post))

    def deny_tag(self, name: str) -> None:
        """Show a tag in no trend, cloud or list of tags. Raises `InvalidInput` for text that is no tag."""
        self._loop.call(self._awaited.deny_tag(name))

    def allow_tag(self, name: str) -> None:
        """Undo `deny_tag`. Raises `InvalidInput` for text that is no tag."""
        self._loop.call(self._awaited.allow_tag(name))

    def denied_tags(self) -> list[str]:
        """The tags that are shown nowhere. Raises `Unavailable`."""
        return self._loop.call(self._awaited.denied_tags())

    def reports(
        self,
        before: int | None = None,
        limit: int = 100,
        *,
        resolved: bool = False,
        by: AnyMember | None = None,
        about: AnyMember | None = None,
        waiting: bool = False,
    ) -> Reports:
        """A page of open (or `resolved`) reports, newest first. A page may come short, and `next` goes on from there.

        `waiting`: only those about posts that are kept out of public lists until a moderator has resolved one.
        Raises `NotFound` for a name that nobody has.
        """
        return self._loop.call(
            self._awaited.reports(before, limit, resolved=resolved, by=by, about=about, waiting=waiting)
        )

    def report(self, which: AnyReport) -> Report:
        """A report by id, as it is now. Raises `NotFound`."""
        return self._loop.call(self._awaited.report(which))

    def reported_posts(self, which: AnyReport) -> list[Entry]:
        """The posts that a report is about, hidden ones too. Raises `NotFound`."""
        return self._loop.call(self._awaited.reported_posts(which))

    def assign(self, which: AnyReport, to: AnyMember | None) -> Report:
        """Let a member see to a report; None: nobody does. Raises `NotFound`."""
        return self._loop.call(self._awaited.assign(which, to))

    def resolve(self, which: AnyReport, by: AnyMember, *, upheld: bool | None = None) -> Report:
        """Close a report, which is right (`upheld`) or is not; the reporter is notified. Raises `NotFound`.

        Posts that waited for it return to public lists, unless it is upheld. None: it is upheld if something was done about
        the member or the posts, or one of these is gone. A report that was closed before stays as it is.
        """
        return self._loop.call(self._awaited.resolve(which, by, upheld=upheld))

    def reopen(self, which: AnyReport) -> Report:
        """Undo `resolve`. Raises `NotFound`."""
        return self._loop.call(self._awaited.reopen(which))

    def sort(self, which: AnyReport, *, category: Category | None = None, rules: Sequence[str] | None = None) -> Report:
        """Change what a report is about. Raises `NotFound`, and `InvalidInput` for another category or rule."""
        return self._loop.call(self._awaited.sort(which, category=category, rules=rules))

    def audit_log(
        self,
        before: int | None = None,
        limit: int = 100,
        *,
        by: AnyMember | None = None,
        about: AnyMember | None = None,
        verbs: Sequence[AuditVerb | str] = (),
    ) -> AuditPage:
        """A page of the audit log, newest first: of acts by a member, about a member, of some kinds ("login.failed").

        A page may come short, and `next` goes on from there. Raises `NotFound` for a name that nobody has, and `InvalidInput`
        for an act that there is not.
        """
        return self._loop.call(self._awaited.audit_log(before, limit, by=by, about=about, verbs=verbs))
