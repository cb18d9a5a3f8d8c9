"""Changes and copies of named feeds whose sources are no longer there."""

from __future__ import annotations

from typing import Any

import pytest

from shoal import Shoal
from shoal.core.errors import InvalidInput, Unfit
from tests.async_runner import in_loop
from tests.flows.feeds.test_named_feeds import BREAD
from tests.flows.members import register


def by_author(*names: str) -> dict[str, Any]:
    return {"sources": [{"from": "author", "author": name} for name in names]}


@in_loop
async def test_unchanged_declaration_with_an_unshared_feed_does_not_prevent_a_new_title_or_the_end_of_sharing() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        inner = await ben.feeds.create("Inner", BREAD, shared=True)
        declared = {"sources": [{"from": "feed", "feed": str(inner.id)}], "filters": {"maximum_age_hours": 168}}
        outer = await ann.feeds.create("Outer", declared, shared=True)
        await ben.feeds.update(inner, shared=False)
        renamed = await ann.feeds.update(outer, title="Renamed", declaration=declared, shared=True)
        assert (renamed.title, renamed.shared) == ("Renamed", True)
        with pytest.raises(InvalidInput, match=r"sources\[0\].feed: there is no feed"):
            await ann.feeds.update(outer, declaration={"sources": declared["sources"]})
        stopped = await ann.feeds.update(outer, declaration=declared, shared=False)
        assert (stopped.shared, stopped.declaration) == (False, outer.declaration)
        with pytest.raises(InvalidInput, match=r"sources\[0\].feed: there is no feed"):
            await ann.feeds.update(outer, declaration=declared, shared=True)


@in_loop
async def test_list_in_an_unchanged_declaration_still_prevents_sharing() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        friends = await ann.lists.create("Friends")
        declared = {"sources": [{"from": "list", "list": str(friends.id)}]}
        mine = await ann.feeds.create("Friends", declared)
        with pytest.raises(Unfit, match="a feed with a list cannot be shared"):
            await ann.feeds.update(mine, declaration=declared, shared=True)


@in_loop
async def test_copy_and_its_changes_keep_authors_who_do_not_exist_but_add_none() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await shoal.server_feeds.create("future", by_author("zoe"))
        mine = await ann.feeds.copy("future")
        changed = await ann.feeds.update(mine, declaration=by_author("Zoe", "ann"), shared=True)
        assert len(changed.declaration.sources) == 2
        with pytest.raises(InvalidInput, match=r"sources\[1\].author: there is no member 'yves'"):
            await ann.feeds.update(mine, declaration=by_author("zoe", "yves"))
        with pytest.raises(InvalidInput, match=r"sources\[0\].author: there is no member 'zoe'"):
            await ann.feeds.create("Other", by_author("zoe"))
