"""Commands to create, edit and delete posts and comments.

A repeated request is recognized by its idempotency key, and a repeated import record by its name. Both are stored as keys that lead
to the object that the first commit created.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, Literal

import msgspec

from shoal.commands import kinds, polls, publishing
from shoal.commands.context import Writes, add_node
from shoal.commands.media import check_attachable, descriptions_of, with_media
from shoal.commands.members import members_named, tags_named
from shoal.commands.polls import PollDraft
from shoal.commands.publishing import Decide, With, check_unchanged, checked_media, facts_of
from shoal.core.errors import Conflict, Gone, Held, InvalidInput, Rejected, TooLarge, UnexpectedMentions, Unfit
from shoal.core.events import (
    KindPostChanged,
    PostCreated,
    PostDeleted,
    PostEditImported,
    PostImported,
    PostUpdated,
)
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.licenses import License
from shoal.core.model import Media, Member, Mention, Poll, Post, Revision, ScheduledPost, Visibility
from shoal.core.places import checked_place
from shoal.core.publishing import ALLOW, Decision, HeldContent, texts_of
from shoal.core.text import check_text, text_length
from shoal.core.visibility import narrowed
from shoal.gazetteer import stored_place
from shoal.graph.access import access_member, access_post, own_post
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, IdTaken, KeyTaken
from shoal.graph.media import attach
from shoal.graph.payloads.posts import (
    enter_thread,
    leave_thread,
    list_ids,
    move_between_cells,
    narrow,
    relist,
    tags_used,
    unlist,
)
from shoal.graph.schema import (
    PINS,
    POSTED,
    PUBLISHED,
    REVISED,
    TAGGED,
    Key,
    idempotency_key,
    import_key,
    public_list,
    tag_id,
)
from shoal.i18n import language_tag

_IDEMPOTENCY_MS = 3_600_000
"""Milliseconds for which a repeated request is recognized."""

_STAGES = 3
"""A post may be scheduled, then held, then published."""

Keys = Sequence[tuple[Key, int]]
"""Keys that lead to a post, with the lifetime of each (in milliseconds; 0: permanent)."""


def request_keys(writes: Writes, author_id: int, request: str, record: str = "") -> Keys:
    """Return the keys of a post to be created: for the idempotency key `request` and the import `record`, if not empty."""
    if len(request) > writes.limits.idempotency_key:
        raise InvalidInput(f"Idempotency-Key: at most {writes.limits.idempotency_key} characters")
    shard = shard_of(author_id)
    keys = [(idempotency_key(author_id, shard, request), _IDEMPOTENCY_MS)] if request else []
    return [*keys, (import_key(shard, record), 0)] if record else keys


def plan_key(shard: int, id_: int) -> tuple[Key, int]:
    """Return the key that leads from a scheduled or held post to the next stage of its publication, with its lifetime."""
    return import_key(shard, f"scheduled:{id_}"), _IDEMPOTENCY_MS


def take_keys(batch: Batch, keys: Keys, id_: int, now: int) -> None:
    for key, keep_ms in keys:
        batch.key_add(key, id_, until=now + keep_ms if keep_ms else 0)


async def made_before(writes: Writes, keys: Keys) -> Post | ScheduledPost | None:
    """Return the post created by an earlier request with one of these keys; None if there was none.

    Raises `Gone` if that post was deleted, and the error of the earlier request if the post was held.
    """
    found = await writes.graph.key_get([key for key, _ in keys])
    if not found:
        return None
    key, id_ = next(iter(found.items()))
    return await first_made(writes, key.shard, id_)


async def first_made(writes: Writes, shard: int, id_: int) -> Post | ScheduledPost:
    """Return the object to which an idempotency key leads or, if it was scheduled or held, the post published from it.

    Raises `Gone` if the object was deleted, `Held` if it is held, and `Rejected` if it was rejected.
    """
    node = None
    for _ in range(_STAGES):
        node = (await writes.graph.obj_get((id_,))).get(id_)
        if node is not None:
            break
        key, _lifetime = plan_key(shard, id_)
        id_ = (await writes.graph.key_get((key,))).get(key, 0)
    if isinstance(node, HeldContent):
        raise Rejected(node.refusal) if node.rejected_at else Held(node.id)
    if not isinstance(node, Post | ScheduledPost):
        raise Gone("Idempotency-Key: the post created with this key was deleted; use a new key")
    return node


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Unvalidated values of a new or edited post."""

    text: str = ""
    spoiler: str = ""
    sensitive: bool | None = False
    """Whether the media are hidden behind a warning.

    In an edit, None keeps the value, unless the edit removes the content warning.
    """
    visibility: Visibility = Visibility.PUBLIC
    language: str = ""
    media: Sequence[int] = ()
    parent_id: int = 0
    place: tuple[float, float] | None = None
    """Latitude -90..90 and longitude -180..180, in degrees; stored with the precision that the author chose."""
    data: Any = None
    """Any JSON value, at most 64 KiB when encoded."""
    poll: PollDraft | None = None
    """In an edit, None keeps the poll of the post."""
    license: License | None = None
    """None is the author's default for a new post with media, and keeps the license in an edit."""
    downloads: bool | None = None
    """Whether the photos may be downloaded; None as for `license`."""
    allowed_mentions: Sequence[int] | None = None
    """The only members that the text may mention; None for any. Edits ignore it."""
    kind: str = ""
    """The name of the kind that `data` matches; empty for none. In an edit, empty keeps the kind of the post."""
    imported: bool = False
    """Whether the post was first published elsewhere. Such a post mentions no members and sends no notifications."""


