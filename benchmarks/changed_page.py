"""Processor time of a home page in this process: unchanged, with one post that was liked since, and with cold caches."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from benchmarks.in_process import Headers, asking, front_in
from benchmarks.measure import Report, spread
from benchmarks.network import Keys
from benchmarks.stores import url_of
from shoal import settings as configuration
from shoal.app.network import Network, open_network
from shoal.commands import reactions
from shoal.core.model import Token
from shoal.core.tokens import opened
from shoal.graph.access import association
from shoal.graph.schema import LIKES
from shoal.mastodon_api.context import AppContext

_HOME = "/api/v1/timelines/home?limit=20"
_UNTIL_REMEMBERED = 5


async def measure_changed_pages(store: Path, keys: Keys, rounds: int, report: Report) -> None:
    """Request a member's home page unchanged, after a post on it was liked, and with cold caches.

    Another member's home page is read before each request, as on a server.
    """
    chosen = configuration.load({}, store=url_of(store), media="memory://", rate_limits=False)
    async with open_network(chosen) as network:
        front = front_in(network)
        ask = asking(front)
        reader, other = (_bearer(token) for token in (keys.all[0], keys.all[1]))
        liker = await _member_of(network, keys.all[2])
        await ask(_HOME, reader)
        _, body = await ask(_HOME, reader)
        posts = [int(status["id"]) for status in msgspec.json.decode(body)]

        async def as_it_was(_round: int) -> None:
            # A page that changed before it was requested again is cached only at the fourth request.
            for _ in range(_UNTIL_REMEMBERED):
                await ask(_HOME, reader)

        async def liked(number: int) -> None:
            await _turn_like(network, liker, posts[number % len(posts)])

        async def new(_round: int) -> None:
            network.memory.forget_all()
            _forget_encoded(front)

        before = {"unchanged": as_it_was, "a post on it was liked": liked, "everything on it is new": new}
        times: dict[str, list[float]] = {name: [] for name in before}
        made = dict.fromkeys(before, 0)
        for number in range(rounds):
            for name, change in before.items():
                await ask(_HOME, other)
                await change(number)
                missed, began = _missed(front), time.process_time()
                await ask(_HOME, reader)
                times[name].append(time.process_time() - began)
                made[name] += _missed(front) - missed
        for name, found in times.items():
            report.add(f"home in the process, {name}: processor time", spread(found).median * 1e6, "us")
            report.check(
                f"home in the process, {name}: rendered again", made[name], rounds if name != "unchanged" else 0
            )
        one, every = (spread(times[name]).median for name in ("a post on it was liked", "everything on it is new"))
        report.add("home in the process, a liked post / all posts new", one / every, "times")


def _missed(front: AppContext) -> int:
    return front.response_cache.missed if front.response_cache is not None else 0


async def _turn_like(network: Network, liker: int, post: int) -> None:
    has = await association(network.writes.graph, liker, LIKES, post)
    await (reactions.like if has is None else reactions.unlike)(network.writes, liker, post)
    await network.settle()


def _forget_encoded(front: AppContext) -> None:
    for memory in front.present.memories.values():
        memory.clear()


def _bearer(token: str) -> Headers:
    return ((b"authorization", f"Bearer {token}".encode()),)


async def _member_of(network: Network, text: str) -> int:
    id_ = opened(text).id
    token = (await network.writes.graph.obj_get((id_,)))[id_]
    assert isinstance(token, Token)
    return token.member_id
