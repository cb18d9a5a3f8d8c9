"""Posts of a kind, newest first: all public ones, those of a member, or those that match filters by indexed properties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shoal.core.kind_index import Filter, author_name
from shoal.core.kinds import PostKind, value_at
from shoal.graph.contract import Cursor
from shoal.graph.schema import INDEX_OF, index_id
from shoal.queries.context import Reads
from shoal.queries.hydration import Row
from shoal.queries.pagination import pull
from shoal.queries.pipeline import Page, read_page
from shoal.queries.public_timelines import listed


async def posts_page(
    reads: Reads, viewer: int | None, kind: PostKind, filters: Sequence[Filter], cursor: Cursor, *, author_id: int = 0
) -> Page:
    """Return a page of the posts of a kind that match the filters, as the viewer may see them.

    Without an author, these are the public posts, read from at most 40 lists in two reads. With an author, the member's posts of
    the kind are compared with the filters. Raises the errors of `PostKind.lists`.
    """
    names = [author_name(kind.name, author_id)] if author_id else kind.lists(filters)

    def row_filter(row: Row) -> bool:
        # The lists contain more than the selected values, and may not reflect the latest edit of a post yet.
        post = row[1]
        if post.kind != kind.name:
            return False
        data = post.data if filters else None
        return all(each.admits(value_at(data, each.path)) for each in filters)

    skeleton = partial(pull, reads.graph, {INDEX_OF: list(map(index_id, names))})
    if author_id:
        return await read_page(reads, viewer, cursor, skeleton, row_filter=row_filter, unasked=False)
    return await read_page(reads, viewer, cursor, skeleton, listed, row_filter=row_filter)