encode_draft = msgspec.msgpack.Encoder().encode
decode_draft = msgspec.msgpack.Decoder(Draft).decode


def _nothing(_batch: Batch, _id: int, _now: int) -> None:
    """Add nothing to a commit."""


async def create(
    writes: Writes,
    author_id: int,
    draft: Draft,
    *,
    request: str = "",
    app_id: int = 0,
    id_: int = 0,
    created_at: int = 0,
    record: str = "",
    together_with: With = _nothing,
    approved: HeldContent | None = None,
) -> Post:
    """Create a post, or a comment if the draft has a parent.

    If the author repeats a `request` (an idempotency key) within an hour, the first post is returned. An import may pass its
    own `id_` and `created_at`, and the unique name of its `record`: a later call with this name returns the same post, without
    a time limit. A post that was `approved` is not checked again. Raises `InvalidInput` (`TooLarge`) for values that exceed
    the limits, `UnexpectedMentions`, `Rejected` or `Held` by a check (an import record is rejected instead of held), `NotFound`
    for a parent or media that the author may not use, `Unfit` if the media of an approved post have been changed since, `Gone`
    for a suspended author or if the post of the request was deleted, and `Conflict` if `together_with` conflicts.
    """
    content, asked = _content(writes, draft), _poll(writes, draft)
    shard = shard_of(author_id)
    keys = request_keys(writes, author_id, request, record)
    if keys and (found := await made_before(writes, keys)) is not None:
        return _written(found)
    author, parent = await _access(writes, author_id, draft)
    content["place"] = stored_place(content["place"], author.place_precision)
    content |= _terms(draft, author)
    if draft.kind:
        content |= await kinds.values_of(writes, draft.kind, content["json"])
    mentions = () if draft.imported else await _mentions(writes, draft)
    tags = tags_named(content["text"])
    known = {**content, "mentions": mentions, "tags": tags}
    decide: Decide = _allowed
    if await writes.checks.in_force():
        decide = publishing.once(lambda media: _decision(writes, author, "post", draft, known, media))

    def build(new_id: int, media: Sequence[Media], decision: Decision) -> tuple[Post, Batch]:
        now, post_id = milliseconds_of(new_id), id_ or new_id
        poll = polls.made(writes, asked, author_id, post_id, now) if asked else None
        post = Post(
            id=post_id,
            author_id=author_id,
            tags=tags,
            mentions=mentions,
            parent_id=parent.id if parent else 0,
            parent_author_id=parent.author_id if parent else 0,
            root_id=(parent.root_id or parent.id) if parent else 0,
            app_id=app_id,
            dated=created_at,
            poll_id=poll.id if poll else 0,
            **content,
        )
        batch = _creation(post, shard, now, PostImported if draft.imported else PostCreated, poll)
        attach(batch, post.id, media, post.id)
        take_keys(batch, keys, post.id, now)
        if decision.unchecked:
            publishing.note_unchecked(writes, batch, decision, "post", post)
        together_with(batch, post.id, new_id)
        return post, batch

    def keep(batch: Batch, held_id: int, new_id: int) -> None:
        take_keys(batch, keys, held_id, milliseconds_of(new_id))
        together_with(batch, held_id, new_id)

    async def attempt(media: Sequence[Media]) -> Post:
        # Decide for the media that the commit attaches: it conflicts if they have been changed during the check.
        decision = ALLOW
        if approved:
            check_unchanged(approved, media)
        elif (decision := await decide(media)).action == "hold" or any(each.held for each in media):
            if record:
                raise Rejected("Imports do not wait for the approval that this post needs")
            held = _held(author, "post", draft, known, decision, media, app_id=app_id)
            raise await publishing.hold(writes, held, keep)
        return await add_node(writes, shard, lambda new_id: build(new_id, media, decision))

    try:
        async with nullcontext() if approved else _one_by_one(writes, author_id):
            return await with_media(writes, author_id, content["media"], attempt)
    except KeyTaken as error:
        # Of two concurrent requests with one idempotency key, both return the post of the first.
        return _written(await first_made(writes, shard, error.id))


