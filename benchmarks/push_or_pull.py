"""Push or pull: the cost of home timelines under six rules, in the real graph, computed from measured costs.

Members post once and read five times a day on average, distributed by Zipf's law. Activity is either correlated with the graph
(members with many followers post the most, and members who follow many read the most) or independent of it. The costs of a
delivery and of a pull are those of the included calibration. With p posts a day by an author, r reads a day by a reader, and
costs H of a delivery and L of a pull:

- all push costs p H for each follow, all pull r L;
- a threshold pulls authors with more followers than that, for all their readers; the cheapest threshold is used;
- by author, or by reader, the cheaper way is used for all follows of each;
- by follow, the cheaper way is used for each (Silberstein et al., "Feeding Frenzy", SIGMOD 2010): no rule costs less.

`raw engine` is push for all posts, and the ratio compares a rule with it. The costs of pages and posts, which are equal under
every rule, are omitted; the last figure of each case is the saving of the best rule as a fraction of all costs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.measure import REAL_DATA, Report, parser
from benchmarks.stores import Ints, numbered, power_law, real_graph
from shoal_planner.calibration import Calibration, shipped

Floats = npt.NDArray[np.float64]

POSTS_A_DAY, LOOKS_A_DAY = 1.0, 5.0
EXPONENTS = (0.6, 0.8, 1.0)
_RELATED = 0.5
"""Standard deviation of the log-normal noise that separates the order by activity from that by degree."""
_ROUNDING = 1.0 + 1e-9


class Costs(NamedTuple):
    """Seconds of one core for a delivery and a pulled list, and for a post and a page."""

    delivery: float
    pull: float
    post: float
    page: float


class Follows(NamedTuple):
    """A graph: who follows whom, as positions, and numbers of followers and followees of each member."""

    reader: Ints
    author: Ints
    followers: Ints
    followees: Ints

    @classmethod
    def of(cls, follows: Ints, members: int) -> Follows:
        reader, author = follows[:, 0], follows[:, 1]
        return cls(reader, author, np.bincount(author, minlength=members), np.bincount(reader, minlength=members))


def zipf(order: Ints, exponent: float, mean: float, random: np.random.Generator, *, related: bool) -> Floats:
    """Return the actions per day of each member by Zipf's law, ranked roughly by these numbers or at random."""
    noise = random.standard_normal(len(order))
    score = np.log1p(order) + _RELATED * noise if related else noise
    rank = np.empty(len(order))
    rank[np.argsort(-score, kind="stable")] = np.arange(1, len(order) + 1)
    often = rank**-exponent
    return np.asarray(often / often.mean() * mean)


def costs_of(calibration: Calibration) -> dict[str, Costs]:
    """Return the costs in one process, and in several including all engines that they use."""
    one, of = calibration.one_process, calibration.shared
    return {
        "one process": Costs(one.delivery_far, one.pull, one.post + one.store + one.job, one.request + one.page_fresh),
        "several processes": Costs(
            of.worker_delivery + of.redis_delivery,
            of.web_pull,
            of.web_request + of.web_post + of.worker_job + of.store_post + of.redis_post + of.broker_job,
            of.web_request + of.web_page_fresh + of.store_page_fresh + of.redis_page_fresh,
        ),
    }


def rules(graph: Follows, posts: Floats, looks: Floats, costs: Costs) -> dict[str, float]:
    """Return the seconds of one core per day that each rule costs."""
    members = len(graph.followers)
    push, pull = posts[graph.author] * costs.delivery, looks[graph.reader] * costs.pull
    by_author = [np.bincount(graph.author, weights, members) for weights in (push, pull)]
    by_reader = [np.bincount(graph.reader, weights, members) for weights in (push, pull)]
    # Pull from the most followed author down: cumulative costs of both ways, and the cheapest threshold.
    order = np.argsort(-graph.followers, kind="stable")
    pushed, pulled = (np.concatenate(([0.0], np.cumsum(one[order]))) for one in by_author)
    # Two authors with equal numbers of followers cannot be separated by a threshold.
    between = np.flatnonzero(np.diff(graph.followers[order], prepend=-1, append=-1))
    return {
        "all push": float(push.sum()),
        "all pull": float(pull.sum()),
        "the best threshold": float((pulled + pushed[-1] - pushed)[between].min()),
        "by author": float(np.minimum(*by_author).sum()),
        "by reader": float(np.minimum(*by_reader).sum()),
        "by follow": float(np.minimum(push, pull).sum()),
    }


def tell(report: Report, graph: Follows, calibration: Calibration) -> None:
    """Compare the rules in both shapes, for each exponent, with and without correlation to the graph."""
    for shape, costs in costs_of(calibration).items():
        report.add(f"{shape}: a pull, in deliveries", costs.pull / costs.delivery)
        for related in (True, False):
            for exponent in EXPONENTS:
                random = np.random.default_rng(1)
                posts = zipf(graph.followers, exponent, POSTS_A_DAY, random, related=related)
                looks = zipf(graph.followees, exponent, LOOKS_A_DAY, random, related=related)
                found = rules(graph, posts, looks, costs)
                who = "popular most active" if related else "whoever it is"
                name = f"{shape}, {who}, Zipf {exponent}"
                for rule, seconds in found.items():
                    report.add(f"{name}: {rule}", seconds, "s", raw=found["all push"])
                everything = found["all push"] + float(posts.sum() * costs.post + looks.sum() * costs.page)
                report.add(
                    f"{name}: saved of everything, by follow",
                    (found["all push"] - found["by follow"]) / everything * 100,
                    "%",
                )
                _check(report, name, found, posts, graph, costs)


def _check(report: Report, name: str, found: dict[str, float], posts: Floats, graph: Follows, costs: Costs) -> None:
    """Check that no rule is cheaper than the choice per follow, and that every delivery was counted."""
    report.check(f"{name}: rules that cost less than by follow", _less(found, "by follow", tuple(found)), 0)
    dearer = _less(found, "by author", ("all push", "all pull", "the best threshold"))
    report.check(f"{name}: rules of authors that cost less than by author", dearer, 0)
    deliveries = found["all push"] / costs.delivery / float(posts @ graph.followers)
    report.check(f"{name}: deliveries, over posts times followers", round(deliveries, 6), 1)


def _less(found: dict[str, float], one: str, others: tuple[str, ...]) -> int:
    return sum(found[other] * _ROUNDING < found[one] for other in others)


def main() -> None:
    options = parser(__doc__, quick={"members": 5_000}, smallest={"members": 400})
    options.add_argument(
        "--data", type=Path, default=REAL_DATA, help="directory that contains graph/nodes.csv and graph/edges.csv"
    )
    options.add_argument(
        "--members", type=int, default=0, help="number of members of a generated network; 0: use the network in --data"
    )
    chosen: argparse.Namespace = options.parse_args()
    made_up = chosen.members
    names, follows = (numbered(made_up), power_law(made_up, 10 * made_up)) if made_up else real_graph(chosen.data)
    report = Report("push_or_pull", chosen.size)
    report.add("members", len(names))
    report.add("follows", len(follows))
    tell(report, Follows.of(follows, len(names)), shipped())
    report.show()


if __name__ == "__main__":
    main()
