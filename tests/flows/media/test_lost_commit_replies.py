"""Files of a commit with a lost reply are kept, since the commit may be stored; files of a refused commit are deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from shoal import Shoal
from shoal.commands import media, members
from shoal.commands.members import ProfileChange
from shoal.core.errors import OutcomeUnknown, Unavailable
from shoal.core.model import Media
from shoal.graph.access import own_object
from shoal.graph.contract import Store
from tests.async_runner import in_loop
from tests.flows.media.test_media_posts import files_of, picture
from tests.flows.members import register
from tests.media.clips import tone
from tests.stores import Forgetful, all_objects


@in_loop
async def test_media_files_are_kept_on_lost_commit_reply_and_deleted_on_refused_commit() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        graph = Forgetful(shoal.network.store)
        writes = replace(shoal.network.writes, graph=cast("Store", graph))
        graph.losses = 2
        with pytest.raises(OutcomeUnknown):
            await media.upload(writes, ann.id, picture())
        with pytest.raises(OutcomeUnknown):
            await members.update_profile(writes, ann.id, ProfileChange(avatar=picture(), header=picture()))
        (made,) = [node for node in await all_objects(shoal.network.store) if isinstance(node, Media)]
        profile = await ann.profile()
        kept = {made.key, made.preview_key, profile.member.avatar, profile.member.header}
        assert await files_of(shoal) == kept

        graph.refusals = 2
        with pytest.raises(Unavailable):
            await media.upload(writes, ann.id, picture((10, 10)))
        with pytest.raises(Unavailable):
            await members.update_profile(writes, ann.id, ProfileChange(avatar=picture((10, 10))))
        assert await files_of(shoal) == kept


@in_loop
async def test_audio_thumbnail_is_kept_on_lost_commit_reply_and_deleted_on_refused_commit() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        graph = Forgetful(shoal.network.store)
        writes = replace(shoal.network.writes, graph=cast("Store", graph))
        made = await media.upload(writes, ann.id, tone(), thumbnail=picture())
        await shoal.settle()

        graph.losses = 1
        with pytest.raises(OutcomeUnknown):
            await media.describe(writes, ann.id, made.id, thumbnail=picture((20, 20)))
        await shoal.settle()
        held = await own_object(writes.graph, Media, ann.id, made.id)
        assert (held.preview_width, held.preview_key != made.preview_key) == (20, True)
        assert await files_of(shoal) == {held.key, held.preview_key}

        graph.refusals = 1
        with pytest.raises(Unavailable):
            await media.describe(writes, ann.id, made.id, thumbnail=picture((10, 10)))
        assert await files_of(shoal) == {held.key, held.preview_key}
