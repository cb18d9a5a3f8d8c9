"""Suggestions and For you on real data: the fraction of hidden follows and photos that they find.

**People to follow.** A tenth of the mutual follows of the real graph is removed, in both directions, so that following back does
not help. Then suggestions are computed for members who lost some. Recall@k is the fraction of a member's hidden followees among
the first k of all members whom they do not follow, averaged over members. Popularity ranks by followers; common neighbors by
followees who follow the candidate; Adamic-Adar and resource allocation divide each of these by log2(1 + follows) or by follows.
"Ours" is `core.ranking.people` on the data that the feed reads; its raw engine is Adamic-Adar without limits.

Weights are compared on one part of the members (tuned), and everything else is measured on another (tested). For some members,
the library also computes suggestions on SQLite, which must be equal.

**Photos** that members would like: see `benchmarks.masked_photos`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import uvloop

from benchmarks import masked_photos
from benchmarks.measure import REAL_DATA, Report, parser, spread, workplace
from benchmarks.stores import Ints, build, ids_of, numbered, power_law, real_graph, url_of
from shoal import Shoal
from shoal.app import process
from shoal.core.ranking import people
from shoal.core.ranking.people import FOLLOWS_EACH, WEIGHTS, PeopleFacts, PeopleWeights
from shoal.core.ranking.terms import best_first, scores
from shoal.queries.context import ExpiringCache, Reads, Renewed
from shoal.queries.foryou.interests import WEIGHED
from shoal.queries.suggestions import FRIENDS_OF_FRIENDS, POPULAR, suggestions

_DEPTHS = (10, 50)
_HIDDEN = 0.1
_MANY = 300
"""Minimum followees of members for whom the caps matter."""
_OLD_CAP = 100
_SHOWN = 40
_TURNS = 4
"""Number of times that the library computes suggestions for each member. The first is a warm-up."""

Floats = npt.NDArray[np.float64]
Ranking = Callable[[int], Ints]
"""Returns the positions of members suggested to a member, best first. Followed members may be among them."""


@dataclass(frozen=True)
class Split:
    """A graph of mutual follows without the hidden ones. Members are positions; lists are newest first."""

    ids: Ints
    follows: Ints
    hidden: Ints

    @cached_property
    def lists(self) -> list[Ints]:
        return _by_member(self.follows, len(self.ids))

    @cached_property
    def lost(self) -> list[Ints]:
        return _by_member(self.hidden, len(self.ids))

    @cached_property
    def degrees(self) -> Ints:
        return np.array(list(map(len, self.lists)), np.int64)

    @cached_property
    def popular(self) -> Ints:
        """The most followed members, in the form that the feed uses."""
        return np.lexsort((-self.ids, -self.degrees))[:POPULAR]


def _by_member(follows: Ints, members: int) -> list[Ints]:
    newest = follows[::-1]
    order = np.argsort(newest[:, 0], kind="stable")
    return np.split(newest[order, 1], np.searchsorted(newest[order, 0], np.arange(1, members)))


def split(names: Sequence[str], follows: Ints, seed: int) -> Split:
    """Hide a tenth of the mutual follows."""
    pairs = follows[: len(follows) // 2]
    hidden = np.random.default_rng(seed).random(len(pairs)) < _HIDDEN
    both = np.concatenate((hidden, hidden))
    return Split(ids_of(names), follows[~both], follows[both])


def plain(graph: Split, weigh: Callable[[Floats], Floats]) -> Ranking:
    """Rank members by the sum of the weights of the followees who follow them. There is no limit on reads."""
    weights = weigh(np.maximum(graph.degrees, 1).astype(np.float64))

    def ranked(member: int) -> Ints:
        followees = graph.lists[member]
        found = np.concatenate([graph.lists[followee] for followee in followees])
        given = np.repeat(weights[followees], graph.degrees[followees])
        return _first(graph, member, np.bincount(found, given, len(graph.ids)).astype(np.float64))

    return ranked


def popularity(graph: Split) -> Ranking:
    return lambda member: _first(graph, member, graph.degrees.astype(np.float64))


def _first(graph: Split, member: int, scored: Floats) -> Ints:
    left = scored.copy()
    left[graph.lists[member]] = left[member] = -1.0
    best = np.argpartition(-left, min(2 * _DEPTHS[-1], len(left) - 1))[: 2 * _DEPTHS[-1]]
    return best[best_first(left[best], graph.ids[best])]


class Caps(NamedTuple):
    """Limits on reads: the number of newest followees considered, of those queried, and of follows read from each."""

    newest: int = WEIGHED
    choose: Callable[[Sequence[int], dict[int, int]], list[int]] = people.asked
    each: int = FOLLOWS_EACH
    candidates: int = FRIENDS_OF_FRIENDS


AS_THE_FEED = Caps()
OLD = Caps(_OLD_CAP, lambda followees, _: list(followees), _OLD_CAP)
NO_CAP = Caps(10**9, lambda followees, _: list(followees), 10**9, 10**9)


def ours(graph: Split, caps: Caps = AS_THE_FEED, weights: PeopleWeights = WEIGHTS) -> Ranking:
    places = {id_: at for at, id_ in enumerate(graph.ids.tolist())}

    def ranked(member: int) -> Ints:
        followees = graph.lists[member][: caps.newest]
        follows = dict(zip(graph.ids[followees].tolist(), graph.degrees[followees].tolist(), strict=True))
        asked = caps.choose(list(follows), follows)
        own = int(graph.ids[member])
        lists = {id_: graph.ids[graph.lists[places[id_]][: caps.each]].tolist() for id_ in asked}
        found = people.friends_of_friends(
            {id_: [to for to in list_ if to != own] for id_, list_ in lists.items()}, follows
        )
        at = np.array([places[id_] for id_ in found.ids.tolist()], np.int64)
        new = np.isin(at, graph.lists[member], invert=True)
        near, bonds = at[new][: caps.candidates], found.bonds[new][: caps.candidates]
        known = np.concatenate((graph.lists[member], near, [member]))
        popular = graph.popular[np.isin(graph.popular, known, invert=True)]
        candidates = np.concatenate((near, popular))
        nothing = np.zeros(len(candidates))
        facts = PeopleFacts(
            bonds=np.concatenate((bonds, np.zeros(len(popular)))).astype(np.float64),
            followers=graph.degrees[candidates].astype(np.float64),
            follows_you=nothing,
            liked=nothing,
            tags=nothing,
            distance_km=np.full(len(candidates), np.nan),
        )
        scored = scores(people.contributions(people.values(facts, near_km=1.0), weights))
        return candidates[best_first(scored, graph.ids[candidates])]

    return ranked


def recall(graph: Split, ranked: Ranking, members: Iterable[int]) -> tuple[float, float]:
    """Return recall@10 and recall@50."""
    found: list[list[float]] = []
    for member in members:
        best = ranked(member)
        best = best[np.isin(best, graph.lists[member], invert=True) & (best != member)]
        lost = graph.lost[member]
        found.append([np.isin(lost, best[:depth]).mean() for depth in _DEPTHS])
    shallow, deep = np.mean(found, axis=0) if found else (0.0, 0.0)
    return float(shallow), float(deep)


def _tune(report: Report, graph: Split, members: Sequence[int]) -> None:
    for followers in (0.0, 0.3, WEIGHTS.followers, 1.2):
        weights = msgspec.structs.replace(WEIGHTS, followers=followers)
        for depth, value in zip(_DEPTHS, recall(graph, ours(graph, weights=weights), members), strict=True):
            report.add(f"tuned: ours, weight of followers {followers:g}, recall@{depth}", value)
    for name, ranked in _plain(graph).items():
        for depth, value in zip(_DEPTHS, recall(graph, ranked, members), strict=True):
            report.add(f"tuned: {name}, recall@{depth}", value)


def _plain(graph: Split) -> dict[str, Ranking]:
    return {
        "popularity": popularity(graph),
        "common neighbors": plain(graph, lambda degrees: np.ones(len(degrees))),
        "Adamic-Adar": plain(graph, lambda degrees: 1.0 / np.log2(1.0 + degrees)),
        "1 / sqrt(follows)": plain(graph, lambda degrees: 1.0 / np.sqrt(degrees)),
        "resource allocation": plain(graph, lambda degrees: 1.0 / degrees),
    }


def _test(report: Report, graph: Split, members: Sequence[int], connected: Sequence[int]) -> None:
    known = {name: recall(graph, ranked, members) for name, ranked in _plain(graph).items()}
    for name, found in known.items():
        for depth, value in zip(_DEPTHS, found, strict=True):
            report.add(f"{name}, recall@{depth}", value)
    for depth, value, raw in zip(_DEPTHS, recall(graph, ours(graph), members), known["Adamic-Adar"], strict=True):
        report.add(f"ours, recall@{depth}", value, raw=raw)
    for name, caps in (
        ("ours", AS_THE_FEED),
        ("ours, newest 100 followees only", OLD),
        ("ours, without caps", NO_CAP),
    ):
        for of, asked in ((f"{_MANY} followees and more: ", connected), ("", members)):
            if of or caps is not AS_THE_FEED:
                for depth, value in zip(_DEPTHS, recall(graph, ours(graph, caps), asked), strict=True):
                    report.add(f"{of}{name}, recall@{depth}", value)


def _forgetful(reads: Reads, popular: list[int]) -> Reads:
    fresh = replace(
        reads, suggested=ExpiringCache(), interests=ExpiringCache(), near=ExpiringCache(), popular=Renewed()
    )
    fresh.popular.keep(popular, reads.tags.clock())
    return fresh


async def _on_sqlite(report: Report, path: Path, graph: Split, members: Sequence[int]) -> None:
    """Check that the library suggests these members, and measure the time in a process configured like a server."""
    popular = graph.ids[graph.popular].tolist()
    spent: list[float] = []
    found: dict[int, list[int]] = {}
    async with Shoal.open(url_of(path), media="memory://") as shoal:
        await shoal.settle()
        process.settle()
        for turn in range(_TURNS):
            for member in members:
                reads = _forgetful(shoal.network.reads, popular)
                began = time.process_time()
                shown = await suggestions(reads, int(graph.ids[member]), _SHOWN)
                if turn:
                    spent.append(time.process_time() - began)
                found[member] = [one.profile.member.id for one in shown]
    ranked = ours(graph)
    other = sum(found[member] != graph.ids[ranked(member)[:_SHOWN]].tolist() for member in members)
    taken = spread(spent)
    report.add("suggestions for a member with 500 followees: processor time, median", taken.median * 1e3, "ms")
    report.add("suggestions for a member with 500 followees: processor time, p90", taken.p90 * 1e3, "ms")
    report.check("members to whom the library suggests others", other, 0)


def main() -> None:
    options = parser(
        __doc__,
        quick={"tuned": 300, "tested": 600, "timed": 20},
        smallest={"members": 400, "tuned": 20, "tested": 40, "timed": 5, "viewers": 20, "liking": 2},
    )
    options.add_argument(
        "--members", type=int, default=0, help="number of members of a generated network; 0: use the real follow graph"
    )
    options.add_argument(
        "--tuned", type=int, default=1_500, help="number of members whose suggestions are used to choose the weights"
    )
    options.add_argument(
        "--tested",
        type=int,
        default=6_000,
        help="number of further members, whose suggestions are measured with the chosen weights",
    )
    options.add_argument(
        "--timed",
        type=int,
        default=50,
        help="number of members with about 500 followees whose feeds are timed on SQLite",
    )
    options.add_argument(
        "--viewers",
        type=int,
        default=1_000,
        help="maximum number of authors who serve as viewers of recommended photos",
    )
    options.add_argument(
        "--liking", type=int, default=10, help="number of members who also like photos by calling the Python library"
    )
    options.add_argument("--seed", type=int, default=5, help="random seed")
    chosen = options.parse_args()
    report = Report("discovery_quality", chosen.size)
    made_up = numbered(chosen.members), power_law(chosen.members or 1, 10 * chosen.members or 1)
    names, follows = made_up if chosen.members else real_graph(REAL_DATA)
    graph = split(names, follows, chosen.seed)
    lost = np.array(list(map(len, graph.lost)))
    members = np.random.default_rng(chosen.seed).permutation(np.flatnonzero((lost > 0) & (graph.degrees > 0))).tolist()
    tuned, rest = members[: chosen.tuned], members[chosen.tuned :]
    tested = rest[: chosen.tested]
    connected = [member for member in rest if graph.degrees[member] >= _MANY][: chosen.tested // 10]
    report.add("hidden follows", len(graph.hidden), "follows")
    report.add("members used to compare weights", len(tuned), "members")
    report.add("members used for the measurement", len(tested), "members")
    _tune(report, graph, tuned)
    _test(report, graph, tested, connected)
    with workplace(None) as folder:
        path = folder / "shoal.db"
        build(path, names, graph.follows, np.empty(0, np.int64))
        timed = np.argsort(np.abs(graph.degrees - 500), kind="stable")[: chosen.timed].tolist()
        uvloop.run(_on_sqlite(report, path, graph, timed))
    report.check("members who were tuned on and tested too", len(set(tuned) & {*tested, *connected}), 0)
    still = sum(bool(np.isin(graph.lost[member], graph.lists[member]).any()) for member in (*tuned, *tested))
    report.check("members who still follow a hidden member", still, 0)
    if masked_photos.are_in(REAL_DATA):
        masked_photos.measure(report, REAL_DATA, chosen.seed, chosen.viewers, chosen.liking)
    else:
        print(f"{REAL_DATA} is absent: masked photos are not ranked")
    report.show()


if __name__ == "__main__":
    main()
