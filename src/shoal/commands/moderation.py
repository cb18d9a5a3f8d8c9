"""Moderation: posts are taken out of sight; members are suspended, silenced, marked as sensitive or kept
from logging in, and given roles.

Each act can be undone. Who may act is for the caller to know; `check_may_act` says on whom.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from shoal.commands import relationships
from shoal.commands.audit import end_addresses, note
from shoal.commands.context import Writes
from shoal.core.audit import AuditVerb, member_target, post_target
from shoal.core.credentials import Login
from shoal.core.email import MailKind
from shoal.core.errors import NotAllowed, NotFound
from shoal.core.events import MailDue, MemberRemoved, PostHidden, ProfileChanged, SessionsEnded, SuspensionChanged
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import HIDDEN_BY_MODERATION, Member, Post, Role
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Cursor
from shoal.graph.payloads.posts import hidden_batch
from shoal.graph.schema import EVERYBODY, LOGGED_IN, SERVES, user_name_key

_MAX_TOKENS = 10_000
"""Connections of a member that are closed when they are locked out: those of the newest tokens."""


async def hide(writes: Writes, post_id: int) -> Post:
    """Hide a post from everybody but its author. Its tags no longer count. Raises `NotFound`."""
    return await _set_hidden(writes, post_id, hidden=True)


async def reveal(writes: Writes, post_id: int) -> Post:
    """Undo `hide`. Raises `NotFound`."""
    return await _set_hidden(writes, post_id, hidden=False)


async def _set_hidden(writes: Writes, post_id: int, *, hidden: bool) -> Post:
    async def attempt() -> Post:
        post = await _access_post(writes, post_id)
        why = post.hidden | HIDDEN_BY_MODERATION if hidden else post.hidden & ~HIDDEN_BY_MODERATION
        if why == post.hidden:
            return post
        after, batch = hidden_batch(post, why, milliseconds_of(writes.new_id(shard_of(post_id))))
        if hidden:
            batch.emit(PostHidden(post_id=post_id))
        verb = AuditVerb.POST_HIDDEN if hidden else AuditVerb.POST_REVEALED
        note(writes, batch, verb, post_target(post), author=str(post.author_id))
        await writes.graph.commit(batch)
        return after

    return await retry_on_conflict(attempt)


async def keep_from_trends(writes: Writes, post_id: int) -> Post:
    """Leave a post out of trends; it is shown as before everywhere else. Raises `NotFound`."""
    return await _set_untrendable(writes, post_id, untrendable=True)


async def let_trend(writes: Writes, post_id: int) -> Post:
    """Undo `keep_from_trends`. Raises `NotFound`."""
    return await _set_untrendable(writes, post_id, untrendable=False)


async def _set_untrendable(writes: Writes, post_id: int, *, untrendable: bool) -> Post:
    def beside(batch: Batch, _before: Post, post: Post) -> None:
        verb = AuditVerb.POST_KEPT_FROM_TRENDS if untrendable else AuditVerb.POST_ALLOWED_IN_TRENDS
        note(writes, batch, verb, post_target(post), author=str(post.author_id))

    return await change_object(
        writes.graph,
        lambda: _access_post(writes, post_id),
        lambda post: replace(post, untrendable=untrendable),
        beside,
    )


async def _access_post(writes: Writes, post_id: int) -> Post:
    post = (await writes.graph.obj_get((post_id,))).get(post_id)
    if not isinstance(post, Post):
        raise NotFound("Record not found")
    return post


async def suspend(writes: Writes, member_id: int) -> Member:
    """Hide the member and their posts from everybody, and refuse their requests. Posts cease to count soon after."""
    return await _become(writes, member_id, AuditVerb.MEMBER_SUSPENDED, suspended=True)


async def restore(writes: Writes, member_id: int) -> Member:
    """Undo `suspend`."""
    return await _become(writes, member_id, AuditVerb.MEMBER_UNSUSPENDED, suspended=False)


async def approve(writes: Writes, member_id: int) -> Member:
    """Admit a member who waits for approval, or to confirm their address. Raises `NotAllowed` for one who does not wait."""
    await _access_pending(writes, member_id)
    return await _become(
        writes, member_id, AuditVerb.SIGN_UP_APPROVED, pending=False, unconfirmed=False, suspended=False
    )


async def reject(writes: Writes, member_id: int, *, unconfirmed_at: int = 0) -> Member:
    """Delete a member who waits for approval; name and e-mail address are free again.

    Raises `NotAllowed` for any other; with `unconfirmed_at`, a moment in Unix milliseconds, also for one who has confirmed their
    address, or has time to do so beyond it.

    Such a member has done nothing and nobody could do anything to them, so nothing else refers to them.
    """

    async def attempt() -> Member:
        member = await _access_pending(writes, member_id)
        login = (await writes.graph.obj_get((member.login_id,))).get(member.login_id)
        by = login.confirm_by if isinstance(login, Login) else 0
        if unconfirmed_at and not (member.unconfirmed and by <= unconfirmed_at):
            raise NotAllowed("This member does not wait for approval")
        # Anybody may fail to log in at this name, so there may be more of these than one commit takes.
        while await end_addresses(writes, member_id):
            pass
        batch = Batch(shard_of(member_id))
        batch.obj_del(member_id, member.version)
        batch.obj_del(member.login_id, login.version if isinstance(login, Login) else 0)
        batch.key_del(user_name_key(member.name), member_id)
        tokens = await writes.graph.assoc_range(member_id, LOGGED_IN, Cursor(limit=_MAX_TOKENS))
        for token in tokens:
            batch.obj_del(token.id2)
            batch.assoc_del(member_id, LOGGED_IN, token.id2, writes.new_id(batch.shard))
        batch.emit(MemberRemoved(member_id=member_id, address=login.email if isinstance(login, Login) else ""))
        if not unconfirmed_at:
            note(writes, batch, AuditVerb.SIGN_UP_REJECTED, member_target(member))
        await writes.graph.commit(batch)
        return member

    return await retry_on_conflict(attempt)


async def _access_pending(writes: Writes, member_id: int) -> Member:
    member = (await writes.graph.obj_get((member_id,))).get(member_id)
    if not isinstance(member, Member):
        raise NotFound("Record not found")
    if not member.pending:
        raise NotAllowed("This member does not wait for approval")
    return member


async def silence(writes: Writes, member_id: int) -> Member:
    """Leave the member's posts out of public lists, except for their followers."""
    return await _become(writes, member_id, AuditVerb.MEMBER_SILENCED, silenced=True)