def _one_by_one(writes: Writes, author_id: int) -> AbstractAsyncContextManager[None]:
    """Return a lock under which a post is checked and committed, because rules count the author's posts; none without rules."""
    return writes.locks.of((f"posts of {author_id}",)) if writes.checks.rules else nullcontext()


async def _allowed(_media: Sequence[Media]) -> Decision:
    return ALLOW


async def _decision(
    writes: Writes,
    author: Member,
    kind: Literal["post", "edit"],
    draft: Draft,
    content: dict[str, Any],
    media: Sequence[Media],
) -> Decision:
    """Return the decision of the checks about a post or edit with this content. Raises `Rejected`."""
    visibility = content["visibility"]
    if not writes.checks or (visibility is Visibility.DIRECT and not writes.checks.direct):
        return ALLOW
    options = draft.poll.options if draft.poll else ()
    return await publishing.check(
        writes,
        author,
        kind,
        (content["spoiler"], content["text"], *options, *(text for each in media for text in texts_of(each))),
        data=content["json"],
        tags=content["tags"],
        mentions=content["mentions"],
        visibility=visibility,
        media=facts_of(media),
    )


def _held(
    author: Member,
    kind: Literal["post", "edit"],
    draft: Draft,
    content: dict[str, Any],
    decision: Decision,
    media: Sequence[Media],
    **values: Any,
) -> HeldContent:
    options = draft.poll.options if draft.poll else ()
    checked_values = {name: content[name] for name in ("sensitive", "place", "license", "downloads")}
    return HeldContent(
        id=decision.candidate_id,
        owner_id=author.id,
        kind=kind,
        text="\n".join(filter(None, (content["spoiler"], content["text"], *options))),
        content=encode_draft(msgspec.structs.replace(draft, **checked_values)),
        data=content["json"],
        media=content["media"],
        checked=checked_media(media),
        visibility=content["visibility"].value,
        reason=decision.reason,
        rule=decision.rule,
        **values,
    )


async def imported(
    writes: Writes,
    author_id: int,
    draft: Draft,
    *,
    id_: int,
    created_at: int,
    record: str,
    parent: Post | None = None,
) -> Batch:
    """Return the batch that creates the post of an import record, or a comment on `parent`, for an import into an empty network.

    The draft has no media, and its `parent_id` is ignored. The uses of its tags are counted. A post without mentions emits no
    `PostCreated` event, because in an empty network no member has a live stream, a materialized timeline or notifications of new
    posts. Raises `InvalidInput` for values that exceed the limits.
    """
    content, shard = _content(writes, draft), shard_of(author_id)
    mentions = () if draft.imported else await members_named(writes, content["text"])
    content |= {"mentions": mentions, "tags": tags_named(content["text"])}
    if draft.kind:
        content |= await kinds.values_of(writes, draft.kind, content["json"])
    if parent is not None:
        root_id = parent.root_id or parent.id
        content |= {"parent_id": parent.id, "parent_author_id": parent.author_id, "root_id": root_id}
    now = writes.new_id.now()
    batch = _creation(Post(id=id_, author_id=author_id, dated=created_at, **content), shard, now)
    take_keys(batch, request_keys(writes, author_id, "", record), id_, now)
    if not content["mentions"]:
        batch.events = [event for event in batch.events if not isinstance(event, PostCreated)]
    return batch


