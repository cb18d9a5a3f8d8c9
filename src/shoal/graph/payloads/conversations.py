"""The associations of conversations, which are threads of direct posts. Each member of a thread has one association.

The association's time is the id of the newest post. Marking the conversation as read or unread increments this time by one. So
delivering the same post again changes nothing, and the next post takes effect. A post that arrives after a newer one is added at
its position, and the conversation stays read or unread.
"""

from __future__ import annotations

import msgspec

from shoal.core.ids import named
from shoal.core.model import Post
from shoal.graph.contract import Assoc, AssocOp
from shoal.graph.schema import CONVERSES

_REMEMBERED = 8
"""Number of newest posts kept in a conversation. When the newest is deleted, the next one is shown."""


class Talk(msgspec.Struct, frozen=True, array_like=True):
    root_id: int
    unread: bool
    post_ids: tuple[int, ...]


_decoder: msgspec.msgpack.Decoder[Talk] = msgspec.msgpack.Decoder(Talk)


def talk_id(root_id: int) -> int:
    """Return the id that stands for a conversation in associations, derived from the id of its first post.

    It is not the id of that post, because the post may be deleted.
    """
    return named("conversation", str(root_id))


def root_of(post: Post) -> int:
    return post.root_id or post.id


def talk_of(assoc: Assoc) -> Talk:
    return _decoder.decode(assoc.data)


def knows(conversation: Assoc, post: Post) -> bool:
    """Return whether the stored record of a conversation includes this post, or has its maximum number of posts, all newer."""
    known = talk_of(conversation).post_ids
    return post.id in known or (len(known) == _REMEMBERED and post.id < known[-1])


def went_on(member: int, post: Post, conversation: Assoc | None) -> AssocOp:
    before = talk_of(conversation) if conversation else Talk(root_of(post), unread=False, post_ids=())
    newest = not before.post_ids or post.id > before.post_ids[0]
    # Add the parent too, which is usually in `before.post_ids` already. Code that reads `post_ids` checks that the parent
    # belongs to the conversation.
    posts = {*before.post_ids, post.id, *filter(None, (post.parent_id,))}
    talk = Talk(
        root_of(post),
        unread=post.author_id != member if newest else before.unread,
        post_ids=tuple(sorted(posts, reverse=True)[:_REMEMBERED]),
    )
    return _op(member, talk, max(post.id, conversation.time + 1 if conversation else 0))


def read_or_not(member: int, conversation: Assoc, *, unread: bool) -> AssocOp:
    return _op(member, msgspec.structs.replace(talk_of(conversation), unread=unread), conversation.time + 1)


def ended_talk(member: int, conversation: Assoc) -> AssocOp:
    """Return the operation that removes a conversation from the member's list; the next post of the conversation adds it again."""
    return _op(member, talk_of(conversation), conversation.time + 1, alive=False)


def _op(member: int, talk: Talk, time: int, *, alive: bool = True) -> AssocOp:
    data = msgspec.msgpack.encode(talk)
    return AssocOp(member, CONVERSES.number, talk_id(talk.root_id), time, alive=alive, data=data, plain=True)
