"""Check content before it is public, and hold it for the decision of a moderator.

Held content is an object of its own, so no list, count, index or event of posts contains it. A held post becomes a post only when a
moderator approves it (`commands/held_content.py`); a held edit or profile change leaves the public version as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from shoal.commands.audit import note
from shoal.commands.context import Claim, Writes, add_node, serialized
from shoal.core.audit import SYSTEM_ACTOR, AuditTarget, AuditVerb, member_target, post_target
from shoal.core.errors import Held, NotFound, Rejected, Unfit
from shoal.core.events import ContentHeld, FilesReleased
from shoal.core.ids import floor_at, shard_of
from shoal.core.media_files import files_of_member, with_copies
from shoal.core.model import Media, Member, Mention, Post, Visibility
from shoal.core.publishing import (
    ALLOW,
    RECENT_SECONDS,
    Candidate,
    CheckedMedia,
    Decision,
    HeldContent,
    Kind,
    MediaFacts,
)
from shoal.core.text import parse
from shoal.graph.access import access_member, count_of, objects_of
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch, Cursor, KeyTaken, Reader
from shoal.graph.schema import EVERYBODY, HOLDS, POSTED, QUEUED

_MOST_RECENT = 1_000
REFUSED = "The moderation of this server does not allow this"

With = Callable[[Batch, int, int], None]
"""A callback that adds writes to a commit. Its arguments are the batch, the id of the published or held object, and a new id."""


Decide = Callable[[Sequence[Media]], Awaitable[Decision]]
"""Decides about content with these media."""


def facts_of(media: Sequence[Media]) -> tuple[MediaFacts, ...]:
    return tuple(MediaFacts(id=each.id, kind=each.kind.value, blurhash=each.blurhash) for each in media)


def facts_of_file(id_: int, kind: str, data: bytes, blurhash: str = "") -> MediaFacts:
    return MediaFacts(id=id_, kind=kind, sha256=sha256(data).hexdigest(), blurhash=blurhash)


def checked_media(media: Sequence[Media]) -> tuple[CheckedMedia, ...]:
    return tuple(CheckedMedia(each.id, each.description, each.preview_key) for each in media)


def once(decide: Decide) -> Decide:
    """Return `decide` with its decisions kept, so that it is called again only if the media have changed."""
    decided: dict[tuple[CheckedMedia, ...], Decision] = {}

    async def decision(media: Sequence[Media]) -> Decision:
        seen = checked_media(media)
        if seen not in decided:
            decided[seen] = await decide(media)
        return decided[seen]

    return decision


def check_unchanged(held: HeldContent, media: Sequence[Media]) -> None:
    """Raise `Unfit` if these media of held content are not as they were when the content was held."""
    known = {each.id: each for each in held.checked}
    if any(known.get(each.id) != each for each in checked_media(media)):
        raise Unfit("The files have been changed since")


async def check(
    writes: Writes,
    member: Member,
    kind: Kind,
    texts: Sequence[str],
    *,
    data: str = "",
    tags: tuple[str, ...] = (),
    mentions: Sequence[Mention] = (),
    visibility: Visibility = Visibility.PUBLIC,
    media: tuple[MediaFacts, ...] = (),
    in_post: bool = False,
    holds: bool = True,
) -> Decision:
    """Return the decision of the checks, to allow or to hold. Call it only if there are checks. Raises `Rejected`.

    `holds` is whether a decision to hold stores held content, which then has the id of the candidate.
    """
    text = "\n".join(filter(None, texts))
    now = writes.new_id.now()
    newest = await writes.graph.assoc_range(
        member.id, POSTED, Cursor(after=floor_at(now - 1_000 * RECENT_SECONDS), limit=_MOST_RECENT)
    )
    return await _decided(
        writes,
        Candidate(
            id=writes.new_id(shard_of(member.id)) if holds else 0,
            kind=kind,
            member_id=member.id,
            member_name=member.name,
            member_created_at=member.created_at / 1_000,
            member_posts=await count_of(writes.graph, member.id, POSTED),
            text=text,
            data=data,
            links=tuple(dict.fromkeys(span.value for span in parse(text) if span.kind == "link")),
            tags=tags,
            mentions=tuple(mention.name for mention in mentions),
            visibility=visibility.value,
            media=media,
            in_post=in_post,
            recent_posts=len(newest),
        ),
    )


async def _decided(writes: Writes, candidate: Candidate, field: str | None = None) -> Decision:
    decision = await writes.checks.decide(candidate)
    if decision.action == "reject":
        raise Rejected(decision.reason or REFUSED, field=field)
    return decision


async def check_name(writes: Writes, name: str, display_name: str) -> Decision:
    """Return the decision of the checks, if any, about the names of a new member, to allow or to hold. Raises `Rejected`."""
    if not await writes.checks.in_force():
        return ALLOW
    text, now = "\n".join(filter(None, (name, display_name))), writes.new_id.now() / 1_000
    candidate = Candidate(
        kind="profile", member_id=0, member_name=name, member_created_at=now, member_posts=0, text=text
    )
    return await _decided(writes, candidate, "username")


async def check_album(writes: Writes, owner_id: int, *texts: str) -> Callable[[Batch], None]:
    """Check the texts of an album, which are refused if a check holds them. Return a function to call with its batch.

    Raises `Rejected`.
    """
    if not await writes.checks.in_force():
        return lambda _batch: None
    owner = await access_member(writes.graph, owner_id)
    decision = await check(writes, owner, "album", texts, holds=False)
    if decision.action == "hold":
        raise Rejected(REFUSED)
    return lambda batch: note_unchecked(writes, batch, decision, "album", owner)


def note_unchecked(writes: Writes, batch: Batch, decision: Decision, kind: Kind, of: Member | Post) -> None:
    """Add an audit entry about content that becomes public although a check gave no decision about it."""
    if decision.unchecked:
        target: AuditTarget = member_target(of) if isinstance(of, Member) else post_target(of)
        note(writes.by(SYSTEM_ACTOR), batch, AuditVerb.CONTENT_UNCHECKED, target, content=kind)


Merge = Callable[[HeldContent, Sequence[HeldContent]], Awaitable[HeldContent]]
"""Returns held content with the changes of the earlier content that it replaces."""


async def hold(
    writes: Writes,
    content: HeldContent,
    together_with: With = lambda _batch, _id, _now: None,
    *,
    merge: Merge | None = None,
) -> Held:
    """Store content for the moderators, and return the error for its author. An id of 0 in `content` is replaced by a new one.

    A held edit, profile change or description replaces an earlier one of the same object, after `merge`. Media that no post uses
    are held with the content, so they are not served. Beyond the limit, the oldest rejected content is deleted. Raises `Unfit` if
    the limit is reached by content that waits, `NotFound` if media were deleted, and `KeyTaken` if `together_with` adds a key
    that is taken.
    """
    shard = shard_of(content.owner_id)
    await change_object(
        writes.graph,
        lambda: access_member(writes.graph, content.owner_id),
        lambda owner: owner if owner.has_held else replace(owner, has_held=True),
    )

    async def attempt(claim: Claim) -> HeldContent | KeyTaken:
        stored = await of_member(writes.graph, content.owner_id)
        ended = [] if content.kind == "post" else [each for each in stored if _is_replaced(each, content)]
        merged = await merge(content, ended) if merge else content
        if len(stored) - len(ended) >= writes.limits.held:
            rejected = [each for each in stored if each.rejected_at and each not in ended]
            if not rejected:
                raise Unfit(f"You have {writes.limits.held} posts and changes that are waiting for approval")
            ended.append(rejected[-1])
        media = await objects_of(writes.graph, Media, content.media)
        if len(media) < len(content.media):
            raise NotFound("Record not found")
        retained = await _files_kept(writes.graph, content.owner_id, stored, ended)

        def build(new_id: int) -> tuple[HeldContent, Batch]:
            made = replace(merged, id=content.id or new_id)
            batch = Batch(shard)
            claim(batch)
            batch.obj_add(made)
            batch.assoc_add(made.owner_id, HOLDS, made.id, made.id)
            batch.assoc_add(made.id, QUEUED, EVERYBODY, made.id)
            batch.emit(ContentHeld(member_id=made.owner_id, held_id=made.id))
            for each in media:
                # The new version also makes a concurrent deletion of the media fail.
                batch.obj_set(replace(each, held=each.held or bool(each.unused_since), version=each.version + 1))
            for item in ended:
                remove(batch, item, writes.new_id(shard))
                release_files(batch, item, {*retained, *with_copies(*made.files)})
            together_with(batch, made.id, new_id)
            return made, batch

        try:
            return await add_node(writes, shard, build)
        except KeyTaken as error:
            return error

    made = await serialized(writes, content.owner_id, attempt)
    if isinstance(made, KeyTaken):
        raise made
    return Held(made.id)


def _is_replaced(stored: HeldContent, content: HeldContent) -> bool:
    return not stored.rejected_at and (stored.kind, stored.target_id) == (content.kind, content.target_id)


async def of_member(graph: Reader, member_id: int) -> list[HeldContent]:
    """Return the held and rejected content of a member, newest first."""
    listed = await graph.assoc_range(member_id, HOLDS, Cursor(limit=1_000))
    return await objects_of(graph, HeldContent, [entry.id2 for entry in listed])


async def held_media(graph: Reader, member_id: int) -> set[int]:
    """Return the media of the member's held and rejected posts and edits."""
    return {id_ for content in await of_member(graph, member_id) for id_ in content.media}


