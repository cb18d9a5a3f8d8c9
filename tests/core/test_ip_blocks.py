"""IP blocks: parsing of networks, and lookup of the blocks that match an address."""

from __future__ import annotations

import pytest

from shoal.core.blocklists import IpBlock, IpSeverity, IpTable, check_network, contains, most_severe
from shoal.core.errors import InvalidInput

BLOCK, ASK, NONE = IpSeverity.SIGN_UP_BLOCK, IpSeverity.SIGN_UP_REQUIRES_APPROVAL, IpSeverity.NO_ACCESS


def table(**blocks: IpSeverity) -> IpTable:
    return IpTable(IpBlock(id=1, network=network, severity=severity) for network, severity in blocks.items())


@pytest.mark.parametrize(
    ("typed", "network"),
    [
        ("203.0.113.9", "203.0.113.9/32"),
        (" 203.0.113.9/24 ", "203.0.113.0/24"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8::1", "2001:db8::1/128"),
        ("2001:db8:0:1::/64", "2001:db8:0:1::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9/32"),
        ("::ffff:203.0.113.0/120", "203.0.113.0/24"),
    ],
)
def test_ip_network_spellings_normalize_to_one_cidr(typed: str, network: str) -> None:
    assert check_network(typed) == network
    assert check_network(network) == network


@pytest.mark.parametrize("typed", ["", "x", "203.0.113", "203.0.113.0/33", "203.0.113.0/-1", "::1/129", "1" * 5_000])
def test_ip_network_malformed_is_rejected(typed: str) -> None:
    with pytest.raises(InvalidInput):
        check_network(typed)


def test_ip_table_address_in_several_networks_gets_most_severe_block() -> None:
    found = table(**{"203.0.113.0/24": ASK, "203.0.0.0/16": NONE, "203.0.113.9/32": BLOCK, "2001:db8::/32": BLOCK})
    assert most_severe(found.blocks_of("203.0.113.9"), 0) is NONE
    assert most_severe(found.blocks_of("203.0.1.1"), 0) is NONE
    assert most_severe(found.blocks_of("203.1.1.1"), 0) is None
    assert most_severe(found.blocks_of("2001:db8:1::9"), 0) is BLOCK
    assert most_severe(found.blocks_of("2001:db9::9"), 0) is None
    # An IPv4-mapped IPv6 address, and an address with a zone index.
    assert most_severe(found.blocks_of("::ffff:203.0.1.1"), 0) is NONE
    assert most_severe(found.blocks_of("2001:db8::9%eth0"), 0) is BLOCK


@pytest.mark.parametrize("address", ["", "unix:", "testclient", "203.0.113.9, 10.0.0.1"])
def test_ip_table_invalid_address_matches_no_block(address: str) -> None:
    assert most_severe(table(**{"0.0.0.0/0": NONE, "::/0": NONE}).blocks_of(address), 0) is None
    assert not contains("0.0.0.0/0", address)


def test_ip_table_zero_prefix_network_matches_all_ipv4_addresses() -> None:
    found = table(**{"0.0.0.0/0": NONE})
    assert most_severe(found.blocks_of("198.51.100.1"), 0) is NONE
    assert most_severe(found.blocks_of("2001:db8::1"), 0) is None


def test_ip_block_expired_is_ignored() -> None:
    short = IpBlock(id=1, network="203.0.113.0/24", severity=NONE, expires_at=1_000)
    long = IpBlock(id=2, network="203.0.0.0/16", severity=ASK)
    found = IpTable((short, long))
    assert [most_severe(found.blocks_of("203.0.113.9"), now) for now in (0, 999, 1_000, 2_000)] == [
        NONE,
        NONE,
        ASK,
        ASK,
    ]


def test_ip_network_contains_its_addresses_and_no_others() -> None:
    assert contains("203.0.113.0/24", "203.0.113.200")
    assert contains("203.0.113.0/24", "::ffff:203.0.113.200")
    assert not contains("203.0.113.0/24", "203.0.114.1")
    assert not contains("203.0.113.0/24", "2001:db8::1")
