"""Writes a small network with the imported version of Shoal, and a JSON file with the facts about it.

It runs in a separate process with the code of any commit, so it uses only functions that all versions have, or checks first.

    python sample_network.py URL FACTS.json
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

PASSWORD = "a long password"
NAMES = ("ann", "ben", "cyd", "dan", "eve")
_POSTS = 12


_done = asyncio.Event()


async def _set_one_aside(runner: Any) -> int:
    """Park the first event and process no others, so that later events stay in the outbox."""
    jobs = [] if _done.is_set() else await runner._outbox.claim(1, 60.0)
    for job in jobs:
        await runner._outbox.park(job, "set aside to be kept")
        _done.set()
    return 0


async def _made(url: str, told: Path) -> None:
    from shoal import Shoal  # noqa: PLC0415  # of the version under test
    from shoal.outbox import runner as outbox  # noqa: PLC0415  # of the version under test

    async with Shoal.open(url, media=f"{told.parent.as_uri()}/media") as shoal:
        people = {name: await shoal.register(name, PASSWORD) for name in NAMES}
        ann, ben, cyd, dan, eve = people.values()
        follows = [(ann, ben), (ben, ann), (cyd, ann), (cyd, ben), (dan, ann), (dan, ben), (eve, ann)]
        for follower, followed in follows:
            await follower.follow(followed)
        await dan.unfollow(ben)
        await eve.follow(cyd)
        await eve.unfollow(cyd)
        await ann.follow_tag("tide")
        posts = [await ann.create(f"number {n} of ann #tide #n{n}") for n in range(_POSTS)]
        posts += [await ben.create(f"number {n} of ben, says @ann #dawn") for n in range(_POSTS)]
        comment = await cyd.comment(posts[0], "said by cyd")
        await ann.update(posts[1], "another wording #tide")
        await ann.delete(posts[2])
        for member in (ben, cyd, dan):
            await member.like(posts[0])
        await dan.unlike(posts[0])
        await cyd.like(posts[-1])
        await ben.share(posts[3])
        await cyd.bookmark(posts[0])
        await eve.block(dan)
        await cyd.mute(dan)
        await shoal.settle()
        homes = {name: [entry.post.id for entry in (await who.home(limit=40)).entries] for name, who in people.items()}
        facts = {
            "members": {name: who.id for name, who in people.items()},
            "follows": [[a.id, b.id] for a, b in follows if (a, b) != (dan, ben)],
            "unfollowed": [[dan.id, ben.id], [eve.id, cyd.id]],
            "posts": {str(post.id): post.text for post in [*posts[3:], posts[0], comment]}
            | {str(posts[1].id): "another wording #tide"},
            "deleted": posts[2].id,
            "likes": {str(posts[0].id): [ben.id, cyd.id], str(posts[-1].id): [cyd.id]},
            "homes": homes,
        }
        # Until 0.6 the method was called `turn`.
        setattr(outbox.Runner, "run_once" if hasattr(outbox.Runner, "run_once") else "turn", _set_one_aside)
        late = [await ben.create("its event is set aside"), await ben.create("its event waits")]
        await _done.wait()
        facts["late"] = {str(post.id): post.text for post in late}
        told.write_text(json.dumps(facts))  # noqa: ASYNC240  # no other task runs
        # Exit without closing the network, so that its events stay in the outbox.
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(_made(sys.argv[1], Path(sys.argv[2])))
