"""Members at work over HTTP, who write down what was acknowledged and repeat what was not.

Each member does one thing after the other and repeats it, with the same Idempotency-Key and at another web process, until it
is answered. So in the end it is known exactly what must be there: no less, and nothing twice.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import NamedTuple, Self

import httpx
import uvloop

from shoal_devcluster.program import Program

_REST_SECONDS = 0.05
_EASE_SECONDS = 1.0
_PATIENCE_SECONDS = 150.0
_REFUSED = 503


@dataclass
class Person:
    """Somebody who writes, and what is known of what they did."""

    id: int
    name: str
    source: int
    token: str
    posts: dict[int, str] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    likes: dict[int, bool] = field(default_factory=dict)
    follows: dict[int, bool] = field(default_factory=dict)

    @property
    def bearer(self) -> dict[str, str]:
        """The header that says who asks."""
        return {"Authorization": f"Bearer {self.token}"}


class _Wish(NamedTuple):
    """A request, and whether it is an answer that there is nothing of the kind (any more)."""

    method: str
    path: str
    headers: Mapping[str, str]
    json: object
    gone: bool


class Load:
    """People at work in a thread of its own for as long as the block runs; what they began is finished at its end.

    They deal with each other only. Not `reading`: none of them looks at their home timeline, where others are too. `twice`:
    everything is asked of every web process at the same moment, and must be done once.
    """

    def __init__(
        self, web: Sequence[Program], people: Sequence[Person], seed: int, *, reading: bool = True, twice: bool = False
    ) -> None:
        self._web = web
        self._people = people
        self._seed = seed
        self._reading = reading
        self._at_once = len(web) if twice else 1
        self._pause = 0.0
        self._given_up = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="load")
        self._numbers = count(time.time_ns())
        self._complaints: list[BaseException] = []
        self.acknowledged = 0
        """Good answers."""
        self.refused: defaultdict[int, list[str]] = defaultdict(list)
        """Answers by which each was told to come again (503)."""
        self.broken = 0
        """How many connections broke."""

    @property
    def served(self) -> bool:
        """Whether hardly anybody was told to come again: one for ten good answers at most.

        On a loaded machine a store may take longer than a server waits for it. Where one is away, there are many for each answer.
        """
        return 10 * sum(map(len, self.refused.values())) <= self.acknowledged

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._given_up = error is not None
        self._thread.join()
        if error is None and self._complaints:
            raise self._complaints[0]

    @contextmanager
    def at_ease(self) -> Iterator[None]:
        """Everybody pauses between two acts inside the block: what the test waits for there needs the processor too."""
        self._pause = _EASE_SECONDS
        try:
            yield
        finally:
            self._pause = 0.0

    def more(self, answers: int) -> None:
        """Wait for so many more good answers."""
        wanted = self.acknowledged + answers
        self._until(lambda: self.acknowledged >= wanted, "nobody is answered")

    def all_refused(self) -> None:
        """Wait until each of them has been told to come again."""
        self._until(lambda: len(self.refused) == len(self._people), "not everybody was told to come again")

    def _until(self, holds: Callable[[], bool], else_: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not holds():
            assert self._thread.is_alive(), self._complaints
            assert time.monotonic() < deadline, else_
            time.sleep(0.01)

    def _work(self) -> None:
        try:
            uvloop.run(self._all())
        except BaseException as error:  # noqa: BLE001  # it is raised again where the test waits
            self._complaints.append(error)

    async def _all(self) -> None:
        async with httpx.AsyncClient(timeout=20.0) as client, asyncio.TaskGroup() as group:
            for number, person in enumerate(self._people):
                group.create_task(self._live(client, person, random.Random(self._seed * 1_000 + number)))

    async def _live(self, client: httpx.AsyncClient, person: Person, chance: random.Random) -> None:
        while not self._over.is_set():
            act = chance.random()
            if act < 0.5 or not person.posts:
                await self._post(client, person)
            elif act < 0.65:
                await self._like(client, person, chance)
            elif act < 0.85:
                await self._follow(client, person, chance)
            elif act < 0.92:
                await self._delete(client, person, chance)
            elif self._reading:
                await self._ask(client, person, "GET", "/api/v1/timelines/home")
            await asyncio.sleep(self._pause)

    async def _post(self, client: httpx.AsyncClient, person: Person) -> None:
        text = f"number {next(self._numbers)} of {person.name} #cluster"
        answer = await self._ask(client, person, "POST", "/api/v1/statuses", json={"status": text}, key=text)
        person.posts[int(answer.json()["id"])] = text

    async def _like(self, client: httpx.AsyncClient, person: Person, chance: random.Random) -> None:
        author = chance.choice([other for other in self._people if other.posts])
        post = chance.choice(list(author.posts))
        wanted = not person.likes.get(post, False)
        verb = "favourite" if wanted else "unfavourite"
        answer = await self._ask(client, person, "POST", f"/api/v1/statuses/{post}/{verb}", gone=True)
        if answer.status_code == 200:
            person.likes[post] = wanted

    async def _follow(self, client: httpx.AsyncClient, person: Person, chance: random.Random) -> None:
        other = chance.choice([other for other in self._people if other is not person])
        wanted = not person.follows.get(other.id, False)
        verb = "follow" if wanted else "unfollow"
        await self._ask(client, person, "POST", f"/api/v1/accounts/{other.id}/{verb}")
        person.follows[other.id] = wanted

    async def _delete(self, client: httpx.AsyncClient, person: Person, chance: random.Random) -> None:
        post = chance.choice(list(person.posts))
        # From now on nobody can say whether it is there, until it is known that it is not.
        del person.posts[post]
        await self._ask(client, person, "DELETE", f"/api/v1/statuses/{post}", gone=True)
        person.deleted.add(post)

    async def _ask(
        self,
        client: httpx.AsyncClient,
        person: Person,
        method: str,
        path: str,
        *,
        json: object = None,
        key: str = "",
        gone: bool = False,
    ) -> httpx.Response:
        """The answer, however often it takes to get one. `gone`: it may also be that the post is no more."""
        headers = person.bearer | ({"Idempotency-Key": key} if key else {})
        wish = _Wish(method, path, headers, json, gone)
        beginnings = range(person.id, person.id + self._at_once)
        answers = await asyncio.gather(*[self._insist(client, person, wish, first) for first in beginnings])
        assert not key or len({answer.json()["id"] for answer in answers}) == 1, f"{key} is there twice"
        return answers[0]

    async def _insist(self, client: httpx.AsyncClient, person: Person, wish: _Wish, first: int) -> httpx.Response:
        """Ask one web process after the other, from the `first` on, until one answers."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for attempt in count(first):
            assert not self._given_up
            assert time.monotonic() < deadline, f"{wish.method} {wish.path} is never answered"
            try:
                web = self._web[attempt % len(self._web)]
                answer = await client.request(wish.method, web.url + wish.path, headers=wish.headers, json=wish.json)
            except httpx.TransportError:
                self.broken += 1
            else:
                if answer.status_code == 200 or (wish.gone and answer.status_code == 404):
                    self.acknowledged += 1
                    return answer
                self._come_again(person, answer, web)
            await asyncio.sleep(_REST_SECONDS)
        raise AssertionError

    def _come_again(self, person: Person, answer: httpx.Response, web: Program) -> None:
        told = f"{answer.request.url}: {answer.status_code} {answer.text}"
        assert answer.status_code == _REFUSED, f"{told}\n{web.last_words()}"
        assert int(answer.headers["retry-after"]) > 0
        self.refused[person.id].append(told)
