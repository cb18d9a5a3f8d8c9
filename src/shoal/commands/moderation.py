"""Moderation commands: hide posts; suspend, silence, sensitize or disable members; assign roles.

Every action can be undone. The caller authorizes the actor; `check_may_act` checks the target.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from shoal.commands import relationships
from shoal.commands.audit import end_addresses, note
from shoal.commands.context import Writes
from shoal.core.audit import AuditVerb, member_target, post_target
from shoal.core.email import MailKind
from shoal.core.errors import NotAllowed
from shoal.core.events import MailDue, MemberRemoved, NamedFeedChanged, ProfileChanged, SessionsEnded, SuspensionChanged
from shoal.core.ids import shard_of
from shoal.core.model import HIDDEN_BY_MODERATION, Member, Post, Role
from shoal.graph.access import get_object
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Cursor
from shoal.graph.member_lookup import login_of
from shoal.graph.payloads.moderation import bulk_marks, moderated_batch
from shoal.graph.schema import EVERYBODY, LOGGED_IN, SERVES, feeds_of_id, user_name_key

_MAX_TOKENS = 10_000
"""Tokens whose connections are closed when a member is locked out, newest first."""


async def hide(writes: Writes, post_id: int) -> Post:
    """Hide a post from all but its author, and remove its tags from the tag cloud. Raises `NotFound` for an unknown post."""
    return await _set_hidden(writes, post_id, hidden=True)


async def reveal(writes: Writes, post_id: int) -> Post:
    return await _set_hidden(writes, post_id, hidden=False)


async def _set_hidden(writes: Writes, post_id: int, *, hidden: bool) -> Post:
    async def attempt() -> Post:
        post = await get_object(writes.graph, Post, post_id)
        why = post.hidden | HIDDEN_BY_MODERATION if hidden else post.hidden & ~HIDDEN_BY_MODERATION
        if why == post.hidden and not (hidden and await bulk_marks(writes.graph, post.id, "hide")):
            return post
        now = writes.new_id(shard_of(post.author_id))
        after, batch = await moderated_batch(writes.graph, post, hidden=hidden, now=now, at=writes.new_id.now())
        verb = AuditVerb.POST_HIDDEN if hidden else AuditVerb.POST_REVEALED
        note(writes, batch, verb, post_target(post), author=str(post.author_id))
        await writes.graph.commit(batch)
        return after

    return await retry_on_conflict(attempt)


async def keep_from_trends(writes: Writes, post_id: int) -> Post:
    """Exclude a post from trends only. Raises `NotFound` for an unknown post."""
    return await _set_untrendable(writes, post_id, untrendable=True)


async def let_trend(writes: Writes, post_id: int) -> Post:
    return await _set_untrendable(writes, post_id, untrendable=False)


async def _set_untrendable(writes: Writes, post_id: int, *, untrendable: bool) -> Post:
    def extra(batch: Batch, _before: Post, post: Post) -> None:
        verb = AuditVerb.POST_KEPT_FROM_TRENDS if untrendable else AuditVerb.POST_ALLOWED_IN_TRENDS
        note(writes, batch, verb, post_target(post), author=str(post.author_id))

    return await change_object(
        writes.graph,
        lambda: get_object(writes.graph, Post, post_id),
        lambda post: replace(post, untrendable=untrendable),
        extra,
    )


async def suspend(writes: Writes, member_id: int) -> Member:
    """Suspend a member: hide them and their posts, and refuse their requests. Their posts' tags stop counting soon after."""
    return await _become(writes, member_id, AuditVerb.MEMBER_SUSPENDED, suspended=True)


async def restore(writes: Writes, member_id: int) -> Member:
    return await _become(writes, member_id, AuditVerb.MEMBER_UNSUSPENDED, suspended=False)


async def approve(writes: Writes, member_id: int) -> Member:
    """Admit a member who waits for approval or email confirmation. Raises `NotAllowed` for any other member."""
    await _access_pending(writes, member_id)
    return await _become(
        writes, member_id, AuditVerb.SIGN_UP_APPROVED, pending=False, unconfirmed=False, suspended=False
    )


async def reject(writes: Writes, member_id: int, *, unconfirmed_at: int = 0) -> Member:
    """Delete a pending member, which frees the name and email address.

    Raises `NotAllowed` for any other member; with `unconfirmed_at` (Unix ms) also if they have confirmed the address or may still
    do so after that time. No other object refers to a pending member, who can neither act nor be acted on.
    """

    async def attempt() -> Member:
        member = await _access_pending(writes, member_id)
        login = await login_of(writes.graph, member)
        by = login.confirm_by if login else 0
        if unconfirmed_at and not (member.unconfirmed and by <= unconfirmed_at):
            raise NotAllowed("This member is not pending approval")
        # Failed logins under this name add entries to the member's audit list. Any client can cause them, so there may be more
        # entries than one commit can delete.
        while await end_addresses(writes, member_id):
            pass
        batch = Batch(shard_of(member_id))
        batch.obj_del(member, member.version)
        batch.obj_del(member.login_id, login.version if login else 0)
        batch.key_del(user_name_key(member.name), member_id)
        for token in await writes.graph.assoc_range(member_id, LOGGED_IN, Cursor(limit=_MAX_TOKENS)):
            batch.obj_del(token.id2)
            batch.assoc_del(member_id, LOGGED_IN, token.id2, writes.new_id(batch.shard))
        batch.emit(MemberRemoved(member_id=member_id, address=login.email if login else ""))
        if not unconfirmed_at:
            note(writes, batch, AuditVerb.SIGN_UP_REJECTED, member_target(member))
        await writes.graph.commit(batch)
        return member

    return await retry_on_conflict(attempt)


