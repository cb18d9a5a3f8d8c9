"""Members at work over HTTP, who record acknowledged actions and retry those that failed.

Each member performs one action after another and retries it, with the same Idempotency-Key and at another web process, until it
succeeds. The expected state is therefore known exactly: every acknowledged action is stored, and none twice.
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
    """A member of the load, and the known outcomes of their actions."""

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
        """Return the Authorization header."""
        return {"Authorization": f"Bearer {self.token}"}


class _Wish(NamedTuple):
    """A request; with `gone`, a 404 response counts as success too."""

    method: str
    path: str
    headers: Mapping[str, str]
    json: object
    gone: bool


class Load:
    """Members at work in a separate thread during the block; actions in progress are finished at its end.

    The members interact only with each other. Without `reading`, they never read their home timelines, which have other authors
    too. With `twice`, each request is sent to all web processes concurrently, and must be executed once.
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
        """Number of successful responses."""
        self.refused: defaultdict[int, list[str]] = defaultdict(list)
        """503 responses, by member id."""
        self.broken = 0
        """Number of broken connections."""

    @property
    def served(self) -> bool:
        """Return whether 503 responses are rare: at most one per ten successful responses.

        On a loaded machine a store may exceed the server's timeout. When a store is down, there are many for each success.
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
        """Make all members pause between actions inside the block, which leaves processor time for the test's own wait."""
        self._pause = _EASE_SECONDS
        try:
            yield
        finally:
            self._pause = 0.0

    def more(self, answers: int) -> None:
        """Wait for `answers` more successful responses."""
        wanted = self.acknowledged + answers
        self._until(lambda: self.acknowledged >= wanted, "requests no longer succeed")

    def all_refused(self) -> None:
        """Wait until each member has received a 503 response."""
        self._until(lambda: len(self.refused) == len(self._people), "some members received no 503 response")

    def _until(self, holds: Callable[[], bool], else_: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not holds():
            assert self._thread.is_alive(), self._complaints
            assert time.monotonic() < deadline, else_
            time.sleep(0.01)

    def _work(self) -> None:
        try:
            uvloop.run(self._all())
        except BaseException as error:  # noqa: BLE001  # raised again in the thread of the test
            self._complaints.append(error)

    async def _all(self) -> None:
        async with httpx.AsyncClient(timeout=60) as client, asyncio.TaskGroup() as group:
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
        # Until the deletion is acknowledged, it is unknown whether the post exists.
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
        """Retry a request until it succeeds, and return the response. With `gone`, a 404 counts as success."""
        headers = person.bearer | ({"Idempotency-Key": key} if key else {})
        wish = _Wish(method, path, headers, json, gone)
        beginnings = range(person.id, person.id + self._at_once)
        answers = await asyncio.gather(*[self._insist(client, person, wish, first) for first in beginnings])
        assert not key or len({answer.json()["id"] for answer in answers}) == 1, f"{key} was created twice"
        return answers[0]

    async def _insist(self, client: httpx.AsyncClient, person: Person, wish: _Wish, first: int) -> httpx.Response:
        """Send a request to one web process after another, starting at `first`, until it succeeds."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for attempt in count(first):
            assert not self._given_up
            assert time.monotonic() < deadline, f"{wish.method} {wish.path} did not succeed in time"
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
