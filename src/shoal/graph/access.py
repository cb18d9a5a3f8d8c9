"""The only way to a guarded thing: who stands how to whom, and posts as a viewer may have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.core.errors import Gone, NotFound
from shoal.core.model import Member, Post, Share
from shoal.core.visibility import STRANGER, Relation, may_see
from shoal.graph.contract import Reader
from shoal.graph.schema import BLOCKED_BY, BLOCKS, FOLLOWED_BY, FOLLOWS, MUTES

_RELATIONS = (FOLLOWS, FOLLOWED_BY, BLOCKS, BLOCKED_BY, MUTES)


async def relations(graph: Reader, viewer: int | None, members: Iterable[int]) -> dict[int, Relation]:
    """How the viewer stands to each of these members; one read. Strangers are in the answer too."""
    wanted = set(members)
    if viewer is None or not wanted:
        return dict.fromkeys(wanted, STRANGER)
    found = await graph.assoc_get(viewer, _RELATIONS, list(wanted))
    follows, followed_by, blocks, blocked_by, mutes = (found[atype] for atype in _RELATIONS)
    known = follows.keys() | followed_by.keys() | blocks.keys() | blocked_by.keys() | mutes.keys()
    answer = dict.fromkeys(wanted, STRANGER)
    for member in known:
        answer[member] = Relation(
            following=member in follows,
            followed_by=member in followed_by,
            blocking=member in blocks,
            blocked_by=member in blocked_by,
            muting=member in mutes,
        )
    return answer


async def relation(graph: Reader, viewer: int | None, member: int) -> Relation:
    """How the viewer stands to one member."""
    return (await relations(graph, viewer, (member,)))[member]


async def access_member(graph: Reader, member_id: int) -> Member:
    """A member by id. Raises `NotFound`, or `Gone` for one who is suspended."""
    member = (await graph.obj_get((member_id,))).get(member_id)
    if not isinstance(member, Member):
        raise NotFound("Record not found")
    if member.suspended:
        raise Gone("this member is suspended")
    return member


async def access_post(graph: Reader, viewer: int | None, post_id: int) -> Post:
    """A post (or the post that a share shows) that the viewer may see. Raises `NotFound` for any other."""
    node = (await graph.obj_get((post_id,))).get(post_id)
    if isinstance(node, Share):
        node = (await graph.obj_get((node.post_id,))).get(node.post_id)
    if not isinstance(node, Post):
        raise NotFound("Record not found")
    author = (await graph.obj_get((node.author_id,))).get(node.author_id)
    stands = await relation(graph, viewer, node.author_id)
    if not may_see(viewer, node, author if isinstance(author, Member) else None, stands):
        raise NotFound("Record not found")
    return node


async def own_post(graph: Reader, member_id: int, post_id: int) -> Post:
    """A post of this member. Raises `NotFound` for anybody else's: whether it exists is not theirs to know."""
    node = (await graph.obj_get((post_id,))).get(post_id)
    if not isinstance(node, Post) or node.author_id != member_id:
        raise NotFound("Record not found")
    return node


async def members_by_id(graph: Reader, ids: Sequence[int]) -> dict[int, Member]:
    """Those of the ids that are members."""
    found = await graph.obj_get(ids)
    return {id_: node for id_, node in found.items() if isinstance(node, Member)}
