"""Push connections reach only the public internet, regardless of the address that a name resolves to."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address, ip_network
from typing import Any

import httpcore
import pytest

from shoal.push.sender import GuardedBackend, is_public
from tests.async_runner import in_loop

PUBLIC = (
    "1.1.1.1",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "223.255.255.255",
    "2001:200::1",
    "2003::1",
    "2606:4700:4700::1111",
    "3ffe:ffff::1",
    "3fff:1000::1",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
)
REGISTRY = (
    # IANA IPv4 special-purpose address registry
    "0.0.0.0/8",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.0.0/29",
    "192.0.0.8/32",
    "192.0.0.9/32",
    "192.0.0.10/32",
    "192.0.0.170/32",
    "192.0.0.171/32",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.88.99.2/32",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "240.0.0.0/4",
    "255.255.255.255/32",
    # multicast
    "224.0.0.0/4",
    "ff00::/8",
    # IANA IPv6 special-purpose address registry
    "::1/128",
    "::/128",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001::/32",
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    # not global unicast, though in no registry
    "::/96",
    "::ffff:0:0:0/96",
    "200::/7",
    "4000::/3",
    "fec0::/10",
)
REPORTED = (
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b:1::7f00:1",
    "fec0::1",
    "192.88.99.1",
    "5f00::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "2001:0:5ef5:79fd:0:59a:8080:fefe",
    "fd00:ec2::254",
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_check_allows_global_unicast(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("entry", REGISTRY)
def test_public_address_check_refuses_registry_entry_from_first_to_last_address(entry: str) -> None:
    network = ip_network(entry)
    assert not is_public(network[0])
    assert not is_public(network[network.num_addresses // 2])
    assert not is_public(network[-1])


@pytest.mark.parametrize("address", REPORTED)
def test_public_address_check_refuses_disguised_internal_address(address: str) -> None:
    assert not is_public(ip_address(address))
    assert not is_public(ip_address(address), [ip_network("198.18.0.0/15"), ip_network("fd12::/16")])


def test_public_address_check_allows_address_in_allowed_network_in_every_notation() -> None:
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"):
        assert is_public(ip_address(address), [ip_network("10.1.0.0/16")])
    assert is_public(ip_address("fd12::5"), [ip_network("fd12::/16")])


async def connected(host: str, port: int, *allowed: str) -> None:
    stream = await GuardedBackend([ip_network(one) for one in allowed]).connect_tcp(host, port, timeout=5)
    await stream.aclose()


@in_loop
async def test_push_connection_to_internal_address_is_refused_unless_allowed() -> None:
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
async def test_push_connection_name_is_resolved_once_and_internal_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, asked = asyncio.get_running_loop(), list[str]()

    async def lookup(host: str, port: int, **_more: Any) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in ("10.0.0.1", "127.0.0.1", "fe80::1%eth0")]

    monkeypatch.setattr(loop, "getaddrinfo", lookup)
    with pytest.raises(httpcore.ConnectError, match="no public address"):
        await connected("push.example", 443)
    assert asked == ["push.example"]


@in_loop
async def test_push_connection_with_slow_name_lookup_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lookup(*_: Any, **__: Any) -> list[Any]:
        await asyncio.sleep(60)
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
    with pytest.raises(httpcore.ConnectTimeout):
        await GuardedBackend().connect_tcp("push.example", 443, timeout=0.05)
