"""A server that is attacked serves the others, takes a bounded part of memory and files, and is well afterwards.

All in small: the large form is `shoal bench attack`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from benchmarks.attackers import ATTACKS, Outcomes, Target
from benchmarks.measure import tree_rss
from tests.running import run
from tests.serving import Server, served

from shoal.services import members
from shoal.services.login import apps, passwords
from shoal.settings import Settings
from shoal.wiring import open_network

MIB = 1 << 20
SCOPES = ("read", "write")
MOST_MEMORY = 250
"""Megabytes that no attack makes a server take."""
IN_A_ROW = {"heads": (20, 2.0), "drips": (30, 3.0), "uploads": (12, 60.0), "passwords": (60, 60.0)}
"""How many connections of each attack, and for how many seconds at most."""
SILENT_SECONDS = 2.5
"""More than the two seconds between the times at which the kernel asks again for a connection that found no place."""
LOOK_SECONDS = 0.1
"""Between two looks at an attacked server: whoever asks without a pause is an attack too."""
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Given to each client, since one that makes its own reads every certificate there is: 20 ms of processor time."""


class Place:
    """A server with a member, and what attackers know of it."""

    def __init__(self, server: Server, target: Target, token: str) -> None:
        self.server = server
        self.target = target
        self._headers = {"Authorization": f"Bearer {token}"}

    def is_well(self) -> None:
        """Another client posts and reads on new connections."""
        for _ in range(5):
            with self._client() as client:
                assert client.post("/api/v1/statuses", json={"status": "all is well"}).status_code == 200
                assert client.get("/api/v1/timelines/home").status_code == 200

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self.server.url, headers=self._headers, timeout=20, verify=NO_TLS)

    @property
    def memory(self) -> float:
        """Megabytes of the server and its children."""
        return tree_rss(self.server.process.pid) / MIB

    @property
    def niceness(self) -> set[int]:
        """Return the nice values of the server's threads."""
        stats = Path(f"/proc/{self.server.process.pid}/task").glob("*/stat")
        return {int(path.read_text().rpartition(")")[2].split()[16]) for path in stats}

    def attacked(self, name: str, count: int, seconds: float) -> tuple[Outcomes, float]:
        """Return the attackers' outcomes, and the most memory seen while others were served."""

        async def story() -> tuple[Outcomes, float]:
            attack = asyncio.create_task(ATTACKS[name](self.target, count, seconds))
            most = 0.0
            while not attack.done():
                most = max(most, self.memory)
                await asyncio.to_thread(self.is_well)
                await asyncio.wait({attack}, timeout=LOOK_SECONDS)
            return await attack, most

        return run(story())


async def _people(store: Path) -> list[str]:
    """Tokens of members, on a new store."""
    async with open_network(Settings(store=f"sqlite:///{store}", media="memory://"), background=False) as network:
        app = (await apps.register(network.writes, "x", redirect_uris=("urn:x",), scopes=SCOPES)).app
        made = [await members.register(network.writes, f"member_{number}") for number in range(21)]
        return [(await apps.issue_token(network.writes, app.id, one.id, SCOPES)).text for one in made]


@contextmanager
def placed(tmp_path: Path, files: int = 0, **environment: str) -> Iterator[Place]:
    """A served network whose attackers come from other addresses than its one good client."""
    tokens = run(_people(tmp_path / "shoal.db"))
    environment = {"SHOAL_TRUSTED_PROXIES": "[]", "SHOAL_LOG_LEVEL": "error", **environment}
    media = f"file://{tmp_path / 'media'}"
    with served(tmp_path / "shoal.db", files=files, SHOAL_MEDIA=media, **environment) as server:
        app = httpx.post(f"{server.url}/api/v1/apps", json={"client_name": "x", "redirect_uris": "urn:x"}).json()
        port = int(server.url.rpartition(":")[2])
        place = Place(server, Target(port, tokens[1:], app["client_id"], app["client_secret"]), tokens[0])
        place.is_well()
        yield place
        place.is_well()


def test_silent_connections_of_one_address_leave_room_for_others(tmp_path: Path) -> None:
    with placed(tmp_path, SHOAL_CONNECTIONS_PER_ADDRESS="20") as place:
        found, _ = place.attacked("silent", 150, SILENT_SECONDS)
        # Those that were refused may be told so, or find a connection that is closed already.
        assert found["open"] == 20
        assert found["429"] + found["closed"] + found["late"] == 130


def test_more_connections_than_files_leave_the_stores_theirs(tmp_path: Path) -> None:
    with placed(tmp_path, files=400, SHOAL_TRUSTED_PROXIES='["127.0.0.1"]') as place:
        found, _ = place.attacked("scattered", 350, SILENT_SECONDS)
        assert 0 < found["open"] <= 200
        assert found["503"] + found["closed"] + found["late"] == 350 - found["open"]


def test_heads_without_an_end_take_no_memory(tmp_path: Path) -> None:
    with placed(tmp_path) as place:
        before = place.memory
        found, most = place.attacked("heads", 20, 3.0)
        assert found["431"] + found["closed"] > 20
        assert most < before + 60


def test_slow_uploads_take_no_memory(tmp_path: Path) -> None:
    with placed(tmp_path) as place:
        before = place.memory
        found, most = place.attacked("drips", 60, 4.0)
        assert found == {"open": 60}
        assert most < before + 60


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="videos are taken where ffmpeg is")
def test_large_uploads_at_once_take_a_bounded_part_of_memory(tmp_path: Path) -> None:
    with placed(tmp_path) as place:
        found, most = place.attacked("uploads", 10, 60.0)
        assert found == {"202": 10}
        assert most < MOST_MEMORY


def test_wrong_passwords_at_once_are_refused_soon(tmp_path: Path) -> None:
    with placed(tmp_path) as place:
        found, most = place.attacked("passwords", 60, 300.0)
        assert found["400"] >= 2
        assert found["503"] >= 20
        assert found.keys() <= {"400", "429", "503"}
        # Those who need no password come first on a processor.
        assert place.niceness == {os.getpriority(os.PRIO_PROCESS, 0), os.getpriority(os.PRIO_PROCESS, 0) + 10}
        assert most < MOST_MEMORY


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="videos are taken where ffmpeg is")
def test_attacks_one_straight_after_the_other_take_a_bounded_part_of_memory(tmp_path: Path) -> None:
    with placed(tmp_path) as place:
        peaks = [place.attacked(name, *how)[1] for name, how in IN_A_ROW.items()]
        # What a server has at rest and one of its programs for clips, and what hashing takes.
        assert max(peaks) < 125 + 64 * passwords.AT_ONCE
