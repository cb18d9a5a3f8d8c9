"""`shoal demo`: create a demo network in a folder and serve it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
import msgspec
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shoal import private_files
from shoal.app.network import open_network
from shoal.cli.serve import check_address, run
from shoal.commands import members, oauth
from shoal.commands.context import Writes
from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.model import Member
from shoal.mastodon_api.context import PhotoCredit
from shoal.media.decoder import Decoder
from shoal.settings import Settings, build
from shoal_demo.model import DemoPlan
from shoal_demo.photos import photos
from shoal_demo.plan import plan
from shoal_demo.populate import Stage

STORE = "shoal.db"
_MEMORY = "demo.json"
_PLAN = 3
"""The version of the plan. Change it with every change to the plan that a seed produces."""


class Demo(msgspec.Struct):
    seed: int
    members: int
    days: int
    now_ms: int
    done: bool = False
    plan: int = 1


def recall(folder: Path) -> Demo | None:
    """Return the saved state of a demo folder, or None for a folder without a network.

    Raises `InvalidInput` if the network is not a demo or was made by another version of Shoal, or if the state cannot be read.
    """
    path = folder / _MEMORY
    if not path.exists():
        if (folder / STORE).exists():
            raise InvalidInput(f"{folder / STORE} is not a demo: name another folder with --folder")
        return None
    try:
        state = msgspec.json.decode(path.read_bytes(), type=Demo)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"cannot read {path}: create a new network with --fresh") from error
    if state.plan != _PLAN:
        raise InvalidInput(f"{folder} has the demo of another version of Shoal: create a new network with --fresh")
    return state


def remember(folder: Path, state: Demo) -> None:
    begun = folder / f"{_MEMORY}.part"
    private_files.write(begun, msgspec.json.encode(state))
    begun.replace(folder / _MEMORY)


def clear(folder: Path) -> None:
    """Delete the files of a demo, and no other files. Raises `Unavailable` while the demo is served."""
    if not (folder / _MEMORY).exists():
        return
    with _owned(folder):
        for path in folder.glob(f"{STORE}*"):
            # Do not delete the lock file: a process that waits for the deleted file, and a process that creates a new
            # one, could both own the store.
            if path.is_file() and path.name != f"{STORE}-lock":
                path.unlink()
        if (folder / f"{STORE}.media").exists():
            shutil.rmtree(folder / f"{STORE}.media")
        (folder / _MEMORY).unlink()


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Hold the store's lock without opening the store, which may be damaged or of another version."""
    lock = private_files.open_file(folder / f"{STORE}-lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Unavailable(f"a server is using the network in {folder}: stop it first") from error
    finally:
        os.close(lock)


PASSWORD = "low-tide-at-dawn"  # noqa: S105  # public: the password of the demo's members
SCOPES = ("read", "write", "follow")
DESCRIPTION = "A demo network. Its members are fictional; its photographs are real."
LICENSES = {"CC0 1.0": "https://creativecommons.org/publicdomain/zero/1.0/"}


_DEFAULTS = {"members": 60, "days": 28, "seed": 1}


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, help="Folder of the network."
)
@click.option("--members", type=click.IntRange(10, 600), help="Number of members.  [default: 60]")
@click.option("--days", type=click.IntRange(1, 90), help="Number of days of activity.  [default: 28]")
@click.option("--seed", type=int, help="Random seed of the network.  [default: 1]")
@click.option("--port", default=8500, show_default=True, help="Port to listen on; 0 selects a free port.")
@click.option("--fresh", is_flag=True, help="Delete the folder's network and create a new one.")
@click.option("--no-serve", is_flag=True, help="Create the network, print how to log in, and exit.")
def demo(folder: Path, port: int, fresh: bool, no_serve: bool, **asked: int | None) -> None:
    """Create a network of fictional members with real photographs, and serve it.

    The first run takes less than a minute; later runs serve the same network at once. The about page credits the photographs. Posts
    are written by hand, so a network has at most 56, however many members and days it has.
    """
    store = f"sqlite:///{folder / STORE}"
    settings = build(store=store, port=port, title="Shoal demo", description=DESCRIPTION, rate_limits=False)
    if not no_serve:
        check_address(settings.host, port)
    private_files.make_folder(folder)
    if fresh:
        clear(folder)
    console = Console(stderr=False)
    state = _state(folder, {name: value for name, value in asked.items() if value is not None})
    if not state.done:
        days = "a day" if state.days == 1 else f"{state.days} days"
        console.print(f"Creating a network of {state.members} members with {days} of activity (less than a minute).")
    written = plan(state.seed, state.members, state.days, now_ms=state.now_ms)
    if not state.done:
        try:
            asyncio.run(_make(settings, written, console))
        except (asyncio.CancelledError, KeyboardInterrupt):
            click.echo("interrupted; run the command again to resume", err=True)
            raise SystemExit(130) from None
        state.done = True
        remember(folder, state)
    hero, token = asyncio.run(_log_in(settings, written))
    if no_serve:
        _tell_made(console, folder, hero)
    else:
        uvloop.run(
            run(
                settings,
                lambda url: _tell(console, url, store, hero, token),
                demo_member=hero.id,
                photo_credits=_credits(),
            )
        )