async def checked(writes: Writes, author_id: int, draft: Draft) -> Draft:
    """Check that the author may post the draft now, and return it with its location rounded and its license set.

    Raises the errors of `create`.
    """
    content = _content(writes, draft)
    place = content["place"]
    _poll(writes, draft)
    author, _ = await _access(writes, author_id, draft)
    if draft.kind:
        await kinds.values_of(writes, draft.kind, content["json"])
    await _mentions(writes, draft)
    await check_attachable(writes, author_id, draft.media)
    return msgspec.structs.replace(draft, place=stored_place(place, author.place_precision), **_terms(draft, author))


async def _mentions(writes: Writes, draft: Draft) -> tuple[Mention, ...]:
    """Return the members that the draft mentions. Raises `UnexpectedMentions`."""
    mentions = await members_named(writes, draft.text)
    if draft.allowed_mentions is not None:
        unexpected = tuple(mention.id for mention in mentions if mention.id not in draft.allowed_mentions)
        if unexpected:
            raise UnexpectedMentions(unexpected)
    return mentions


async def _access(writes: Writes, author_id: int, draft: Draft) -> tuple[Member, Post | None]:
    author = await access_member(writes.graph, author_id)
    return author, await access_post(writes.graph, author_id, draft.parent_id) if draft.parent_id else None


def _poll(writes: Writes, draft: Draft) -> PollDraft | None:
    if draft.poll is None:
        return None
    if draft.media:
        raise InvalidInput("a post has pictures or a poll, not both", field="poll")
    return polls.checked(writes.limits, draft.poll)


def _creation(
    post: Post, shard: int, now: int, event: type[PostCreated] = PostCreated, poll: Poll | None = None
) -> Batch:
    batch = Batch(shard)
    batch.obj_add(post)
    if poll is not None:
        polls.exchange(batch, None, poll, post.id)
    batch.assoc_add(post.author_id, POSTED, post.id, post.id)
    if post.published:
        batch.assoc_add(public_list(shard), PUBLISHED, post.id, post.id)
    tag_ids = tuple(map(tag_id, post.tags))
    for tag in tag_ids:
        batch.assoc_add(post.id, TAGGED, tag, post.id, _counted(post.version))
    move_between_cells(batch, None, post)
    relist(batch, None, post, post.id)
    enter_thread(batch, post)
    if post.parent_id:
        batch.expect(post.parent_id)
    batch.emit(
        event(
            post_id=post.id,
            author_id=post.author_id,
            visibility=post.visibility,
            tag_ids=tag_ids,
            mention_ids=tuple(mention.id for mention in post.mentions),
            list_ids=list_ids(post),
            answered_id=post.parent_id if post.parent_author_id != post.author_id else 0,
        )
    )
    _count_tags(batch, None, post, now)
    if post.kind:
        batch.emit(KindPostChanged(post_id=post.id))
    return batch


def _count_tags(batch: Batch, before: Post | None, after: Post | None, now: int) -> None:
    if (used := tags_used(before, after, now)) is not None:
        batch.emit(used)


