"""Outgoing requests reach only the public internet, regardless of how an address is written, and have limits."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network
from typing import Any

import httpcore
import pytest

from shoal.outgoing import GuardedBackend, OutgoingResponse, RequestFailed, _ascii, is_public, open_pool, request
from tests.async_runner import in_loop
from tests.push.service import PushService, push_service

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


def disguises(address: IPv4Address) -> Iterator[IPv6Address]:
    """Yield the IPv6 addresses that lead to an IPv4 address through a translator or a tunnel, or did in earlier standards."""
    number = int(address)
    yield IPv6Address(number)  # IPv4-compatible
    yield IPv6Address(0xFFFF << 32 | number)  # IPv4-mapped
    yield IPv6Address(0xFFFF << 48 | number)  # IPv4-translated
    yield IPv6Address(0x64FF9B << 96 | number)  # NAT64
    yield IPv6Address(0x64FF9B0001 << 80 | number)  # NAT64 for local use
    yield IPv6Address(0x2002 << 112 | number << 80 | 1)  # 6to4
    yield IPv6Address(0x2001 << 112 | number ^ 0xFFFFFFFF)  # Teredo


@pytest.mark.parametrize("entry", REGISTRY)
def test_public_address_check_refuses_every_address_of_registry_entry_in_every_disguise(entry: str) -> None:
    network, chance = ip_network(entry), random.Random(entry)
    swept = {0, network.num_addresses // 2, network.num_addresses - 1}
    swept |= {chance.randrange(network.num_addresses) for _ in range(200)}
    for address in (network[at] for at in swept):
        assert not is_public(address), address
        if isinstance(address, IPv4Address):
            for disguise in disguises(address):
                assert not is_public(disguise), (address, disguise)


def test_public_address_check_allows_addresses_next_to_ipv4_registry_entries() -> None:
    networks = [network for entry in REGISTRY if isinstance(network := ip_network(entry), IPv4Network)]
    ends = {int(end) for network in networks for end in (network[0], network[-1])}
    neighbors = {end + step for end in ends for step in (-1, 1) if 0 <= end + step < 2**32}
    outside = {IPv4Address(n) for n in neighbors if not any(IPv4Address(n) in network for network in networks)}
    assert outside
    for address in outside:
        assert is_public(address), address


@pytest.mark.parametrize("address", REPORTED)
def test_public_address_check_refuses_disguised_internal_address(address: str) -> None:
    assert not is_public(ip_address(address))
    assert not is_public(ip_address(address), [ip_network("198.18.0.0/15"), ip_network("fd12::/16")])


def test_public_address_check_allows_address_in_allowed_network_in_every_notation() -> None:
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"):
        assert is_public(ip_address(address), [ip_network("10.1.0.0/16")])
    assert is_public(ip_address("fd12::5"), [ip_network("fd12::/16")])


async def connected(host: str, port: int, *allowed: str) -> None:
    stream = await GuardedBackend([ip_network(one) for one in allowed]).connect_tcp(host, port, timeout=60)
    await stream.aclose()


@in_loop
async def test_outgoing_connection_to_internal_address_is_refused_unless_allowed() -> None:
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
async def test_outgoing_connection_name_is_resolved_once_and_internal_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[str]()

    def lookup(host: str, port: int, **_more: Any) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in ("10.0.0.1", "127.0.0.1", "fe80::1%eth0")]

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    with pytest.raises(httpcore.ConnectError, match="no public address"):
        await connected("push.example", 443)
    assert asked == ["push.example"]


@in_loop
async def test_outgoing_connections_with_slow_name_lookup_time_out_and_block_one_thread_per_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, released, slow = threading.Event(), threading.Event(), list[str]()

    def lookup(host: str, *_: Any, **__: Any) -> list[Any]:
        if host == "slow.example":
            slow.append(host)
            begun.set()
            released.wait(60)
        return []

    monkeypatch.setattr("socket.getaddrinfo", lookup)
    backend = GuardedBackend()
    try:
        for _ in range(20):
            with pytest.raises(httpcore.ConnectTimeout):
                await backend.connect_tcp("slow.example", 443, timeout=0.01)
        # The thread may begin later than the requests give up.
        assert await asyncio.to_thread(begun.wait, 60)
        assert slow == ["slow.example"]
        with pytest.raises(httpcore.ConnectError, match="no public address"):
            await backend.connect_tcp("quick.example", 443, timeout=60)
    finally:
        released.set()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with push_service(tmp_path_factory.mktemp("outgoing")) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(running.trusted))
        yield running


async def fetched(url: str, *, seconds: float = 20.0, max_bytes: int = 1_000) -> OutgoingResponse:
    async with open_pool([ip_network("127.0.0.0/8")]) as pool:
        return await request(pool, "GET", url, seconds=seconds, max_bytes=max_bytes)


@in_loop
async def test_outgoing_request_returns_status_and_body_up_to_maximum(service: PushService) -> None:
    service.bodies["/most"] = b"x" * 1_000
    assert await fetched(f"{service.url}/most") == (201, b"x" * 1_000)
    assert await fetched(f"{service.url}/most", max_bytes=0) == (201, b"")


@pytest.mark.parametrize("path", ["/larger", "/endless"])
@in_loop
async def test_outgoing_request_with_larger_response_is_aborted(service: PushService, path: str) -> None:
    service.bodies["/larger"], service.answers["/endless"] = b"x" * 1_001, -1
    with pytest.raises(RequestFailed, match="more than 1000 bytes"):
        await fetched(service.url + path)


@in_loop
async def test_outgoing_request_without_response_times_out(service: PushService) -> None:
    service.answers["/silent"] = 0
    with pytest.raises(RequestFailed, match=r"no response within 0\.2 seconds"):
        await fetched(f"{service.url}/silent", seconds=0.2)


@in_loop
async def test_outgoing_request_with_truncation_returns_body_received_before_the_timeout(
    service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answers["/stopping"] = -2
    limits, timeout, stream = list[asyncio.Timeout](), asyncio.timeout, httpcore.Response.aiter_stream

    def noted(seconds: float | None) -> asyncio.Timeout:
        limits.append(timeout(seconds))
        return limits[-1]

    async def ending(response: httpcore.Response) -> AsyncIterator[bytes]:
        async for chunk in stream(response):
            # The request times out as soon as the beginning of the body has arrived.
            limits[0].reschedule(asyncio.get_running_loop().time())
            yield chunk

    monkeypatch.setattr(asyncio, "timeout", noted)
    monkeypatch.setattr(httpcore.Response, "aiter_stream", ending)
    async with open_pool([ip_network("127.0.0.0/8")]) as pool:
        answer = await request(pool, "GET", f"{service.url}/stopping", seconds=60.0, truncate=True)
    assert answer == (201, b"begin")


@in_loop
async def test_outgoing_request_does_not_follow_redirect(service: PushService) -> None:
    service.answers["/moved"] = 302
    assert (await fetched(f"{service.url}/moved")).status == 302
    assert not service.at("/elsewhere")


@in_loop
async def test_outgoing_request_to_server_with_unknown_certificate_fails(
    service: PushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(RequestFailed, match=r"^TLS failed: self-signed certificate$"):
        await fetched(f"{service.url}/secret")
    assert not service.at("/secret")


@in_loop
async def test_outgoing_request_to_unreachable_host_names_the_cause(service: PushService) -> None:
    with pytest.raises(RequestFailed, match=r"^the connection was refused$"):
        await fetched("https://127.0.0.1:1/")
    async with open_pool() as pool:
        for host, cause in (("127.0.0.1", "no public address"), ("a" * 64 + ".example", "does not resolve")):
            with pytest.raises(RequestFailed, match=cause) as raised:
                await request(pool, "GET", f"https://{host}:1/", seconds=60.0)
            assert "127.0.0.1" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "file:///etc/passwd", "https://", f"https://{'a' * 64}.example/", "https://[::1/"]
)
@in_loop
async def test_outgoing_request_with_unusable_url_fails(url: str) -> None:
    with pytest.raises(RequestFailed):
        await fetched(url, seconds=5.0)


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://cdn.example/f\u00f6to.jpg", "https://cdn.example/f%C3%B6to.jpg"),
        (
            "https://b\u00fccher.example:8443/a%20b?\u00fc=1&b=2#c",
            "https://xn--bcher-kva.example:8443/a%20b?%C3%BC=1&b=2",
        ),
        ("https://cdn.example/a b?c=[1]", "https://cdn.example/a b?c=[1]"),
    ],
)
def test_outgoing_request_encodes_letters_beyond_ascii(url: str, sent: str) -> None:
    assert _ascii(url) == sent


@in_loop
async def test_outgoing_request_to_invalid_host_beyond_ascii_is_refused() -> None:
    async with open_pool() as pool:
        for url in ("https://\u00fc\u0000.example/", "https://[\u00fc/", "https://-\u2028.example/"):
            with pytest.raises(RequestFailed):
                await request(pool, "GET", url, seconds=2)