def remove(batch: Batch, content: HeldContent, now: int) -> None:
    """Delete held content. The commit conflicts with a concurrent decision."""
    batch.obj_del(content.id, content.version)
    batch.assoc_del(content.owner_id, HOLDS, content.id, now)
    leave_queue(batch, content, now)


def leave_queue(batch: Batch, content: HeldContent, now: int) -> None:
    if not content.rejected_at:
        batch.assoc_del(content.id, QUEUED, EVERYBODY, now)


def release_files(batch: Batch, content: HeldContent, retained: set[str]) -> None:
    """Delete the pictures of a held profile, except the `retained` ones, which a newer held or an approved change uses."""
    if gone := tuple(key for key in with_copies(*content.files) if key not in retained):
        batch.emit(FilesReleased(keys=gone))


async def files_kept(graph: Reader, content: HeldContent) -> set[str]:
    """Return the files of the owner that must be kept when this content is deleted."""
    if not content.files:
        return set()
    return await _files_kept(graph, content.owner_id, await of_member(graph, content.owner_id), [content])


async def _files_kept(
    graph: Reader, owner_id: int, stored: Sequence[HeldContent], ended: Sequence[HeldContent]
) -> set[str]:
    if not any(each.files for each in ended):
        return set()
    gone = {each.id for each in ended}
    kept = {key for each in stored if each.id not in gone for key in with_copies(*each.files)}
    return kept.union(*(files_of_member(owner) for owner in await objects_of(graph, Member, [owner_id])))


encode = msgspec.msgpack.Encoder().encode
