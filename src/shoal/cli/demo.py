"""`shoal demo`: a network that looks real, made here, and a server on it."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from pathlib import Path

import click
import msgspec
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shoal.cli.serve import run
from shoal.core.model import Member
from shoal.ops.demo.model import DemoPlan
from shoal.ops.demo.plan import plan
from shoal.ops.enact import Stage
from shoal.services import apps, members
from shoal.services.writes import Writes
from shoal.settings import Settings, build
from shoal.wiring import open_network

PASSWORD = "low-tide-at-dawn"  # noqa: S105  # of made-up people, printed for everybody to use
SCOPES = ("read", "write", "follow")


class Demo(msgspec.Struct):
    """What a demo folder remembers between two runs: the plan's seed and moment, and whether it was carried out."""

    seed: int
    members: int
    days: int
    now_ms: int
    done: bool = False


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, help="Where it is kept."
)
@click.option(
    "--members", "size", default=120, show_default=True, type=click.IntRange(10, 600), help="How many people."
)
@click.option(
    "--days", default=28, show_default=True, type=click.IntRange(1, 90), help="How long they have been at it."
)
@click.option("--seed", default=1, show_default=True, help="Another number, another network.")
@click.option("--port", default=8500, show_default=True, help="Port to serve at; 0 takes a free one.")
@click.option("--fresh", is_flag=True, help="Throw the folder's network away and make it anew.")
@click.option("--no-serve", is_flag=True, help="Make it, print how to log in, and end.")
def demo(folder: Path, size: int, days: int, seed: int, port: int, fresh: bool, no_serve: bool) -> None:
    """Make a network of made-up people who post, and serve it.

    The first time takes about half a minute; the next time the same network is served at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fresh:
        _clear(folder)
    settings = build(store=f"sqlite:///{folder / 'shoal.db'}", port=port, title="Shoal demo", rate_limits=False)
    console = Console(stderr=False)
    state = _state(folder, Demo(seed, size, days, time.time_ns() // 1_000_000))
    written = plan(state.seed, state.members, state.days, now_ms=state.now_ms)
    if not state.done:
        asyncio.run(_make(settings, written, console))
        state.done = True
        _remember(folder, state)
    hero, token = asyncio.run(_log_in(settings, written))
    if no_serve:
        _tell(console, f"http://{settings.host}:{port}", hero, token)
        console.print("Serve it with [bold]shoal demo[/bold].")
        return
    uvloop.run(run(settings, lambda url: _tell(console, url, hero, token)))


async def _make(settings: Settings, written: DemoPlan, console: Console) -> None:
    totals = {
        "members": len(written.people),
        "follows": len(written.follows),
        "posts": len(written.posts),
        "photos": sum(len(post.scenes) for post in written.posts),
        "likes": len(written.likes),
        "shares": len(written.shares),
    }
    bars = Progress(
        TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bars:
        tasks = {noun: bars.add_task(noun, total=total) for noun, total in totals.items()}
        async with open_network(settings) as network:
            await Stage(network.writes, written, PASSWORD, lambda noun: bars.advance(tasks[noun])).run()
            await network.runner.drain()


async def _log_in(settings: Settings, written: DemoPlan) -> tuple[Member, str]:
    """The member with the fullest home, and a token of theirs."""
    follows = Counter(follower for follower, _ in written.follows)
    name = written.people[follows.most_common(1)[0][0]].name
    async with open_network(settings) as network:
        member = await members.log_in(network.writes, name, PASSWORD)
        return member, await _token(network.writes, member)


async def _token(writes: Writes, member: Member) -> str:
    app = await apps.register(writes, "Shoal demo", scopes=SCOPES)
    return (await apps.issue_token(writes, app.app.id, member.id, SCOPES)).text


def _tell(console: Console, url: str, hero: Member, token: str) -> None:
    console.print(f"\n[bold]A live network is at {url}[/bold]\n", highlight=False)
    console.print(f"  look     {url}/@{hero.name}", highlight=False)
    console.print(
        f"  log in   name [bold]{hero.name}[/bold] (or anybody), password [bold]{PASSWORD}[/bold]", highlight=False
    )
    console.print(f"           with any Mastodon client, at {url}\n", highlight=False)
    console.print("  or, as they are, their home:", highlight=False)
    console.print(
        f'  curl -s -H "Authorization: Bearer {token}" "{url}/api/v1/timelines/home?limit=3"\n',
        highlight=False,
        soft_wrap=True,
    )
    console.print("  Ctrl-C stops.", highlight=False)


def _state(folder: Path, new: Demo) -> Demo:
    """The folder's own, where it has one: a network that was begun is finished as it was begun."""
    path = folder / "demo.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Demo)
    _remember(folder, new)
    return new


def _remember(folder: Path, state: Demo) -> None:
    (folder / "demo.json").write_bytes(msgspec.json.encode(state))


def _clear(folder: Path) -> None:
    """Only what a demo makes is removed, whatever folder was named."""
    if not (folder / "demo.json").exists():
        return
    for path in folder.glob("shoal.db*"):
        if path.is_file():
            path.unlink()
    if (folder / "shoal.db.media").exists():
        shutil.rmtree(folder / "shoal.db.media")
    (folder / "demo.json").unlink()