async def unsilence(writes: Writes, member_id: int) -> Member:
    """Undo `silence`."""
    return await _become(writes, member_id, AuditVerb.MEMBER_UNSILENCED, silenced=False)


async def sensitize(writes: Writes, member_id: int) -> Member:
    """Show the media of all the member's posts, past and future, as sensitive to others."""
    return await _become(writes, member_id, AuditVerb.MEMBER_SENSITIZED, sensitized=True)


async def unsensitize(writes: Writes, member_id: int) -> Member:
    """Undo `sensitize`: the member's own marks on each post count again."""
    return await _become(writes, member_id, AuditVerb.MEMBER_UNSENSITIZED, sensitized=False)


async def disable(writes: Writes, member_id: int) -> Member:
    """Lock the member out: they can neither log in nor act. Their posts stay."""
    return await _become(writes, member_id, AuditVerb.MEMBER_DISABLED, disabled=True)


async def enable(writes: Writes, member_id: int) -> Member:
    """Undo `disable`: the member's tokens are valid again."""
    return await _become(writes, member_id, AuditVerb.MEMBER_ENABLED, disabled=False)


async def set_role(writes: Writes, member_id: int, role: Role) -> Member:
    """Give a member a role in moderation, or take it away."""
    return await _become(writes, member_id, AuditVerb.MEMBER_ROLE_CHANGED, role=role)


def check_may_act(actor: Member, target: Member) -> None:
    """Raise `NotAllowed` unless the target is another member with a role below the actor's."""
    if actor.id == target.id or actor.role.rank <= target.role.rank:
        raise NotAllowed("This action is not allowed")


async def _become(writes: Writes, member_id: int, verb: AuditVerb, **changes: Any) -> Member:
    """Apply changes to the member as they are now; nothing is stored if that makes no difference."""

    async def attempt() -> Member:
        before = (await writes.graph.obj_get((member_id,))).get(member_id)
        if not isinstance(before, Member):
            raise NotFound("Record not found")
        after = replace(before, **changes)
        if (before.departure_id or before.unconfirmed) and changes.get("suspended"):
            # Hidden they are already; now they cannot come in by their password or a link either.
            after = replace(after, disabled=True)
        if after == before:
            return before
        if after.pending and not after.suspended:
            raise NotAllowed("This member waits for approval: approve or reject them")
        if after.departure_id and not after.suspended:
            raise NotAllowed("This member asked for their account to be deleted: only they can come back")
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
    if (after.suspended or after.disabled) and not (before.suspended or before.disabled):
        tokens = await writes.graph.assoc_range(after.id, LOGGED_IN, Cursor(limit=_MAX_TOKENS))
        batch.emit(SessionsEnded(member_id=after.id, token_ids=tuple(token.id2 for token in tokens)))
    return batch