async def update(
    writes: Writes,
    author_id: int,
    post_id: int,
    draft: Draft,
    *,
    visibility: Visibility | None = None,
    together_with: With | None = None,
    approved: HeldContent | None = None,
    edited_at: int = 0,
) -> Post:
    """Replace the content of the author's post, and keep the former content as a revision. The parent does not change.

    The visibility changes only if a narrower `visibility` is given, which alone creates no revision. A new location is rounded to
    the author's current precision. A draft equal to the post stores nothing. An edit that changes the content is checked before
    it is public; if it is held, only the visibility changes. An edit that was `approved` is not checked again. An import of an edit
    that was made elsewhere names its time, `edited_at` (Unix ms), and no member is notified if the draft is `imported`. Raises the
    errors of `create`, `Unfit` if the post of an approved edit has been edited since, and `Conflict` for a concurrent edit.
    """
    content, asked = _content(writes, draft), _poll(writes, draft)
    post = await own_post(writes.graph, author_id, post_id)
    _check_not_edited(post, approved)
    content |= await _of_kind(writes, post, draft, content["json"])
    content["visibility"] = narrowed(post, visibility)
    content |= _terms(draft, post)
    if draft.sensitive is None:
        content["sensitive"] = bool(content["spoiler"]) or (post.sensitive and not post.spoiler)
    if content["place"] not in (None, post.place):
        author = await access_member(writes.graph, author_id)
        content["place"] = stored_place(content["place"], author.place_precision)
    if draft.media and post.poll_id:
        raise InvalidInput("a post has pictures or a poll, not both", field="media_ids")
    content |= await _named(writes, content["text"], post, imported=draft.imported)
    shard = shard_of(author_id)
    old = await polls.poll_of(writes.graph, post)
    check = _edit_check(writes, post, draft, content)

    async def attempt(media: Sequence[Media]) -> Post:
        added = [each for each in media if each.id not in post.media]
        decision = ALLOW
        if approved:
            check_unchanged(approved, added)
        else:
            decision = await check(media)
        now = writes.new_id(shard)
        new = old if asked is None else polls.revised(writes, old, asked, post, milliseconds_of(now))
        edited = msgspec.structs.replace(post, poll_id=new.id if new else 0, **content)
        changed, reworded = edited != post, msgspec.structs.replace(edited, visibility=post.visibility) != post
        if changed:
            edit_time = (edited_at or milliseconds_of(now)) if reworded else post.edited_at
            edited = msgspec.structs.replace(edited, version=post.version + 1, edited_at=edit_time)
        described = await descriptions_of(writes.graph, post.media) if reworded else ()
        batch = Batch(shard)
        if changed:
            change(batch, post, edited, now)
            attach(batch, post.id, added, now)
        if reworded:
            _keep_wording(batch, post, now, polls.titles(old), described)
            _tell_of_edit(batch, post, edited, now, PostEditImported if draft.imported else PostUpdated)
            publishing.note_unchecked(writes, batch, decision, "edit", post)
        polls.exchange(batch, old, new, now)
        if together_with is not None:
            together_with(batch, post.id, now)
        if batch.objects:
            await writes.commit(batch)
        return edited

    async def fresh(media: Sequence[Media]) -> Post:
        return await retry_on_conflict(partial(attempt, media), lambda conflict: isinstance(conflict, IdTaken))

    return await with_media(writes, author_id, content["media"], fresh)


def _check_not_edited(post: Post, approved: HeldContent | None) -> None:
    if approved and post.edited_at != approved.edited_at:
        raise Unfit("The post has been edited since: reject this edit")


async def _of_kind(writes: Writes, post: Post, draft: Draft, json: str) -> dict[str, Any]:
    """Return the changed fields of a post of a kind. Raises `InvalidInput` for another kind, and for data that does not match."""
    if draft.kind not in ("", post.kind):
        raise InvalidInput(f"kind: cannot be changed (the post has the kind {post.kind or 'none'})", field="kind")
    return await kinds.values_of(writes, post.kind, json) if post.kind and json != post.json else {}


def is_edit(writes: Writes, post: Post, draft: Draft) -> bool:
    """Return whether a draft with the media and the place of a post changes its content. Raises `InvalidInput`, as `update`."""
    content = _content(writes, draft)
    return any(content[name] != getattr(post, name) for name in ("text", "spoiler", "sensitive", "language", "json"))


async def _named(writes: Writes, text: str, post: Post, *, imported: bool) -> dict[str, Any]:
    """Return the mentions and tags of an edit with this text."""
    if text == post.text:
        # Unchanged text keeps its mentions, so an edit does not mention members who registered a mentioned name later.
        return {"mentions": post.mentions, "tags": post.tags}
    return {"mentions": () if imported else await members_named(writes, text), "tags": tags_named(text)}


