"""Whether a member is to be told at all of what another did: asked before anything is noted for them."""

from __future__ import annotations

from shoal.core.model import Member, Post
from shoal.core.visibility import may_see
from shoal.fanout.effects import Effects
from shoal.graph.access import relations
from shoal.graph.schema import MUTES_THREAD
from shoal.graph.talks import root_of


async def is_welcome(effects: Effects, member_id: int, actor_id: int, post: Post | None) -> bool:
    """Whether news of this actor, about this post or none, come to the member. Three reads.

    Not from whom they mute together with their notifications, or across a block; not from who is suspended, about a post that
    they may not see, or in a thread of which they want to hear nothing more. What is noted already is for `feeds` to show or not.
    """
    graph = effects.graph
    author_id = post.author_id if post else actor_id
    nodes = await graph.obj_get(list({member_id, actor_id, author_id}))
    member, actor = nodes.get(member_id), nodes.get(actor_id)
    if not isinstance(member, Member) or not isinstance(actor, Member) or actor.suspended:
        return False
    stands = await relations(graph, member_id, {actor_id, author_id})
    if stands[actor_id].severed or stands[actor_id].muting_notifications:
        return False
    if post is None:
        return True
    author = nodes.get(author_id)
    if not may_see(member_id, post, author if isinstance(author, Member) else None, stands[author_id]):
        return False
    root = root_of(post)
    return root not in (await graph.assoc_get(member_id, (MUTES_THREAD,), (root,)))[MUTES_THREAD]
