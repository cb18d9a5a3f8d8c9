"""Adding and removing servers: the movement guarantees of each scheme, against plain loops and published values."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from shoal.core.placement import DATA_SOURCES
from shoal_study.hash_schemes import (
    ArcShare,
    HashedScheme,
    Jump,
    Modulo,
    Rendezvous,
    Ring,
    ServerLoads,
    bounded_activity,
    bounded_loads,
    bounded_moved,
    hashes_of,
)
from shoal_study.map_schemes import even_map, owners_of, with_stores
from shoal_study.names import Hashes, batch_of, mixed

sizes = st.integers(1, 63)


def some_hashes(count: int = 20_000) -> Hashes:
    return mixed(np.arange(count, dtype=np.uint64), 5)


@pytest.mark.parametrize(
    ("key", "servers", "bucket"),
    [
        # Test vectors of other jump hash implementations.
        (1, 1, 0),
        (42, 57, 43),
        (0xDEAD10CC, 1, 0),
        (0xDEAD10CC, 666, 361),
        (256, 1024, 520),
        (2201, 100_001, 22_152),
        (2202, 100_001, 15_018),
        (10_863_919_174_838_991, 11, 6),
        (2_016_238_256_797_177_309, 11, 3),
        (1_673_758_223_894_951_030, 11, 5),
    ],
)
def test_placement_study_jump_hash_matches_published_test_vectors(key: int, servers: int, bucket: int) -> None:
    assert Jump().place(np.array([key], np.uint64), [servers])[0].tolist() == [bucket]


def test_placement_study_hash_of_name_equals_xxh3_of_lower_cased_name() -> None:
    assert hashes_of(batch_of(["Ann", "", "é"])).tolist() == [
        xxh3_64_intdigest(name) for name in (b"ann", b"", "é".encode())
    ]


@pytest.mark.parametrize("scheme", [Modulo(), Jump(), Rendezvous()])
def test_server_placement_for_several_server_counts_equals_placement_for_each_count(scheme: HashedScheme) -> None:
    hashes = some_hashes(500)
    together = scheme.place(hashes, [7, 20, 1, 8])
    for size, found in zip((7, 20, 1, 8), together, strict=True):
        assert found.tolist() == scheme.place(hashes, [size])[0].tolist()
        assert 0 <= found.min() <= found.max() < size


@pytest.mark.parametrize("scheme", [Jump(), Rendezvous()])
@given(servers=sizes)
def test_consistent_placement_after_adding_server_moves_members_only_to_it(scheme: HashedScheme, servers: int) -> None:
    before, after = scheme.place(some_hashes(2_000), [servers, servers + 1])
    assert set(after[before != after].tolist()) <= {servers}


def test_modulo_placement_after_adding_server_moves_nearly_all_members() -> None:
    loads = ServerLoads(Modulo(), (20, 21))
    loads.add(Modulo().place(some_hashes(), (20, 21)), None)
    assert loads.moved == [0, pytest.approx(20_000 * 20 / 21, rel=0.01)]


def test_placement_study_hash_ring_assigns_name_to_server_of_next_point() -> None:
    ring = Ring(3, 4)
    points = sorted((xxh3_64_intdigest(f"{server}/{at}".encode()), server) for server in range(3) for at in range(4))
    hashes = [*some_hashes(500).tolist(), points[-1][0], min(points[-1][0] + 1, 2**64 - 1), 0]
    arcs = ring.place(np.array(hashes, np.uint64))
    for servers in (1, 2, 3):
        mine = [(point, server) for point, server in points if server < servers]
        wanted = [next((server for point, server in mine if point >= each), mine[0][1]) for each in hashes]
        assert ring.owners(servers)[arcs].tolist() == wanted


@given(before=st.integers(1, 12), after=st.integers(1, 12))
def test_placement_study_hash_ring_moves_no_member_between_remaining_servers(before: int, after: int) -> None:
    ring = Ring(12, 8)
    old, new = ring.owners(before), ring.owners(after)
    moved = old != new
    stays = min(before, after)
    assert not np.any(moved & (old < stays) & (new < stays))


def one_by_one(ring: Ring, hashes: list[int], servers: int, bound: float) -> list[int]:
    """Compute bounded loads by definition: assign members in hash order to the next server with capacity."""
    room = [ceil(bound * len(hashes) / servers)] * servers
    owners = ring._owners.tolist()
    placed: list[int] = []
    for arc in sorted(ring.place(np.array(hashes, np.uint64)).tolist()):
        server = next(
            owner
            for step in range(len(owners))
            if (owner := owners[(arc + step) % len(owners)]) < servers and room[owner]
        )
        room[server] -= 1
        placed.append(server)
    return placed


@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(2, 6), st.sampled_from([1.0, 1.1, 1.5]))
def test_placement_study_bounded_hashing_loads_computed_by_arc_equal_loads_computed_by_member(
    seed: int, few: int, many: int, bound: float
) -> None:
    ring = Ring(6, 5)
    hashes = mixed(np.arange(200, dtype=np.uint64), seed % 1_000)
    ring.arcs.add(ring.place(hashes), np.ones(200))
    here, there = ring.bounded(few, bound), ring.bounded(many, bound)
    first, second = (one_by_one(ring, hashes.tolist(), servers, bound) for servers in (few, many))
    assert bounded_loads(here, few).tolist() == np.bincount(first, minlength=few).tolist()
    assert bounded_loads(here, few).max() <= ceil(bound * 200 / few)
    assert bounded_moved(here, there) == sum(a != b for a, b in zip(first, second, strict=True))
    assert bounded_activity(here, ring.arcs, few) == pytest.approx(bounded_loads(here, few))


def test_placement_study_bounded_hashing_counts_moved_members_by_position_in_arc() -> None:
    before = [[ArcShare(0, 5), ArcShare(1, 5)]]
    assert bounded_moved(before, [[ArcShare(0, 10)]]) == 5
    assert bounded_moved(before, [[ArcShare(1, 5), ArcShare(0, 5)]]) == 10
    assert bounded_moved(before, before) == 0


@given(stores=st.integers(2, 63))
def test_even_shard_map_distributes_data_sources_equally(stores: int) -> None:
    held = np.bincount(owners_of(even_map(stores)), minlength=stores)
    assert held.max() - held.min() <= 1
    assert held.sum() == DATA_SOURCES


@given(stores=st.integers(2, 62), more=st.integers(1, 5))
def test_shard_map_growth_moves_data_sources_only_to_new_stores(stores: int, more: int) -> None:
    after = min(64, stores + more)
    before, grown = owners_of(even_map(stores)), owners_of(with_stores(even_map(stores), after))
    assert set(grown[before != grown].tolist()) <= set(range(stores, after))
    assert np.bincount(grown, minlength=after).max() <= np.bincount(before).max()


@given(stores=st.integers(3, 63))
def test_shard_map_store_removal_moves_only_its_data_sources(stores: int) -> None:
    before, left = owners_of(even_map(stores)), owners_of(with_stores(even_map(stores), stores - 1))
    assert set(before[before != left].tolist()) == {stores - 1}
    assert left.max() < stores - 1
