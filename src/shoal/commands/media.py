"""Commands to upload and describe media."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from shoal.commands import publishing
from shoal.commands.context import Writes
from shoal.commands.publishing import With
from shoal.core.errors import InvalidInput, NotAllowed, NotFound, Rejected, ShoalError, Taken, Unfit, is_refusal
from shoal.core.events import FilesReleased, MediaDescribed, MediaUploaded
from shoal.core.ids import shard_of
from shoal.core.media_files import files_of, with_copies
from shoal.core.model import Media, MediaKind, MediaState, Member, Post, Visibility
from shoal.core.photo_details import PhotoDetails, cleaned
from shoal.core.publishing import ALLOW, Decision, HeldContent, texts_of
from shoal.core.text import check_text
from shoal.graph import media as life
from shoal.graph.access import access_member, objects_of, own_object
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Changed, Cursor, IdTaken, Reader
from shoal.graph.schema import ATTACHED, import_key
from shoal.media.library import Poster
from shoal.media.sniff import GIF, sniff_clip

T = TypeVar("T")

_NO_THUMBNAIL = "thumbnail: only video and audio can have a thumbnail"
_NOT_READY = "Cannot attach files that have not finished processing. Try again in a moment!"
_MOST_POSTS = 100
"""Posts of media that are read to find one that is checked."""
_NOT_TOGETHER = "Cannot attach a video to a post that already contains images"


async def upload(
    writes: Writes,
    owner_id: int,
    data: bytes,
    *,
    description: str = "",
    focus: tuple[float, float] = (0.0, 0.0),
    thumbnail: bytes | None = None,
    shows_details: bool | None = None,
    details: PhotoDetails | None = None,
    id_: int = 0,
    record: str = "",
) -> Media:
    """Store a picture, video or sound for use in posts.

    Pictures are ready immediately, video and sound after processing. `thumbnail` is the preview of a video or sound.
    `shows_details` is whether everyone who sees a photo also sees its details (None: as the owner prefers); `details` replace
    the details in the file. An import may choose the id (`id_`) and a unique name `record`: if the name was used before, the
    existing object is returned. Imports support pictures only. Raises `TooLarge` or `Unsupported` for a file that is not
    accepted, `InvalidInput` for a file that cannot be decoded, and `Rejected` by a check. An upload that a check holds is not
    served, and a post with it is held.
    """
    description = check_text(description, field="description", maximum=writes.limits.description)
    focus = _checked_focus(focus)
    owner = await access_member(writes.graph, owner_id)
    shard = shard_of(owner_id)
    key = import_key(shard, record)
    if record and (found := (await writes.graph.key_get((key,))).get(key)):
        return await own_object(writes.graph, Media, owner_id, found)
    if not record:
        check_quota(writes, owner, 1)
    media_id = id_ or writes.new_id(shard)
    store = _store_clip if not record and writes.media.is_clip(data) else _store_picture
    stored = await store(writes, owner.name, media_id, data, thumbnail)
    media = Media(
        id=media_id,
        owner_id=owner_id,
        description=description,
        focus=focus,
        shows_details=owner.shows_photo_details if shows_details is None else shows_details,
        **stored | ({"details": given} if (given := cleaned(details)) else {}),
    )
    decision = ALLOW
    try:
        if await writes.checks.in_force():
            facts = [publishing.facts_of_file(media_id, media.kind, data, media.blurhash)]
            if thumbnail:
                facts.append(publishing.facts_of_file(media_id, MediaKind.IMAGE, thumbnail))
            decision = await publishing.check(writes, owner, "media", texts_of(media), media=tuple(facts), holds=False)
            media = msgspec.structs.replace(media, held=decision.action == "hold")
        return await _add(writes, media, record, decision, fixed=bool(id_))
    except ShoalError as error:
        # If the caller is canceled, the commit continues and needs the files. Files are named by their content, so an earlier
        # import of this object may also need them.
        if is_refusal(error) and not (id_ and id_ in await writes.graph.obj_get((id_,))):
            await writes.media.remove(files_of(media))
        raise


async def _add(writes: Writes, media: Media, record: str, decision: Decision, *, fixed: bool) -> Media:
    """Store a media object. If its id is taken, retry with a new one or, if the id must stay as it is (`fixed`), raise `Taken`."""
    shard = shard_of(media.owner_id)
    id_, key = media.id, import_key(shard, record)

    async def attempt() -> Media:
        nonlocal id_
        owner = await access_member(writes.graph, media.owner_id)
        if record and (found := (await writes.graph.key_get((key,))).get(key)):
            return await own_object(writes.graph, Media, owner.id, found)
        if not record:
            check_quota(writes, owner, media.stored)
        batch = Batch(shard)
        made = life.add(batch, msgspec.structs.replace(media, id=id_), owner, writes.new_id(shard))
        if made.state is MediaState.PROCESSING:
            batch.emit(MediaUploaded(media_id=made.id))
        if record:
            batch.key_add(key, made.id)
        publishing.note_unchecked(writes, batch, decision, "media", owner)
        try:
            await writes.graph.commit(batch)
        except IdTaken as error:
            if fixed:
                raise Taken("this id is already taken") from error
            id_ = writes.new_id(shard)
            raise
        return made

    # Each commit changes the owner's byte count, so the hundreds of uploads of an import would conflict with each other.
    async with writes.locks.of((str(media.owner_id),)):
        return await retry_on_conflict(attempt)


def check_quota(writes: Writes, owner: Member, more: int) -> None:
    used, most = owner.media_bytes, writes.limits.member_bytes
    if used + more > most:
        raise Unfit(
            f"Your media use {in_words(used)} of your {in_words(most)} of storage. Delete some first",
            field="file",
        )


def in_words(size: int) -> str:
    """Format a number of bytes, such as 9.9 GB."""
    for unit, of in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= of:
            return f"{size / of:.1f} {unit}"
    return f"{size} bytes"


async def _store_picture(
    writes: Writes, owner_name: str, media_id: int, data: bytes, thumbnail: bytes | None
) -> dict[str, Any]:
    if thumbnail:
        raise InvalidInput(_NO_THUMBNAIL, field="thumbnail")
    return msgspec.structs.asdict(await writes.media.store_picture(owner_name, media_id, data))


async def _store_clip(
    writes: Writes, owner_name: str, media_id: int, data: bytes, thumbnail: bytes | None
) -> dict[str, Any]:
    """Store a video or sound as uploaded; a consumer converts it for display."""
    sniffed = sniff_clip(data)
    kind = MediaKind.AUDIO if sniffed and sniffed.content_type.startswith("audio/") else MediaKind.VIDEO
    poster = await writes.media.store_poster(owner_name, media_id, thumbnail) if thumbnail else Poster()
    try:
        stored_key = await writes.media.keep(owner_name, media_id, data)
    except Exception:
        await writes.media.remove((poster.preview_key,))
        raise
    return {
        "kind": kind if sniffed else MediaKind.GIFV,
        "state": MediaState.PROCESSING,
        "content_type": sniffed.content_type if sniffed else GIF,
        "original_key": stored_key,
        "file_bytes": len(data),
        **msgspec.structs.asdict(poster),
    }


async def describe(
    writes: Writes,
    owner_id: int,
    media_id: int,
    *,
    description: str | None = None,
    focus: tuple[float, float] | None = None,
    shows_details: bool | None = None,
    thumbnail: bytes | None = None,
    together_with: With | None = None,
    approved: HeldContent | None = None,
) -> Media:
    """Change the description or focus of media, whether a photo shows its details, or the preview of a video or sound.

    A new description of media in a post is checked before it is public; if it is held, only the other values change. A description
    that was `approved` is not checked again. A thumbnail is checked like an upload; if it is held, the media are held or, if a post
    uses them, nothing changes. Raises `NotFound` for another member's media, `Unfit` if an approved description has been replaced
    since, and `Rejected` or `Held` by a check.
    """
    media = await own_object(writes.graph, Media, owner_id, media_id)
    described(writes, media, description=description, focus=focus, shows_details=shows_details)
    held: HeldContent | None = None
    decide = publishing.once(lambda asked: _decision(writes, asked[0]))
    poster: dict[str, Any] = {}
    thumbnails: dict[bool, Decision] = {}
    """Decisions of the checks, by whether a post that is checked has the media."""
    if thumbnail:
        check_takes_thumbnail(media)
        owner = await access_member(writes.graph, owner_id)
        poster |= msgspec.structs.asdict(await writes.media.store_poster(owner.name, media_id, thumbnail))

    async def attempt() -> Media:
        nonlocal held
        # Check for the version that the commit replaces: it conflicts if a post has attached the media during the check.
        stored = await own_object(writes.graph, Media, owner_id, media_id)
        asked = described(writes, stored, description=description, focus=focus, shows_details=shows_details)
        held, in_post = None, await _is_in_checked_post(writes, stored)
        blurhash = poster.get("blurhash", "")
        seen = decision = await _of_thumbnail(writes, stored, thumbnail, blurhash, thumbnails, in_post=in_post)
        if approved:
            _check_not_described(stored, approved)
        elif not stored.unused_since:
            if seen.action == "hold":
                raise Rejected(publishing.REFUSED)
            if in_post and asked.description != stored.description:
                decision = await decide((asked,))
            if decision.action == "hold":
                held = _held(stored, asked.description, decision)
                asked = msgspec.structs.replace(asked, description=stored.description)
        changed = msgspec.structs.replace(asked, **poster, held=stored.held or seen.action == "hold")
        if changed != stored or together_with:
            undecided = decision if decision.unchecked else seen
            changed = await _replace(writes, stored, changed, together_with, undecided)
        return changed

    try:
        changed = await retry_on_conflict(attempt)
    except ShoalError as error:
        if is_refusal(error):
            await writes.media.remove((poster.get("preview_key", ""),))
        raise
    if held is not None:
        raise await publishing.hold(writes, held)
    return changed


async def _is_in_checked_post(writes: Writes, media: Media) -> bool:
    """Return whether changes of media are like edits of a post that is checked: direct posts are not, unless a setting says so."""
    if media.unused_since or not await writes.checks.in_force():
        return False
    listed = await writes.graph.assoc_range(media.id, ATTACHED, Cursor(limit=_MOST_POSTS))
    posts = await objects_of(writes.graph, Post, [entry.id2 for entry in listed])
    return (
        writes.checks.direct
        or len(listed) == _MOST_POSTS
        or any(post.visibility is not Visibility.DIRECT for post in posts)
    )


async def _of_thumbnail(
    writes: Writes, media: Media, thumbnail: bytes | None, blurhash: str, known: dict[bool, Decision], *, in_post: bool
) -> Decision:
    """Return the decision of the checks about a thumbnail, if there is one and it is not `known`. Raises `Rejected`."""
    if not thumbnail or in_post in known or not await writes.checks.in_force():
        return known.get(in_post, ALLOW)
    owner = await access_member(writes.graph, media.owner_id)
    facts = publishing.facts_of_file(media.id, MediaKind.IMAGE, thumbnail, blurhash)
    known[in_post] = await publishing.check(writes, owner, "media", (), media=(facts,), in_post=in_post, holds=False)
    return known[in_post]


async def _decision(writes: Writes, media: Media) -> Decision:
    """Return the decision of the checks about the description of media in a post. Raises `Rejected`."""
    owner = await access_member(writes.graph, media.owner_id)
    facts = publishing.facts_of((media,))
    return await publishing.check(writes, owner, "media", (media.description,), media=facts, in_post=True)


def _check_not_described(media: Media, approved: HeldContent) -> None:
    (checked,) = approved.checked
    if media.description not in {checked.description, approved.text}:
        raise Unfit("The description has been changed since: reject this one")


def _held(media: Media, description: str, decision: Decision) -> HeldContent:
    return HeldContent(
        id=decision.candidate_id,
        owner_id=media.owner_id,
        kind="media",
        text=description,
        target_id=media.id,
        media=(media.id,),
        checked=publishing.checked_media((media,)),
        reason=decision.reason,
        rule=decision.rule,
    )


async def _replace(
    writes: Writes, before: Media, changed: Media, together_with: With | None, decision: Decision
) -> Media:
    """Store the next version of media, release the files of a replaced preview, and reindex posts if the description changed."""
    changed = msgspec.structs.replace(changed, version=before.version + 1)
    batch = Batch(shard_of(before.owner_id))
    batch.obj_set(changed)
    if changed.preview_key != before.preview_key:
        life.charge(batch, await access_member(writes.graph, before.owner_id), changed.stored - before.stored)
        batch.emit(FilesReleased(keys=with_copies(before.preview_key)))
    if changed.description != before.description and not before.unused_since:
        # The description is part of the post in the search index. Media that no post uses are indexed when a post attaches them.
        batch.emit(MediaDescribed(media_id=before.id))
    if decision.unchecked:
        owner = await access_member(writes.graph, before.owner_id)
        publishing.note_unchecked(writes, batch, decision, "media", owner)
    if together_with is not None:
        together_with(batch, before.id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
    return changed


def check_takes_thumbnail(media: Media) -> None:
    if media.kind is MediaKind.IMAGE:
        raise InvalidInput(_NO_THUMBNAIL, field="thumbnail")


def described(
    writes: Writes,
    media: Media,
    *,
    description: str | None = None,
    focus: tuple[float, float] | None = None,
    shows_details: bool | None = None,
) -> Media:
    """Check these values, and return a copy of the media with them, without storing it. None keeps a value."""
    if description is not None:
        description = check_text(description, field="description", maximum=writes.limits.description)
    return msgspec.structs.replace(
        media,
        description=media.description if description is None else description,
        focus=media.focus if focus is None else _checked_focus(focus),
        shows_details=media.shows_details if shows_details is None else shows_details,
    )


async def descriptions_of(graph: Reader, ids: Sequence[int]) -> tuple[str, ...]:
    """Return the descriptions of media, in the order of the ids; "" for missing media."""
    found = await graph.obj_get(ids) if ids else {}
    return tuple(node.description if isinstance(node := found.get(id_), Media) else "" for id_ in ids)


async def with_media(
    writes: Writes, owner_id: int, ids: Sequence[int], attempt: Callable[[Sequence[Media]], Awaitable[T]]
) -> T:
    """Run `attempt`, which commits an object that uses these media, and repeat it if one of them changed concurrently.

    Raises `NotFound` for unknown media, `NotAllowed` for another member's media, and `Unfit` for media that are not ready or
    cannot be in one post together.
    """

    async def tried() -> T:
        return await attempt(await check_attachable(writes, owner_id, ids))

    return await retry_on_conflict(tried, lambda conflict: isinstance(conflict, Changed) and conflict.id in ids)


async def check_attachable(writes: Writes, owner_id: int, ids: Sequence[int]) -> list[Media]:
    """Return the media with these ids, without duplicates.

    Raises `NotFound` for unknown media, `NotAllowed` for another member's media, and `Unfit` for media that are not ready or
    cannot be in one post together.
    """
    found = await writes.graph.obj_get(ids) if ids else {}
    media: list[Media] = []
    for id_ in dict.fromkeys(ids):
        node = found.get(id_)
        if not isinstance(node, Media):
            raise NotFound("Record not found")
        if node.owner_id != owner_id:
            raise NotAllowed("This action is not allowed")
        if node.state is not MediaState.READY:
            raise Unfit(_NOT_READY, field="media_ids")
        media.append(node)
    if len(media) > 1 and any(node.kind is not MediaKind.IMAGE for node in media):
        raise Unfit(_NOT_TOGETHER, field="media_ids")
    return media


def _checked_focus(focus: tuple[float, float]) -> tuple[float, float]:
    if not all(math.isfinite(part) and -1 <= part <= 1 for part in focus):
        raise InvalidInput("focus: expected two numbers from -1 to 1", field="focus")
    return float(focus[0]), float(focus[1])