async def _access_pending(writes: Writes, member_id: int) -> Member:
    member = await get_object(writes.graph, Member, member_id)
    if not member.pending:
        raise NotAllowed("This member is not pending approval")
    return member


async def silence(writes: Writes, member_id: int) -> Member:
    """Hide the member's posts in public lists from everyone except the member's followers."""
    return await _become(writes, member_id, AuditVerb.MEMBER_SILENCED, silenced=True)


async def unsilence(writes: Writes, member_id: int) -> Member:
    return await _become(writes, member_id, AuditVerb.MEMBER_UNSILENCED, silenced=False)


async def sensitize(writes: Writes, member_id: int) -> Member:
    """Show the media of all the member's posts, past and future, as sensitive to others."""
    return await _become(writes, member_id, AuditVerb.MEMBER_SENSITIZED, sensitized=True)


async def unsensitize(writes: Writes, member_id: int) -> Member:
    """Undo `sensitize`: media are sensitive again only in posts that the member marks as sensitive."""
    return await _become(writes, member_id, AuditVerb.MEMBER_UNSENSITIZED, sensitized=False)


async def disable(writes: Writes, member_id: int) -> Member:
    """Lock the member out: they can neither log in nor act. Their posts stay."""
    return await _become(writes, member_id, AuditVerb.MEMBER_DISABLED, disabled=True)


async def enable(writes: Writes, member_id: int) -> Member:
    """Undo `disable`: the member can log in again, and their tokens are valid again."""
    return await _become(writes, member_id, AuditVerb.MEMBER_ENABLED, disabled=False)


async def set_role(writes: Writes, member_id: int, role: Role) -> Member:
    return await _become(writes, member_id, AuditVerb.MEMBER_ROLE_CHANGED, role=role)


def check_may_act(actor: Member, target: Member) -> None:
    """Raise `NotAllowed` unless the target is another member with a role below the actor's."""
    if actor.id == target.id or actor.role.rank <= target.role.rank:
        raise NotAllowed("This action is not allowed")


async def _become(writes: Writes, member_id: int, verb: AuditVerb, **changes: Any) -> Member:
    """Change fields of a member, and record `verb` in the audit log. Nothing is stored if no field changes."""

    async def attempt() -> Member:
        before = await get_object(writes.graph, Member, member_id)
        after = replace(before, **changes)
        if (before.departure_id or before.unconfirmed) and changes.get("suspended"):
            # Such a member is hidden already. Lock the member out too: the suspension must also prevent canceling the deletion
            # and confirming the address.
            after = replace(after, disabled=True)
        if after == before:
            return before
        if after.pending and not after.suspended:
            raise NotAllowed("This member is pending approval: approve or reject them")
        if after.departure_id and not after.suspended:
            raise NotAllowed("This member requested the deletion of their account: only they can cancel it")
        after = replace(after, version=before.version + 1)
        batch = await _batch(writes, before, after)
        roles = {} if after.role is before.role else {"role": after.role.value, "was": before.role.value}
        note(writes, batch, verb, member_target(after), **roles)
        await writes.graph.commit(batch)
        return after

    return await retry_on_conflict(attempt)


async def _batch(writes: Writes, before: Member, after: Member) -> Batch:
    batch = Batch(shard_of(after.id))
    batch.obj_set(after)
    if after.role is not before.role:
        time = writes.new_id(batch.shard)
        if after.role is Role.NONE:
            batch.assoc_del(after.id, SERVES, EVERYBODY, time)
        else:
            batch.assoc_add(after.id, SERVES, EVERYBODY, time)
    batch.emit(ProfileChanged(member_id=after.id))
    if before.pending and not after.pending:
        batch.emit(MailDue(kind=MailKind.APPROVED, asked=writes.new_id(batch.shard), member_id=after.id))
        if after.follows_inviter:
            await relationships.follow_inviter(writes, batch, after)
    if after.suspended is not before.suspended:
        batch.emit(SuspensionChanged(member_id=after.id))
        batch.emit(NamedFeedChanged(feed_id=feeds_of_id(after.id), time=writes.new_id(batch.shard)))
    if (after.suspended or after.disabled) and not (before.suspended or before.disabled):
        tokens = await writes.graph.assoc_range(after.id, LOGGED_IN, Cursor(limit=_MAX_TOKENS))
        batch.emit(SessionsEnded(member_id=after.id, token_ids=tuple(token.id2 for token in tokens)))
    return batch
