"""The cost of moderation rules: a post with and without armed rules, the check alone, dry runs and bulk previews.

Members create posts of about 90 characters with a link, in memory. Half of the rules have 20 words and phrases each. The others
have 20 domains, a number of links, new members, bursts, and pictures like those of 1,000 hidden posts. No rule matches. Processor
time is that of the whole process without consumers, the minimum of several rounds, in which the numbers of rules take turns. A
dry run and a bulk preview read all posts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import uvloop

from benchmarks.measure import Report, parser
from shoal.admin.bulk_moderation import preview
from shoal.app import process
from shoal.app.network import Network, open_network
from shoal.commands import members, posts
from shoal.commands.posts import Draft
from shoal.core.blurhash import DIGITS
from shoal.core.bulk_moderation import BulkQuery
from shoal.core.moderation_rules import CompiledRules, Conditions, Rule, RuleState, decision
from shoal.core.publishing import Candidate, Checks, Decision, MediaFacts
from shoal.queries.moderation_rules import dry_run
from shoal.settings import Settings

_TEXT = "Low tide at harbor wall {}: the boats lie on the sand and wait https://harbor.example/{}"
_RULES = (0, 1, 10, 100)
_PICTURES = 1_000


def rules(count: int, rng: random.Random) -> list[Rule]:
    kinds = [
        Conditions(domains=tuple(f"casino{rng.randrange(10**6)}.example" for _ in range(20))),
        Conditions(more_links_than=5),
        Conditions(younger_than_days=1, words=("casino",)),
        Conditions(more_posts_than=100, words=("casino",)),
        Conditions(like_removed="similar"),
    ]
    return [
        Rule(
            id=at + 1,
            name="Rule",
            action="hold",
            state=RuleState.ARMED,
            conditions=kinds[at % 10]
            if at % 10 < len(kinds)
            else Conditions(words=tuple(f"spam{rng.randrange(10**6)} now" for _ in range(20))),
        )
        for at in range(count)
    ]


def pictures(rng: random.Random) -> list[str]:
    return ["LU" + "".join(rng.choices(DIGITS, k=26)) for _ in range(_PICTURES)]


@contextmanager
def timed(into: dict[int, float], key: int) -> Iterator[None]:
    began = time.process_time()
    yield
    into[key] = min(into.get(key, float("inf")), time.process_time() - began)


async def measure(report: Report, count: int, rounds: int) -> None:
    process.prepare()
    async with open_network(Settings(store="memory://"), background=False) as network:
        process.settle()
        rng = random.Random(5)
        hidden = pictures(rng)
        # The servers read the pictures of hidden posts only for rules that compare them.
        compiled = {count: CompiledRules(rules(count, rng), hidden if count >= 10 else ()) for count in _RULES}
        await of_posts(report, network, compiled, count, rounds)
        of_checks(report, compiled, hidden, rng, count)
        await of_searches(report, network, list(compiled[10].rules))


async def of_posts(
    report: Report, network: Network, compiled: dict[int, CompiledRules], count: int, rounds: int
) -> None:
    authors = [(await members.register(network.writes, f"member{at}", password=None)).id for at in range(count)]
    asked = 0
    took: dict[int, float] = {}
    for round_ in range(rounds):
        for number, found in compiled.items():

            async def check(candidate: Candidate, rules: CompiledRules = found) -> Decision:
                nonlocal asked
                asked += 1
                return decision(rules.matching(candidate, time.time()))

            writes = replace(network.writes, checks=Checks(rules=[check] if number else []))
            with timed(took, number):
                for at, author in enumerate(authors):
                    await posts.create(writes, author, Draft(text=_TEXT.format(round_, at)))
    for number, seconds in took.items():
        report.add(f"a post, {number} rules", seconds / count * 1e6, "us")
    report.check("checks of posts", asked, (len(_RULES) - 1) * rounds * count)


def of_checks(
    report: Report, compiled: dict[int, CompiledRules], hidden: list[str], rng: random.Random, count: int
) -> None:
    """Measure the checks of texts of different lengths, and of four pictures."""
    words = [f"word{rng.randrange(10**4)}" for _ in range(5_000)]
    files = tuple(MediaFacts(id=at, kind="image", blurhash=blurhash) for at, blurhash in enumerate(pictures(rng)[:4]))
    took: dict[int, float] = {}
    for name, length, media in (("500 characters", 500, ()), ("5,000 characters", 5_000, ()), ("4 pictures", 0, files)):
        text = " ".join(words)[:length]
        candidate = Candidate(
            kind="post", member_id=1, member_name="ann", member_created_at=0.0, member_posts=1, text=text, media=media
        )
        for number in _RULES[1:]:
            with timed(took, number):
                for _ in range(count):
                    compiled[number].matching(candidate, time.time())
            report.add(f"a check of {name}, {number} rules", took.pop(number) / count * 1e6, "us")
    report.check("known pictures", sum(compiled[10]._removed.has(each, "same") for each in hidden), _PICTURES)


async def of_searches(report: Report, network: Network, armed: list[Rule]) -> None:
    began = time.process_time()
    found = await dry_run(network.store, armed, 90, network.writes.new_id.now())
    report.add("a dry run of 10 rules", found.posts / (time.process_time() - began), "posts/s")
    began = time.process_time()
    shown = await preview(network.store, network.writes, BulkQuery(words=("casino",)), "hide")
    report.add("a bulk preview", shown.action.read / (time.process_time() - began), "posts/s")
    report.check("posts of the dry run and the preview", found.posts, shown.action.read)


def main() -> None:
    options = parser(__doc__, quick={"posts": 500, "rounds": 3}, smallest={"posts": 20, "rounds": 1})
    options.add_argument("--posts", type=int, default=2_000, help="number of posts in a round")
    options.add_argument("--rounds", type=int, default=7, help="number of rounds")
    chosen = options.parse_args()
    report = Report("rule_costs", chosen.size)
    uvloop.run(measure(report, chosen.posts, chosen.rounds))
    report.show()


if __name__ == "__main__":
    main()
