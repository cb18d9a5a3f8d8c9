"""Photos without files, for tests of pages that only contain their URLs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from shoal.app.network import Network
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.ids import shard_of
from shoal.core.model import Media, Member, Post
from shoal.graph.contract import Batch
from shoal.graph.schema import OWNS

T = TypeVar("T")


class Networked(Protocol):
    """A network with a function that runs coroutines, such as `NetworkFixture` or `LiveServer`."""

    network: Network

    def run(self, what: Coroutine[Any, Any, T], /) -> T: ...


def photo(fixture: Networked, owner: Member, description: str = "") -> int:
    """Create a photo of a member, and return its id."""
    writes = fixture.network.writes
    shard = shard_of(owner.id)
    id_ = writes.new_id(shard)
    media = Media(
        id=id_,
        owner_id=owner.id,
        key=f"0/0/0/{owner.name}/{id_}.jpg",
        preview_key=f"0/0/0/{owner.name}/{id_}-small.jpg",
        width=1_200,
        height=800,
        preview_width=640,
        preview_height=427,
        description=description,
        blurhash="LEHV6nWB2yk8pyo0adR*.7kCMdnj",
    )
    batch = Batch(shard)
    batch.obj_add(media)
    batch.assoc_add(owner.id, OWNS, id_, id_)
    fixture.run(writes.graph.commit(batch))
    return id_


def posted(fixture: Networked, author: Member, text: str = "", photos: int = 0, **more: Any) -> Post:
    """Create a post of a member with a number of photos."""
    media = [photo(fixture, author, f"photo {n} of {text}") for n in range(photos)]
    return fixture.run(posts.create(fixture.network.writes, author.id, Draft(text=text, media=media, **more)))
