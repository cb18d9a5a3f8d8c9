"""An act and its audit log entry are atomic: after `kill -9`, both exist or neither does."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import httpx

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.commands import moderation, oauth
from shoal.core.audit import AuditVerb
from shoal.core.model import Member, Role
from tests.audit.log_reader import entries
from tests.server_process import Server, served

PEOPLE, KILLS = 24, 5
SCOPES = ("read", "write", "admin:read", "admin:write")


def test_audit_log_after_server_kill_has_exactly_one_entry_per_action(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    token, ids = asyncio.run(_people(store))
    acknowledged: dict[int, int] = dict.fromkeys(ids, 0)
    chance = random.Random(3)
    for _ in range(KILLS):
        with served(store) as server:
            asyncio.run(_moderate_until_killed(server, token, acknowledged, chance))
    asyncio.run(_told(store, acknowledged))


async def _people(store: Path) -> tuple[str, list[int]]:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        writes = shoal.network.writes
        mo = await shoal.register("mo")
        await moderation.set_role(writes, mo.id, Role.ADMIN)
        app = await oauth.register(writes, "load", scopes=SCOPES)
        people = [await shoal.register(f"m{number}") for number in range(PEOPLE)]
        token = await oauth.issue_token(writes, app.app.id, mo.id, SCOPES)
        return token.text, [one.id for one in people]


async def _moderate_until_killed(server: Server, token: str, done: dict[int, int], chance: random.Random) -> None:
    bearer = {"Authorization": f"Bearer {token}"}
    before = sum(done.values())

    async def moderate(client: httpx.AsyncClient, mine: list[int], many: random.Random) -> None:
        try:
            while True:
                id_ = many.choice(mine)
                act = f"/api/v1/admin/accounts/{id_}"
                shown = await client.get(act, headers=bearer)
                if shown.status_code == 503:
                    # An overloaded server, on a busy machine, refuses requests.
                    await asyncio.sleep(0.05)
                    continue
                silent = shown.json()["silenced"]
                path, body = (f"{act}/unsilence", None) if silent else (f"{act}/action", {"type": "silence"})
                if (await client.post(path, headers=bearer, json=body)).status_code == 200:
                    done[id_] += 1
        except httpx.TransportError:
            return

    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        ids = list(done)
        people = [asyncio.create_task(moderate(client, ids[at::8], random.Random(chance.random()))) for at in range(8)]
        deadline = time.monotonic() + 60
        while sum(done.values()) < before + chance.randint(15, 80):
            assert time.monotonic() < deadline, "the load is too small to prove anything"
            await asyncio.sleep(0.001)
        server.kill()
        await asyncio.gather(*people)


async def _told(store: Path, acknowledged: dict[int, int]) -> None:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        graph = shoal.network.store
        told = await entries(graph, AuditVerb.MEMBER_SILENCED, AuditVerb.MEMBER_UNSILENCED)
        nodes = await graph.obj_get(list(acknowledged))
        for id_, least in acknowledged.items():
            member = nodes[id_]
            assert isinstance(member, Member)
            mine = [one.entry.verb for one in told if one.entry.target_id == id_]
            # The version counts changes of the object: each change has one entry, in order.
            assert len(mine) == member.version - 1
            assert len(mine) >= least
            assert mine == [AuditVerb.MEMBER_SILENCED, AuditVerb.MEMBER_UNSILENCED] * (len(mine) // 2) + [
                AuditVerb.MEMBER_SILENCED
            ] * (len(mine) % 2)
        await shoal.settle()
        assert (await check(shoal.network)).clean
