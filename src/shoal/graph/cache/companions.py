"""Objects that are mostly asked for one after the other by the same request, so that it need not wait for each in turn."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.model import Post, Share, Token
from shoal.graph.cache.recent import Recent
from shoal.graph.schema import EVERYBODY, AnyNode


def companions(objects: Recent[int, AnyNode], ids: Sequence[int]) -> set[int]:
    """Return what is asked for after these, as far as these are remembered: to see whether they may be shown, and to show them."""
    found: set[int] = set()
    for id_ in ids:
        node = objects.get(id_)
        if isinstance(node, Post):
            found.add(node.author_id)
        elif isinstance(node, Share):
            found.update((node.author_id, node.post_id, node.post_author_id))
        elif isinstance(node, Token):
            found.update((node.member_id, EVERYBODY))
    return found
