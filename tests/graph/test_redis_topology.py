"""How requests are distributed to Redis servers, and errors when no server responds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.redis.client import Nodes, Script, keys_of, shards_of
from shoal.graph.redis.topology import ServerAddress, parse
from shoal_devcluster import redis as engine
from tests.async_runner import eventually, in_loop
from tests.engines import redis
from tests.faults.proxy import Link, moved, port_of

IDS = np.arange(500, dtype=np.int64) * 1_000_003 << 8
ECHO = Script("echo", "local out = {} for i = 1, #ARGV[1] / 25 do out[i] = string.sub(ARGV[1], i * 25 - 24, i * 25) end "
              "for i, key in ipairs(out) do first(i, 'SET', key, 'x') end return {refused, out}")  # fmt: skip


async def touched(nodes: Nodes) -> list[bytes]:
    """Return the requested keys in the order of `IDS`."""
    keys = keys_of("t", IDS)
    parts = await nodes.each(ECHO, shards_of(IDS), lambda at: (keys[at].tobytes(),), batch=40)
    found = dict(pair for part in parts for pair in zip(part.at.tolist(), part.result, strict=True))
    return [found[at] for at in range(len(IDS))]


def test_redis_keys_contain_shard_and_id() -> None:
    keys = keys_of("t", np.array([(77 << 23) + (8_191 << 10) + 5, -1, 0]))
    assert keys[0].tobytes() == b"t:{1fff}:00000000%08x" % ((77 << 23) + (8_191 << 10) + 5)
    assert keys[1].tobytes() == b"t:{1fff}:ffffffffffffffff"
    assert keys[2].tobytes() == b"t:{0000}:0000000000000000"


@pytest.mark.parametrize("where", ["single", "cluster"])
@in_loop
async def test_redis_keys_are_requested_once_from_the_server_that_owns_them(where: str) -> None:
    nodes = Nodes(getattr(redis, where)())
    assert await touched(nodes) == [key.tobytes() for key in keys_of("t", IDS)]
    assert sorted([id_ async for page in nodes.ids("t") for id_ in page.tolist()]) == IDS.tolist()
    await nodes.close()


@in_loop
async def test_redis_master_is_found_among_servers_and_after_failover() -> None:
    master = redis.own()
    replica = engine.start(redis.folder(), "replica", "--replicaof", *master.url[8:-2].split(":"))
    nodes = Nodes(f"redis://{replica.url[8:-2]},{master.url[8:]}", answer_seconds=0.5)
    await touched(nodes)
    address = nodes._topology and nodes._topology.addresses[0]
    assert address == ServerAddress(*_pair(master.url))
    master.stop()
    with pytest.raises(Unavailable):
        await touched(nodes)
    client = nodes._server(ServerAddress(*_pair(replica.url))).client
    await client.execute_command("REPLICAOF", "NO", "ONE")

    async def works() -> bool:
        try:
            await touched(nodes)
        except Unavailable:
            return False
        return True

    await eventually(works, True)
    await nodes.close()
    replica.stop()


def _pair(url: str) -> tuple[str, int]:
    host, port = url[8:-2].split(":")
    return host, int(port)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_redis_idle_connections_reset_by_peer_are_reopened(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    program = redis.own()
    link = Link(port_of(program.url))

    async def after_a_reset() -> None:
        nodes = Nodes(moved(program.url, link.at))
        for _ in range(3):
            await asyncio.gather(*[touched(nodes) for _ in range(10)])
            link.reset()
            # The event loop now sees the reset; the resulting connection state differs between loop implementations.
            await asyncio.sleep(0.05)
        await nodes.close()

    run(after_a_reset())
    link.close()
    program.stop()


@in_loop
async def test_redis_unresponsive_server_is_unavailable_to_concurrent_callers() -> None:
    program = redis.own()
    nodes = Nodes(program.url, answer_seconds=0.3)
    await touched(nodes)
    program.pause()
    before = nodes.calls
    answers = await asyncio.gather(*(touched(nodes) for _ in range(50)), return_exceptions=True)
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert all("127.0.0.1" not in str(answer) for answer in answers)
    # Queued callers do not each wait for a timeout.
    assert nodes.calls - before < 50
    program.kill()
    with pytest.raises(Unavailable):
        await touched(nodes)
    await nodes.close()


@pytest.mark.parametrize(
    ("url", "addresses", "more"),
    [
        ("redis://one:1/2", [("one", 1)], (False, False, 2, None, None)),
        ("redis://one", [("one", 6379)], (False, False, 0, None, None)),
        ("rediss://:p%40ss@one:1,two:2/0", [("one", 1), ("two", 2)], (False, True, 0, None, "p@ss")),
        ("redis+cluster://me:pw@[::1]:1,two", [("::1", 1), ("two", 6379)], (True, False, 0, "me", "pw")),
        ("rediss+cluster://one:1", [("one", 1)], (True, True, 0, None, None)),
    ],
)
def test_redis_url_is_parsed_into_servers_and_options(
    url: str, addresses: list[tuple[str, int]], more: tuple[object, ...]
) -> None:
    assert parse(url) == (tuple(addresses), *more, {})


@pytest.mark.parametrize(
    "wrong",
    [
        "redis://:pass-word@one?ssl_ca_certs=/etc/ca.pem",
        "rediss://:pass-word@one?ssl_cert_reqs=none",
        "rediss://:pass?word@one:1",
        "rediss://:pass/word@one:1",
    ],
)
def test_redis_url_with_unknown_option_is_refused_without_showing_url(wrong: str) -> None:
    with pytest.raises(ValueError, match="Redis URL") as caught:
        parse(wrong)
    assert "word" not in str(caught.value)
    assert "ss_" not in str(caught.value)


def test_redis_ca_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for file, said in (
        ("ca.pem", "contains no PEM certificates"),
        ("nowhere.pem", "does not exist"),
    ):
        with pytest.raises(InvalidInput, match=said):
            parse(f"rediss://one?ssl_ca_certs={tmp_path / file}")


@pytest.mark.parametrize("url", ["http://one", "redis://", "redis://one:x", "redis://one/x", "redis+cluster://one:1/3"])
def test_redis_url_that_is_invalid_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="Redis"):
        parse(url)
