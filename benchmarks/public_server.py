"""Costs of a public server: home pages compared with those of a minimal server, and messages of web push.

Two `shoal serve` have equal networks. One has mail, metrics and web push set up; the other has none of them. Both serve home
pages of all members in alternating rounds. `raw engine` is the processor time per page of the minimal server, the median of all
rounds. The other figure is the median difference of adjacent rounds, so that changes of the machine's speed cancel out.

Then members like posts of a member with a subscription at a push service with TLS, in another process. `raw engine` is a like
without a subscription. Bare requests of equal size use eight connections, as messages do.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network
from pathlib import Path

import httpcore
import uvloop
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.child import Child, serving, tls_service
from benchmarks.http_client import load, until
from benchmarks.http_load import homes, is_page
from benchmarks.logins import mail_server, timed
from benchmarks.measure import Report, parser, process_cpu, spread
from benchmarks.network import Shape, build
from benchmarks.stores import url_of
from shoal.app import process
from shoal.app.network import Network, open_network
from shoal.commands import members, oauth, posts, push_subscriptions, reactions
from shoal.commands.posts import Draft
from shoal.core.model import Member
from shoal.graph.payloads.notifications import Kind
from shoal.outgoing import open_pool
from shoal.push.encryption import new_key, public_bytes
from shoal.push.messages import PushSubscription
from shoal.settings import Settings
from shoal_devcluster.program import free_port

_BODY = bytes(450)
"""About the size of an encrypted message."""
_LOOPBACK = "127.0.0.0/8"


@asynccontextmanager
async def _serving(store: Path, environ: dict[str, str]) -> AsyncIterator[Child]:
    port = free_port()
    command = [sys.executable, "-m", "shoal.cli", "--store", url_of(store), "serve", "--port", str(port)]
    shared = {"SHOAL_RATE_LIMITS": "false", "SHOAL_MEDIA": "memory://"}
    async with serving(command, port, "/health", {**shared, **environ}) as child:
        yield child


async def homes_of_both(folder: Path, circle: int, rounds: int, seconds: float, mail: str, report: Report) -> None:
    """Serve the network twice, and request home pages of both in turn."""
    plain, public = folder / "plain.db", folder / "public.db"
    keys = await build(plain, Shape.of(circle))
    public.write_bytes(plain.read_bytes())
    everything = {
        "SHOAL_MAIL": mail,
        "SHOAL_PUSH_KEY": new_key(),
        "SHOAL_METRICS_PORT": str(free_port()),
        "SHOAL_INVITATIONS": "members",
        "SHOAL_SIGNUP_WORK": "8",
        "SHOAL_STAFF_SECOND_FACTOR": "true",
    }
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(_serving(plain, {}))]
        both.append(await stack.enter_async_context(_serving(public, everything)))
        wanted = [homes(child.server, keys.all) for child in both]
        costs: list[list[float]] = [[], []]
        wrong = 0
        for child, pages in zip(both, wanted, strict=True):
            wrong += (await load(child.server, itertools.islice(pages, len(keys.all)), is_page, 8)).wrong.total()
        for number in range(2 * rounds):
            # Measure the two servers in the order A B B A, so that neither of them always runs on the warmer processor.
            which = (number + 1) // 2 % 2
            before = process_cpu(both[which].pid)
            outcome = await load(both[which].server, until(wanted[which], seconds), is_page, 8)
            costs[which].append((process_cpu(both[which].pid) - before) / outcome.right)
            wrong += outcome.wrong.total()
    plain_cost = spread(costs[0]).median * 1e6
    ratios = [other / one for one, other in zip(*costs, strict=True)]
    report.add("a home page: processor time", plain_cost * spread(ratios).median, "us", raw=plain_cost)
    report.check("home pages that were wrong", wrong, 0)


async def pushing(folder: Path, acts: int, report: Report) -> None:
    """Like posts of a subscribed member and of one without a subscription."""
    process.prepare()
    memory = "memory://"
    store = url_of(folder / "push.db")
    settings = Settings(
        store=store, media=memory, search=memory, tags=memory, push_key=new_key(), push_networks=(_LOOPBACK,)
    )
    with tls_service(folder, "push") as url:
        async with open_network(settings) as network:
            await _messages(network, url, acts, report)


async def _messages(network: Network, url: str, acts: int, report: Report) -> None:
    writes, push_sender = network.writes, network.effects.push_sender
    assert push_sender is not None
    await _bare_rate(url, 8)
    silent, told = [await members.register(writes, name) for name in ("silent", "told")]
    fans = [await members.register(writes, f"fan{number}") for number in range(acts)]
    await _subscribe(network, told, url)
    made = {
        one.id: [(await posts.create(writes, one.id, Draft(text="Low tide"))).id for _ in range(2)]
        for one in (silent, told)
    }
    await network.settle(300)

    async def like(author: Member, number: int) -> None:
        await reactions.like(writes, fans[number].id, made[author.id][0])
        await network.runner.drain()

    plain, plain_cpu = await timed(acts, lambda number: like(silent, number))
    median, cpu = await timed(acts, lambda number: like(told, number))
    report.add("a like, until its message is accepted, median", median, "ms", raw=plain)
    report.add("a like with its message: processor time", cpu, "ms", raw=plain_cpu)
    rate, plain_rate = [await _rate(network, fans, made[one.id][1]) for one in (told, silent)]
    report.add("likes at once with their messages", rate, "1/s", raw=plain_rate)
    report.add("bare requests of that size", await _bare_rate(url, acts), "1/s")
    report.check("messages taken", sum(push_sender.outcomes.values()), 2 * acts)
    report.check("messages put off", push_sender.put_off, 0)


async def _rate(network: Network, fans: Sequence[Member], post: int) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(reactions.like(network.writes, fan.id, post) for fan in fans))
    await network.settle(300)
    return len(fans) / (time.perf_counter() - began)


async def _subscribe(network: Network, member: Member, url: str) -> None:
    app = await oauth.register(network.writes, "Phone", scopes=("read", "push"))
    made = await oauth.issue_token(network.writes, app.app.id, member.id, ("read", "push"))
    key = public_bytes(ec.generate_private_key(ec.SECP256R1()).public_key())
    assert network.server_key is not None
    sealed = network.server_key.seal(made.text)
    wanted = PushSubscription(f"{url}/phone", key, bytes(16), alerts=(str(Kind.LIKE),), sealed=sealed)
    await push_subscriptions.subscribe(network.writes, member.id, made.token.id, wanted)


async def _bare_rate(url: str, acts: int) -> float:
    """Return the requests per second that the push service handles, eight concurrently, after it has started."""
    async with open_pool([ip_network(_LOOPBACK)]) as pool:

        async def send() -> None:
            assert (await pool.request("POST", f"{url}/phone", content=_BODY)).status == 201

        until_there = time.monotonic() + 30
        while True:
            try:
                await send()
                break
            except httpcore.ConnectError:
                if time.monotonic() > until_there:
                    raise
                await asyncio.sleep(0.05)

        async def some() -> None:
            for _ in range(acts // 8 + 1):
                await send()

        began = time.perf_counter()
        await asyncio.gather(*(some() for _ in range(8)))
        return 8 * (acts // 8 + 1) / (time.perf_counter() - began)


async def run(folder: Path, chosen: argparse.Namespace, mail: str, report: Report) -> None:
    await pushing(folder, chosen.acts, report)
    await homes_of_both(folder, chosen.circle, chosen.rounds, chosen.seconds, mail, report)


def main() -> None:
    options = parser(
        __doc__,
        quick={"circle": 200, "rounds": 6, "acts": 200},
        smallest={"circle": 100, "rounds": 1, "seconds": 0.2, "acts": 10},
    )
    options.add_argument("--circle", type=int, default=1_000, help="number of members whose home pages are read")
    options.add_argument("--rounds", type=int, default=20, help="number of rounds for each server")
    options.add_argument("--seconds", type=float, default=2.0, help="duration of a round in seconds")
    options.add_argument(
        "--acts", type=int, default=1_000, help="number of likes sent to a member with web push, and to one without"
    )
    chosen: argparse.Namespace = options.parse_args()
    report = Report("public_server", chosen.size)
    with tempfile.TemporaryDirectory() as folder, mail_server() as mail:
        uvloop.run(run(Path(folder), chosen, mail, report))
    report.show()


if __name__ == "__main__":
    main()