async def _held_edit(
    writes: Writes, post: Post, draft: Draft, content: dict[str, Any], decision: Decision, media: Sequence[Media]
) -> Held:
    """Hold an edit, but change the visibility, which can only become narrower."""
    if content["visibility"] is not post.visibility:
        await update(writes, post.author_id, post.id, _draft_of(post), visibility=content["visibility"])
    author = await access_member(writes.graph, post.author_id)
    return await publishing.hold(
        writes, _held(author, "edit", draft, content, decision, media, target_id=post.id, edited_at=post.edited_at)
    )


def _edit_check(writes: Writes, post: Post, draft: Draft, content: dict[str, Any]) -> Decide:
    """Return a check of an edit, which raises `Rejected`, or `Held` after it has stored the edit for the moderators."""
    decide = publishing.once(lambda media: _edit_decision(writes, post, draft, content, media))

    async def check(media: Sequence[Media]) -> Decision:
        if (decision := await decide(media)).action == "hold" or any(each.held for each in media):
            raise await _held_edit(writes, post, draft, content, decision, media)
        return decision

    return check


async def _edit_decision(
    writes: Writes, post: Post, draft: Draft, content: dict[str, Any], media: Sequence[Media]
) -> Decision:
    changed = draft.poll or any(content[name] != getattr(post, name) for name in ("text", "spoiler", "media", "json"))
    if not changed or not await writes.checks.in_force():
        return ALLOW
    return await _decision(writes, await access_member(writes.graph, post.author_id), "edit", draft, content, media)


def _draft_of(post: Post) -> Draft:
    return Draft(
        text=post.text,
        spoiler=post.spoiler,
        sensitive=post.sensitive,
        language=post.language,
        media=post.media,
        place=post.place,
        data=post.data,
    )


def change(batch: Batch, post: Post, edited: Post, now: int) -> None:
    """Add the edited post to the batch, and update its tags, map cells and lists, and the counts of its tags."""
    batch.obj_set(edited, post)
    before, after = set(map(tag_id, post.tags)), set(map(tag_id, edited.tags))
    for tag in after - before:
        batch.assoc_add(post.id, TAGGED, tag, post.id, _counted(edited.version))
    for tag in before - after:
        batch.assoc_del(post.id, TAGGED, tag, post.id, _counted(edited.version))
    move_between_cells(batch, post, edited)
    narrow(batch, post, edited, now)
    if post.kind and (post.json, post.visibility) != (edited.json, edited.visibility):
        batch.emit(KindPostChanged(post_id=post.id))
    _count_tags(batch, post, edited, milliseconds_of(now))


def _keep_wording(batch: Batch, post: Post, id_: int, options: tuple[str, ...], descriptions: tuple[str, ...]) -> None:
    batch.obj_add(
        Revision(
            id=id_,
            post_id=post.id,
            text=post.text,
            spoiler=post.spoiler,
            sensitive=post.sensitive,
            media=post.media,
            descriptions=descriptions,
            options=options,
            written=post.edited_at or post.created_at,
        )
    )
    batch.assoc_add(post.id, REVISED, id_, id_)


def _tell_of_edit(batch: Batch, post: Post, edited: Post, revision_id: int, event: type[PostUpdated]) -> None:
    before, after = set(map(tag_id, post.tags)), set(map(tag_id, edited.tags))
    batch.emit(
        event(
            post_id=post.id,
            author_id=post.author_id,
            visibility=edited.visibility,
            tags_added=tuple(after - before),
            tags_removed=tuple(before - after),
            lists_removed=tuple(set(list_ids(post)).difference(list_ids(edited))),
            mention_ids=tuple(mention.id for mention in edited.mentions),
            mentions_added=tuple(mention.id for mention in edited.mentions if mention not in post.mentions),
            revision_id=revision_id,
        )
    )