def _state(folder: Path, asked: dict[str, int]) -> Demo:
    """Return the saved state of a folder, so that an interrupted run continues with its parameters.

    Without one, return a new state.
    """
    known = recall(folder)
    if known is None:
        parameters = _DEFAULTS | asked
        now_ms = time.time_ns() // 1_000_000
        known = Demo(parameters["seed"], parameters["members"], parameters["days"], now_ms, plan=_PLAN)
        remember(folder, known)
    elif any(getattr(known, name) != value for name, value in asked.items()):
        has = f"{known.members} members, {known.days} days, seed {known.seed}"
        click.echo(f"{folder} already has a network ({has}); create a new one with --fresh", err=True)
    return known


async def _make(settings: Settings, written: DemoPlan, console: Console) -> None:
    totals = {
        "members": len(written.people),
        "follows": len(written.follows),
        "posts": len(written.posts),
        "photos": sum(len(post.photos) for post in written.posts),
        "likes": len(written.likes),
        "shares": len(written.shares),
        "messages": len(written.messages),
    }
    bars = Progress(
        TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    _cancel_at(signal.SIGINT, signal.SIGTERM)
    with bars:
        # The clock of each bar starts when its first item is created.
        tasks = {noun: bars.add_task(noun, total=total, start=False) for noun, total in totals.items()}

        def advance(noun: str) -> None:
            bars.start_task(tasks[noun])
            bars.advance(tasks[noun])
            if bars.tasks[tasks[noun]].finished and not console.is_terminal:
                # Without a terminal, progress bars appear only at the end, so print a line when one is finished.
                console.print(f"{noun:>8} {totals[noun]:,}")

        async with (
            open_network(settings) as network,
            # Use all processor cores, because there are no requests yet. A running server
            # decodes one picture at a time.
            Decoder(network.media.limits, children=os.cpu_count() or 1) as decoder,
        ):
            writes = replace(network.writes, media=network.media.with_decoder(decoder))
            await Stage(writes, written, PASSWORD, advance).run()
            await network.settle()


def _credits() -> tuple[PhotoCredit, ...]:
    return tuple(
        PhotoCredit(one.title, one.author, one.source, one.license, LICENSES.get(one.license, ""))
        for one in photos().values()
    )


def _cancel_at(*signals: signal.Signals) -> None:
    if (task := asyncio.current_task()) is not None:
        for number in signals:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _log_in(settings: Settings, written: DemoPlan) -> tuple[Member, str]:
    """Return the member that visitors may log in as, and a token."""
    name = written.people[written.hero].name
    async with open_network(settings) as network:
        member = await members.log_in(network.writes, name, PASSWORD)
        return member, await _token(network.writes, member)


async def _token(writes: Writes, member: Member) -> str:
    app = await oauth.register(writes, "Shoal demo", scopes=SCOPES)
    return (await oauth.issue_token(writes, app.app.id, member.id, SCOPES)).text


def _tell(console: Console, url: str, store: str, hero: Member, token: str) -> None:
    console.print(f"\n[bold]A live network is at {url}[/bold]\n", highlight=False)
    console.print("  look     open it in a browser: one click there logs you in", highlight=False)
    console.print(
        f"  log in   name [bold]{hero.name}[/bold] (or any member), password [bold]{PASSWORD}[/bold]", highlight=False
    )
    console.print(f"           with a Mastodon client that asks for these, at {url}\n", highlight=False)
    console.print(f"  moderate shoal --store {store} member role {hero.name} admin\n", highlight=False, soft_wrap=True)
    console.print("  or, as they are, their home:", highlight=False)
    console.print(
        f'  curl -s -H "Authorization: Bearer {token}" "{url}/api/v1/timelines/home?limit=3"\n',
        highlight=False,
        soft_wrap=True,
    )
    console.print("  Ctrl-C stops.", highlight=False)


def _tell_made(console: Console, folder: Path, hero: Member) -> None:
    command = "shoal demo" if folder == Path("demo") else f"shoal demo --folder {folder}"
    console.print(f"\n[bold]The network is in {folder}[/bold], and not served.\n", highlight=False, soft_wrap=True)
    console.print(f"  serve    {command}", highlight=False, soft_wrap=True)
    console.print(f"  log in   then, name [bold]{hero.name}[/bold] (or any member), password [bold]{PASSWORD}[/bold]\n")
