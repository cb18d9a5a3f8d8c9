"""The client behind proxies is the rightmost untrusted address; headers set by the client cannot change it."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.http.connections import Doubts, Proxies
from shoal.settings import SettingsError, load

LOOPBACK = load({}).trusted_proxies
CLIENT = "203.0.113.7"
ANYTHING = st.one_of(st.text(max_size=60), st.lists(st.ip_addresses().map(str), max_size=4).map(", ".join))


def client(peer: str, *headers: tuple[str, str], trusted: tuple[str, ...] = LOOPBACK) -> str:
    """Return the client's address as found behind the proxies."""
    raw = [(name.lower().encode(), value.encode("utf-8", "replace")) for name, value in headers]
    return Proxies(trusted).client(peer, raw)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (CLIENT, CLIENT),
        (f"10.9.9.9, {CLIENT}", CLIENT),
        (f"{CLIENT}, 127.0.0.1, ::1", CLIENT),
        (f"{CLIENT}:4711", CLIENT),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("2001:DB8::1", "2001:db8::1"),
        (f"::ffff:{CLIENT}", CLIENT),
        (f"{CLIENT}, nonsense", "127.0.0.1"),
        (f"{CLIENT}, ", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_forwarded_client_is_rightmost_untrusted_address(value: str, found: str) -> None:
    assert client("127.0.0.1", ("X-Forwarded-For", value)) == found


def test_x_forwarded_for_headers_sent_repeatedly_are_joined_into_one_address_list() -> None:
    assert client("::1", ("X-Forwarded-For", "10.9.9.9"), ("X-Forwarded-For", CLIENT)) == CLIENT


def test_trusted_proxies_setting_accepts_networks() -> None:
    chain = ("X-Forwarded-For", f"10.9.9.9, {CLIENT}, 192.168.0.2")
    assert client("127.0.0.1", chain) == "192.168.0.2"
    assert client("127.0.0.1", chain, trusted=("127.0.0.1", "192.168.0.0/24")) == CLIENT
    assert client("::ffff:192.168.0.9", chain, trusted=("192.168.0.0/24",)) == CLIENT


def test_forwarded_headers_of_untrusted_peer_are_ignored() -> None:
    assert client("198.51.100.1", ("X-Forwarded-For", CLIENT), ("Forwarded", f"for={CLIENT}")) == "198.51.100.1"
    assert client("127.0.0.1", ("X-Forwarded-For", CLIENT), trusted=()) == "127.0.0.1"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (f"for={CLIENT};proto=https;by=10.0.0.1", CLIENT),
        (f"proto=https; For={CLIENT}", CLIENT),
        ('for="[2001:db8:cafe::17]:4711"', "2001:db8:cafe::17"),
        (f"for=10.9.9.9, for={CLIENT}", CLIENT),
        ("for=10.9.9.9, for=unknown", "127.0.0.1"),
        ("for=_hidden", "127.0.0.1"),
        ("nothing", "127.0.0.1"),
    ],
)
def test_client_address_without_x_forwarded_for_header_is_read_from_forwarded_header(value: str, found: str) -> None:
    assert client("127.0.0.1", ("Forwarded", value)) == found


def test_forwarded_header_does_not_override_x_forwarded_for() -> None:
    assert client("127.0.0.1", ("Forwarded", "for=10.9.9.9"), ("X-Forwarded-For", CLIENT)) == CLIENT


@given(ANYTHING, ANYTHING)
def test_forwarded_client_cannot_be_spoofed_by_client_headers(written: str, forwarded: str) -> None:
    headers = [("X-Forwarded-For", written), ("Forwarded", forwarded), ("X-Forwarded-For", CLIENT)]
    assert client("127.0.0.1", *headers) == CLIENT


@pytest.mark.parametrize("wrong", ["", "nowhere", "10.0.0.0/99"])
def test_trusted_proxies_setting_with_invalid_network_raises_settings_error(wrong: str) -> None:
    with pytest.raises(SettingsError, match="trusted_proxies"):
        Proxies([wrong])


@pytest.mark.parametrize(
    ("base_url", "peer", "warned"),
    [
        ("https://example.org", "10.0.0.5", True),
        ("https://example.org", "127.0.0.1", False),
        ("https://example.org", "8.8.8.8", False),
        ("http://example.org", "10.0.0.5", False),
    ],
)
def test_untrusted_proxy_warning_is_logged_once(
    caplog: pytest.LogCaptureFixture, base_url: str, peer: str, warned: bool
) -> None:
    doubts = Doubts(load({}, base_url=base_url), Proxies(LOOPBACK).trusts)
    with caplog.at_level(logging.WARNING):
        for headers in (
            [(b"host", b"example.org")],
            [(b"x-forwarded-for", b"1.2.3.4")],
            [(b"forwarded", b"for=1.2.3.4")],
        ):
            if doubts.about(peer):
                doubts.look(peer, headers)
    assert [peer in record.message for record in caplog.records] == ([True] if warned else [])
