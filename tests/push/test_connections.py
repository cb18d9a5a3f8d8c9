"""Messages go to the public internet alone, whatever a name leads to at the moment of the connection."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address, ip_network
from typing import Any

import httpcore
import pytest

from shoal.push.connections import GuardedBackend, is_public
from tests.running import in_loop

PUBLIC = ("1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1")
OWN = (
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 (nobody listens)
    "255.255.255.255",
    "224.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "2001:0:5ef5:79fd:0:59a:8080:fefe",
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_sent_to(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", OWN)
def test_no_other_may_unless_its_network_is_allowed(address: str) -> None:
    assert not is_public(ip_address(address))
    assert not is_public(ip_address(address), [ip_network("198.18.0.0/15"), ip_network("fd12::/16")])
    assert is_public(ip_address("10.1.2.3"), [ip_network("10.1.0.0/16")])
    assert is_public(ip_address("::ffff:10.1.2.3"), [ip_network("10.1.0.0/16")])


async def connected(host: str, port: int, *allowed: str) -> None:
    stream = await GuardedBackend([ip_network(one) for one in allowed]).connect_tcp(host, port, timeout=5)
    await stream.aclose()


@in_loop
async def test_nothing_is_connected_to_that_is_not_allowed() -> None:
    came = 0

    async def count(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        writer.close()

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        for host in ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "::ffff:127.0.0.1"):
            with pytest.raises(httpcore.ConnectError):
                await connected(host, port)
        assert came == 0
        await connected("127.0.0.1", port, "127.0.0.0/8")
        await asyncio.sleep(0)
    finally:
        server.close()


@in_loop
async def test_a_name_is_looked_up_where_it_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, asked = asyncio.get_running_loop(), list[str]()

    async def lookup(host: str, port: int, **_more: Any) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in ("10.0.0.1", "127.0.0.1", "fe80::1%eth0")]

    monkeypatch.setattr(loop, "getaddrinfo", lookup)
    with pytest.raises(httpcore.ConnectError, match="not on the public internet"):
        await connected("push.example", 443)
    assert asked == ["push.example"]


@in_loop
async def test_a_name_that_is_not_found_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lookup(*_: Any, **__: Any) -> list[Any]:
        await asyncio.sleep(60)
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
    with pytest.raises(httpcore.ConnectTimeout):
        await GuardedBackend().connect_tcp("push.example", 443, timeout=0.05)
