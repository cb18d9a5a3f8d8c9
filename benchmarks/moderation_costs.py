"""The cost of a post with a moderation hook, on SQLite: without a hook, with a callable, and with a URL.

Both hooks allow everything. The URL is that of a bare server with TLS in another process. The three networks take turns, and the
figures are medians of the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from benchmarks.child import tls_service
from benchmarks.measure import Report, parser, workplace
from benchmarks.post_costs import Part, posted
from benchmarks.stores import url_of
from shoal.app import process
from shoal.app.network import Network, open_network
from shoal.core.publishing import ALLOW, Candidate, Decision
from shoal.library import Shoal
from shoal.moderation_hook import CONCURRENT
from shoal.settings import Settings

_SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="  # of a server that does not check it
_AUTHORS = 64
_PART = Part("a post")


async def _allow(_candidate: Candidate) -> Decision:
    return ALLOW


async def measure(place: Path, url: str, posts: int, rounds: int, report: Report) -> None:
    process.prepare()
    memory = "memory://"
    hook = {"moderation_hook": url, "moderation_hook_secret": _SECRET, "outgoing_networks": ("127.0.0.0/8",)}
    spent: dict[str, list[tuple[float, float]]] = {}
    networks: dict[str, tuple[Network, Sequence[int]]] = {}
    async with AsyncExitStack() as stack:
        for number, kind in enumerate(("no hook", "a callable", "a URL")):
            settings = Settings(
                store=url_of(place / f"{number}.db"),
                media=memory,
                search=memory,
                tags=memory,
                most_behind_seconds=0,
                moderation_hook_ms=10_000,
                **(hook if kind == "a URL" else {}),  # type: ignore[arg-type]  # the values of several settings
            )
            check = _allow if kind == "a callable" else None
            network = await stack.enter_async_context(open_network(settings, moderation=check))
            shoal = Shoal(network)
            networks[kind] = network, [(await shoal.register(f"a{author}")).id for author in range(_AUTHORS)]
            spent[kind] = []
        process.settle()
        of_round = posts // rounds
        of_single = max(1, of_round // 10)
        for _ in range(rounds):
            for kind, (network, authors) in networks.items():
                order = (list(authors) * (of_round // _AUTHORS + 1))[:of_round]
                cpu = time.process_time()
                await posted(network, order, _PART, (), CONCURRENT)
                cpu = (time.process_time() - cpu) / len(order)
                began = time.perf_counter()
                await posted(network, order[:of_single], _PART, (), 1)
                spent[kind].append((cpu, (time.perf_counter() - began) / of_single))
        each = (of_round + of_single) * rounds
        for kind, (network, _) in networks.items():
            cpu, seconds = (statistics.median(values) for values in zip(*spent[kind], strict=True))
            report.add(f"{kind}: processor time per post", cpu * 1e6, "us")
            report.add(f"{kind}: time per post of a single writer", seconds * 1e6, "us")
            if network.moderation_hook is not None:
                report.check(f"{kind}: posts that it allowed", network.moderation_hook.outcomes["allow"], each)


def main() -> None:
    options = parser(__doc__, quick={"posts": 3_000, "rounds": 5}, smallest={"posts": 128, "rounds": 1})
    options.add_argument("--posts", type=int, default=10_000, help="number of posts of each network")
    options.add_argument("--rounds", type=int, default=10, help="number of rounds")
    chosen = options.parse_args()
    report = Report("moderation_costs", chosen.size)
    with workplace(None) as place, tls_service(place, "hook") as url:
        uvloop.run(measure(place, url, chosen.posts, chosen.rounds, report))
    report.show()


if __name__ == "__main__":
    main()
