"""Every graph against a small reference model, with random sequences of commits."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from shoal.core.errors import Conflict
from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.graph.contract import Assoc, AssocOp, AssocRow, Batch, Cursor
from shoal.graph.payloads.follows import moments_until
from shoal.graph.schema import ASSOC_TYPES, FOLLOWS, LIKED_BY, LIKES, POSTED, SHARES, WITH_HISTORY, AssocType, Key
from tests.example_counts import DEEP, examples
from tests.stores import (
    ANN,
    BACKENDS,
    BEN,
    CYD,
    Backend,
    all_counts,
    all_links,
    all_objects,
    id_on,
    ids_of,
    moment,
    started,
)

AUTHORS = {id_on(source, n): id_on(source) for source in (0, 40, 63) for n in (1, 2)}
"""Posts, two of each member, and their authors."""

MEMBERS = [ANN, BEN, CYD]
ENDS = [*MEMBERS, *AUTHORS]
TYPES = [FOLLOWS, LIKES, SHARES, POSTED]
TYPES_AND_INVERSES = TYPES + [ASSOC_TYPES[atype.inverse] for atype in TYPES if atype.inverse]
ASIDE = {atype.history: atype.number for atype in TYPES_AND_INVERSES if atype.history}
"""Types that store histories of live associations, and the types of these associations."""
FEWER = {
    "postgres": examples(15, full=50),
    "sharded-postgres": examples(15, full=50),
    "sharded-sqlite": examples(25, full=50),
    "cached-sharded-sqlite": examples(25, full=50),
    "dynamodb": examples(5),
}
"""Number of examples for backends where a full comparison takes up to a hundred requests."""
EVERY = {} if DEEP else {"dynamodb": 5}
"""Number of steps between full comparisons, for backends that do not compare after each step. Every run is compared at its end."""
PAST = 1
"""An expiry in the past."""

members, ends, types = st.sampled_from(MEMBERS), st.sampled_from(ENDS), st.sampled_from(TYPES)
OWN = -1
"""As a time: the id of the other end, as most entries of post lists have it."""
times = st.integers(OWN, 30)
few_bytes = st.sampled_from([b"", b"1", b"2"])


def moment_of(time: int, id2: int) -> int:
    return id2 if time == OWN else moment(time)


class Begin(NamedTuple):
    atype: int
    id2: int
    time: int
    data: bytes


class End(NamedTuple):
    atype: int
    id2: int
    time: int
    data: bytes


class Add(NamedTuple):
    n: int


class Replace(NamedTuple):
    n: int
    version: int


class Delete(NamedTuple):
    n: int


class Expect(NamedTuple):
    n: int


class Reserve(NamedTuple):
    name: str
    owner: int
    until: int


class GiveUp(NamedTuple):
    name: str
    owner: int


Change = Begin | End | Add | Replace | Delete | Expect | Reserve | GiveUp

small = st.integers(1, 3)
names = st.sampled_from("ab")
changes = st.one_of(
    st.builds(Begin, st.sampled_from([atype.number for atype in TYPES]), ends, times, few_bytes),
    st.builds(End, st.sampled_from([atype.number for atype in TYPES]), ends, times, few_bytes),
    st.builds(Add, small),
    st.builds(Replace, small, st.integers(2, 4)),
    st.builds(Delete, small),
    st.builds(Expect, small),
    st.builds(Reserve, names, small, st.sampled_from([0, PAST])),
    st.builds(GiveUp, names, small),
)


class Stored(NamedTuple):
    """An association as the model stores it."""

    time: int
    data: bytes
    alive: bool


NOTHING = Stored(-1, b"", alive=False)


class Model:
    """A model of a graph in four dictionaries. Counts are computed, not stored."""

    def __init__(self) -> None:
        # Every beginning and end of an association that has a history; an end is negative.
        self.moments: dict[tuple[int, int, int], set[int]] = {}
        self.versions: dict[int, int] = {}
        self.keys: dict[tuple[int, str], tuple[int, int]] = {}
        self.links: dict[tuple[int, int, int], Stored] = {}
        self.events = 0

    def allows(self, actor: int, batch: list[Change]) -> bool:
        """Whether every condition of the batch holds before it."""
        for change in batch:
            match change:
                case Add(n) if actor + n in self.versions:
                    return False
                case Replace(n, version) if self.versions.get(actor + n) != version - 1:
                    return False
                case Expect(n) if actor + n not in self.versions:
                    return False
                case Reserve(name, owner) if self.holder(actor, name) not in (None, owner):
                    return False
        return True

    def holder(self, actor: int, name: str) -> int | None:
        owner, until = self.keys.get((actor, name), (0, 0))
        return owner if owner and until != PAST else None

    def apply(self, actor: int, batch: list[Change]) -> None:
        for change in batch:
            match change:
                case Add(n):
                    self.versions[actor + n] = 1
                case Replace(n, version):
                    self.versions[actor + n] = version
                case Delete(n):
                    self.versions.pop(actor + n, None)
                case Reserve(name, owner, until):
                    # A permanent key stays permanent: a temporary reservation does not change this.
                    if not until or self.keys.get((actor, name)) != (owner, 0):
                        self.keys[actor, name] = (owner, until)
                case GiveUp(name, owner) if self.keys.get((actor, name), (0, 0))[0] == owner:
                    del self.keys[actor, name]
                case Begin(atype, id2, time, data):
                    self.act(actor, atype, id2, Stored(moment_of(time, id2), data, alive=True))
                case End(atype, id2, time, data):
                    self.act(actor, atype, id2, Stored(moment_of(time, id2), data, alive=False))
        self.events += 1

    def act(self, id1: int, atype: int, id2: int, word: Stored) -> None:
        """Apply a change of a member. It always takes effect, except the deletion of a missing association."""
        last = self.links.get((id1, atype, id2), NOTHING)
        if word.alive or last.alive:
            if _rank(atype, word) <= _rank(atype, last) or (ASSOC_TYPES[atype].history and word.time <= last.time):
                word = word._replace(time=last.time + 1)
            self.hear(id1, atype, id2, word)
            if inverse := ASSOC_TYPES[atype].inverse:
                self.hear(id2, inverse, id1, word)

    def hear(self, id1: int, atype: int, id2: int, word: Stored) -> None:
        """Apply an operation. The later one wins, then the greater data, then the first."""
        if ASSOC_TYPES[atype].history:
            moments = self.moments.setdefault((id1, atype, id2), set())
            moments.add(word.time if word.alive else -word.time)
        if _rank(atype, word) > _rank(atype, self.links.get((id1, atype, id2), NOTHING)):
            self.links[id1, atype, id2] = word

    def counts(self) -> dict[tuple[int, int], int]:
        pairs = [(id1, atype) for (id1, atype, _), stored in self.links.items() if stored.alive]
        pairs += [(AUTHORS[id1], atype) for id1, atype in pairs if ASSOC_TYPES[atype].aggregated and id1 in AUTHORS]
        return {pair: pairs.count(pair) for pair in pairs}

    def listed(self, id1: int, atype: int) -> list[tuple[int, int]]:
        """(time, id2), newest first."""
        links = self.links.items()
        return sorted(((s.time, c) for (a, b, c), s in links if (a, b) == (id1, atype) and s.alive), reverse=True)


def _rank(atype: int, word: Stored) -> tuple[object, ...]:
    """Precedence of an operation. At equal times a deletion wins for types with a history: it carries the history."""
    if ASSOC_TYPES[atype].history:
        return word.time, not word.alive, word.data if word.alive else b""
    return word.time, word.data


def _fill(batch: Batch, actor: int, change: Change, owners: dict[int, int]) -> None:
    match change:
        case Begin(atype, id2, time, data):
            batch.assoc_add(actor, ASSOC_TYPES[atype], id2, moment_of(time, id2), data, aggregate_id=owners.get(id2, 0))
        case End(atype, id2, time, data):
            batch.assoc_del(actor, ASSOC_TYPES[atype], id2, moment_of(time, id2), data, aggregate_id=owners.get(id2, 0))
        case Add(n):
            batch.obj_add(Member(id=actor + n, name="m"))
        case Replace(n, version):
            batch.obj_set(Member(id=actor + n, name="m", version=version))
        case Delete(n):
            batch.obj_del(Member(id=actor + n, name="m"))
        case Expect(n):
            batch.expect(actor + n)
        case Reserve(name, owner, until):
            batch.key_add(Key(shard_of(actor), f"space{actor}", name), owner, until=until)
        case GiveUp(name, owner):
            batch.key_del(Key(shard_of(actor), f"space{actor}", name), owner)


class GraphMachine(RuleBasedStateMachine):
    """Applies random operations to a graph and to the model, and compares them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._model = Model()
        self._steps = itertools.count(1)
        self._every = EVERY.get(name, 1)
        self._runner = asyncio.Runner()
        self._folder = TemporaryDirectory()
        self._stack = AsyncExitStack()
        opening = Backend(name, Path(self._folder.name)).open()
        self._graph = self._runner.run(self._stack.enter_async_context(opening))

    def teardown(self) -> None:
        try:
            self._runner.run(self._compare())
        finally:
            self._close()

    def _close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()
        self._folder.cleanup()

    @rule(actor=members, batch=st.lists(changes, min_size=1, max_size=6, unique_by=repr), presumed_new=st.booleans())
    def commit(self, actor: int, batch: list[Change], presumed_new: bool = False) -> None:
        if not _consistent(batch):
            return
        made = Batch(shard_of(actor))
        # A wrong presumption must not change the result.
        made.presumed_new = presumed_new
        for change in batch:
            _fill(made, actor, change, AUTHORS)
        made.emit(PostCreated(post_id=1, author_id=actor))
        if self._model.allows(actor, batch):
            self._runner.run(self._graph.commit(made))
            self._model.apply(actor, batch)
        else:
            with pytest.raises(Conflict):
                self._runner.run(self._graph.commit(made))

    @rule(id1=members, atype=types, id2=ends, time=times, data=few_bytes, alive=st.booleans())
    def act(self, id1: int, atype: AssocType, id2: int, time: int, data: bytes, alive: bool) -> None:
        kind = Begin if alive else End
        self.commit(id1, [kind(atype.number, id2, time, data)])

    @rule(id2=st.sampled_from(list(AUTHORS)), id1=members, time=times, data=few_bytes, alive=st.booleans())
    def repair(self, id1: int, id2: int, time: int, data: bytes, alive: bool) -> None:
        batch = Batch(shard_of(id2))
        batch.put(AssocOp(id2, LIKED_BY.number, id1, moment(time), alive, data, aggregate_id=AUTHORS[id2], plain=True))
        self._runner.run(self._graph.commit(batch))
        self._model.hear(id2, LIKED_BY.number, id1, Stored(moment(time), data, alive))

    @rule(time=times)
    def sweep(self, time: int) -> None:
        swept = self._runner.run(self._graph.sweep(moment(time), 0))
        dead = [
            triple
            for triple, link in self._model.links.items()
            if not link.alive and link.time < moment(time) and triple[1] not in WITH_HISTORY
        ]
        for triple in dead:
            del self._model.links[triple]
        assert swept == len(dead)

    @rule(time=times)
    def sweep_history(self, time: int) -> None:
        # The contract does not define how two rows divide a history, so the expected deletions are read from the rows.
        rows = self._runner.run(all_links(self._graph))
        left = [row for row in rows if row.alive or row.atype not in WITH_HISTORY or row.time >= moment(time)]
        assert self._runner.run(self._graph.sweep_history(moment(time))) == len(rows) - len(left)
        self._model.moments = _histories(left)
        there = {row[:3] for row in left}
        self._model.links = {triple: link for triple, link in self._model.links.items() if triple in there}

    @rule(limit=st.integers(1, 4))
    def work(self, limit: int) -> None:
        jobs = self._runner.run(self._graph.claim(limit, 3600))
        assert len(jobs) <= limit
        self._runner.run(self._graph.ack(jobs))
        given = [job for job in jobs if isinstance(job.event, PostCreated)]
        assert len(given) == len(jobs), "the inverse was applied immediately and must not be pending"
        self._model.events -= len(given)

    @rule(id1=ends, atype=st.sampled_from(TYPES_AND_INVERSES), before=times, after=times, limit=st.integers(0, 4))
    def page(self, id1: int, atype: AssocType, before: int, after: int, limit: int) -> None:
        whole = [entry for entry in self._model.listed(id1, atype.number) if moment(after) < entry[0] < moment(before)]
        at = Cursor(moment(before), moment(after), limit)
        newest = self._runner.run(self._graph.assoc_range(id1, atype, at))
        oldest = self._runner.run(self._graph.assoc_range(id1, atype, at._replace(oldest_first=True)))
        assert [(entry.time, entry.id2) for entry in newest] == whole[:limit]
        assert [entry.time for entry in oldest] == [time for time, _ in whole[::-1][:limit]]

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        if next(self._steps) % self._every == 0:
            self._runner.run(self._compare())

    async def _compare(self) -> None:
        graph, model = self._graph, self._model
        assert {node.id: node.version for node in await all_objects(graph)} == model.versions
        rows = await all_links(graph)
        assert {row[:3]: _stored(row) for row in rows if row.atype not in ASIDE} == {
            triple: _stored(AssocRow(*triple, link.time, link.alive, link.data)) for triple, link in model.links.items()
        }
        assert _histories(rows) == model.moments
        counts = model.counts()
        assert {(id1, atype): n for id1, atype, n in await all_counts(graph)} == counts
        answered = await graph.assoc_count(ENDS, TYPES_AND_INVERSES)
        assert {(id1, atype.number): n for atype, part in answered.items() for id1, n in part.items()} == counts
        for atype in TYPES_AND_INVERSES:
            pages = await graph.assoc_ranges(ENDS, atype, Cursor(limit=50))
            assert {id1: sorted(ids_of(page)) for id1, page in pages.items()} == {
                id1: sorted(id2 for _, id2 in whole) for id1 in ENDS if (whole := model.listed(id1, atype.number))
            }
            assert all([entry.time for entry in page] == _newest_first(page) for page in pages.values())
        keys = {Key(shard_of(actor), f"space{actor}", name): (actor, name) for actor in MEMBERS for name in "ab"}
        held = {key: model.holder(*pair) for key, pair in keys.items()}
        assert await graph.key_get(list(keys)) == {key: owner for key, owner in held.items() if owner}