async def delete(writes: Writes, author_id: int, post_id: int) -> Post:
    """Delete the author's post, and return its last version. Consumers remove its likes and shares later.

    Its held edit and the held descriptions of its files are deleted with it.
    """

    async def attempt() -> Post:
        # Read again after a concurrent edit, so that the deletion covers everything the edit added.
        post = await own_post(writes.graph, author_id, post_id)
        poll, now = await polls.poll_of(writes.graph, post), writes.new_id(shard_of(author_id))
        batch = _deletion(post, poll, now)
        for held in await publishing.of_member(writes.graph, author_id):
            if held.target_id in {post.id, *post.media}:
                publishing.remove(batch, held, now)
        await writes.graph.commit(batch)
        return post

    return await retry_on_conflict(attempt)


def _deletion(post: Post, poll: Poll | None, now: int) -> Batch:
    author_id = post.author_id
    batch = Batch(shard_of(author_id))
    batch.obj_del(post, post.version)
    batch.assoc_del(author_id, POSTED, post.id, now)
    batch.assoc_del(author_id, PINS, post.id, now)
    unlist(batch, post, now)
    polls.exchange(batch, poll, None, now)
    for tag in map(tag_id, post.tags):
        batch.assoc_del(post.id, TAGGED, tag, post.id, _counted(post.version + 1))
    move_between_cells(batch, post, None)
    relist(batch, post, None, now)
    leave_thread(batch, post, now)
    batch.emit(
        PostDeleted(
            post_id=post.id,
            author_id=author_id,
            visibility=post.visibility,
            tag_ids=tuple(map(tag_id, post.tags)),
            mention_ids=tuple(mention.id for mention in post.mentions),
            media_ids=post.media,
            list_ids=list_ids(post),
        )
    )
    _count_tags(batch, post, None, milliseconds_of(now))
    if post.kind:
        batch.emit(KindPostChanged(post_id=post.id))
    return batch


def _counted(version: int) -> bytes:
    """Return the data of a post's association with a tag: the version of the post.

    The time of the association is always that of the post, so only the version orders its changes.
    """
    return version.to_bytes(4)


def _content(writes: Writes, draft: Draft) -> dict[str, Any]:
    limits = writes.limits
    text = check_text(draft.text, field="text", maximum=limits.text, length=text_length)
    spoiler = check_text(draft.spoiler, field="spoiler", maximum=limits.spoiler)
    if not text and not draft.media and draft.data is None:
        raise InvalidInput("Text can't be blank", field="text")
    if len(draft.media) > limits.media:
        found = len(draft.media)
        raise InvalidInput(f"media_ids: a post can have up to {limits.media} photos (got {found})", field="media_ids")
    return {
        "text": text,
        "spoiler": spoiler,
        "sensitive": bool(draft.sensitive or spoiler),
        "visibility": Visibility(draft.visibility),
        "language": language_tag(draft.language),
        "media": tuple(dict.fromkeys(draft.media)),
        "place": None if draft.place is None else checked_place(draft.place),
        "json": _checked_data(draft.data, limits.data),
    }


def _terms(draft: Draft, usual: Member | Post) -> dict[str, Any]:
    """Return the license of a draft, and whether downloads are allowed.

    Missing values are those of `usual`: the edited post or, for a new post, the author's defaults. A post without media has
    neither.
    """
    license_, downloads = License.RESERVED, False
    if not draft.media:
        return {"license": license_, "downloads": downloads}
    if isinstance(usual, Post):
        license_, downloads = usual.license, usual.downloads
    elif not draft.imported:
        license_, downloads = usual.default_license, usual.allows_downloads
    return {
        "license": license_ if draft.license is None else draft.license,
        "downloads": downloads if draft.downloads is None else draft.downloads,
    }


def _checked_data(data: Any, maximum: int) -> str:
    if data is None:
        return ""
    try:
        encoded = msgspec.json.encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"data: must be serializable as JSON: {error}", field="data") from error
    if len(encoded) > maximum:
        raise TooLarge(f"data: at most {maximum} bytes of JSON (got {len(encoded)})", field="data")
    return encoded.decode()


def _written(made: Post | ScheduledPost) -> Post:
    if isinstance(made, ScheduledPost):
        raise Conflict("Idempotency-Key: already used for a scheduled post; use a new key")
    return made


async def recorded(writes: Writes, author_id: int, record: str) -> bool:
    key = import_key(shard_of(author_id), record)
    return key in await writes.graph.key_get((key,))
