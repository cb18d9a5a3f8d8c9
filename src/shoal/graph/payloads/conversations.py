"""Conversations, as associations say them: threads of direct posts, each under the newest post in it.

The time is the id of that post. Reading it sets the time to the next one, so that news of the same post, coming again,
change nothing, and the next post does. A post that comes late, after a newer one, is added in its place, and the conversation
stays read or unread as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from shoal.core.ids import named
from shoal.core.model import Post
from shoal.graph.contract import Assoc, AssocOp
from shoal.graph.schema import CONVERSES

_REMEMBERED = 8
"""Posts of a conversation that are remembered: what it shows when the newest are deleted."""


class Talk(msgspec.Struct, frozen=True, array_like=True):
    """A member's view of one conversation."""

    root_id: int
    unread: bool
    post_ids: tuple[int, ...]
    """The newest posts, newest first."""


_decoder: msgspec.msgpack.Decoder[Talk] = msgspec.msgpack.Decoder(Talk)


def talk_id(root_id: int) -> int:
    """Where the association of a conversation leads to: the post that began it may be deleted before the others."""
    return named("conversation", str(root_id))


def root_of(post: Post) -> int:
    """The post that the thread of a post hangs on."""
    return post.root_id or post.id


def talk_of(assoc: Assoc) -> Talk:
    """The conversation that an association tells of."""
    return _decoder.decode(assoc.data)


def knows(held: Assoc, post: Post) -> bool:
    """Whether a conversation has this post, or would not remember it."""
    known = talk_of(held).post_ids
    return post.id in known or (len(known) == _REMEMBERED and post.id < known[-1])


def went_on(member: int, post: Post, held: Assoc | None) -> AssocOp:
    """Add a post to the member's conversation, which does not know it yet."""
    before = talk_of(held) if held else Talk(root_of(post), unread=False, post_ids=())
    newest = not before.post_ids or post.id > before.post_ids[0]
    # Mostly the post that is answered came before it; it may be no part of the conversation, which a reader sees.
    posts = _newest((*before.post_ids, post.id, *filter(None, (post.parent_id,))))
    talk = Talk(root_of(post), unread=post.author_id != member if newest else before.unread, post_ids=posts)
    return _op(member, talk, max(post.id, held.time + 1 if held else 0))


def read_or_not(member: int, held: Assoc, *, unread: bool) -> AssocOp:
    """The member has read it up to here, or says that they have not."""
    return _op(member, msgspec.structs.replace(talk_of(held), unread=unread), held.time + 1)


def ended_talk(member: int, held: Assoc) -> AssocOp:
    """The member has done with it, until a post comes."""
    return _op(member, talk_of(held), held.time + 1, alive=False)


def _newest(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(ids), reverse=True)[:_REMEMBERED])


def _op(member: int, talk: Talk, time: int, *, alive: bool = True) -> AssocOp:
    data = msgspec.msgpack.encode(talk)
    return AssocOp(member, CONVERSES.number, talk_id(talk.root_id), time, alive=alive, data=data, plain=True)
