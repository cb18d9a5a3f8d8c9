"""Which stored files are shown: those of members in good standing, as long as something that is in sight has them.

The reads that this takes (two; four for media) are remembered for half a minute, so a file is gone that soon after its post or
its author is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.core.media_files import files_of_member, id_in, lasting_files_of
from shoal.core.model import Media, Member, Post
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import ATTACHED, file_key, user_name_key

_REMEMBERED = 20_000
_SECONDS = 30.0
_POSTS = 16
"""How many posts that have a file, from the newest, are checked for being in sight."""


class ShownFiles:
    """Answers for one process; ask before a file is read."""

    def __init__(
        self, graph: Reader, *, seconds: float = _SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._graph = graph
        self._seconds = seconds
        self._clock = clock
        self._until: Recent[str, float] = Recent(_REMEMBERED)

    async def check(self, key: str) -> None:
        """Raise `NotFound` for a file that nobody is to see any more."""
        until = self._until.get(key)
        if until is not None and self._clock() < until:
            return
        asked = self._clock()
        if not await self._is_shown(key):
            raise NotFound("there is no such file")
        self._until.put(key, asked + self._seconds)

    async def _is_shown(self, key: str) -> bool:
        folder, id_ = key.rpartition("/")[0], id_in(key)
        name = user_name_key(folder.rpartition("/")[2])
        renamed = file_key(shard_of(id_), id_)
        keys = await self._graph.key_get([name, renamed])
        media_id = keys.get(renamed, id_)
        nodes = await self._graph.obj_get([found for found in (keys.get(name, 0), media_id) if found])
        owner = nodes.get(keys.get(name, 0))
        if not isinstance(owner, Member) or owner.suspended:
            return False
        if not id_:
            return key in files_of_member(owner)
        media = nodes.get(media_id)
        if not isinstance(media, Media):
            # From before files were named after their object, and not repaired yet; or it is just being deleted.
            return True
        return not media.let_go and key in lasting_files_of(media) and await self._in_sight(media)

    async def _in_sight(self, media: Media) -> bool:
        """Whether no post has it yet, or one that has it is not hidden."""
        attached = await self._graph.assoc_range(media.id, ATTACHED, Cursor(limit=_POSTS))
        found = await self._graph.obj_get([put.id2 for put in attached]) if attached else {}
        posts = [node for node in found.values() if isinstance(node, Post)]
        return not posts or any(not post.hidden for post in posts)