def _stored(row: AssocRow) -> Stored:
    """The row without the history of a tombstone."""
    data = b"" if row.atype in WITH_HISTORY and not row.alive else row.data
    return Stored(row.time, data, row.alive)


def _histories(rows: list[AssocRow]) -> dict[tuple[int, int, int], set[int]]:
    """The complete history of each association that has one, from all its rows."""
    told: dict[tuple[int, int, int], set[int]] = {}
    for row in rows:
        atype = ASIDE.get(row.atype, row.atype)
        if atype in ASIDE.values():
            known = {row.time} if row.alive else moments_until(row.time, row.data)
            told.setdefault((row.id1, atype, row.id2), set()).update(known)
    return told


def _newest_first(page: list[Assoc]) -> list[int]:
    return sorted((entry.time for entry in page), reverse=True)


def _consistent(batch: list[Change]) -> bool:
    """Whether the batch changes each object and key at most once: the contract does not define repeated changes."""
    things = [change[0] for change in batch if isinstance(change, Add | Replace | Delete | Expect | Reserve | GiveUp)]
    return len(things) == len(set(things))


@pytest.mark.parametrize("name", BACKENDS)
def test_graph_random_commits_match_reference_model(name: str) -> None:
    started(name)
    machine = cast("type[GraphMachine]", partial(GraphMachine, name))
    stories = FEWER.get(name, settings().max_examples)
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=25, max_examples=stories))
