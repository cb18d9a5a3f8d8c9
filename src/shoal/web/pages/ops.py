"""The pages of operators: how the network and this process stand, and jobs that were set aside."""

from __future__ import annotations

import logging
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands.second_factor import check_staff
from shoal.core.errors import NotAllowed
from shoal.core.model import Member, Role
from shoal.graph.bulk import Spread
from shoal.ops import jobs
from shoal.ops.checking.report import Progress
from shoal.ops.moves.shards import evenness, spread_of
from shoal.web import rows
from shoal.web.rendering import page, part
from shoal.web.views.operations import operations
from shoal.web.views.shards import shards_of
from shoal.web.visit import Form, Visit

_log = logging.getLogger("shoal.operations")


class ReplayForm(Form, frozen=True, kw_only=True):
    """Jobs that are given another chance; none named: all."""

    jobs: Annotated[tuple[Annotated[str, Meta(max_length=40)], ...], Meta(max_length=1_000)] = ()


class OpsQuery(msgspec.Struct, frozen=True):
    """Whether something was just done."""

    done: Annotated[str, Meta(max_length=40)] = ""


async def show(visit: Visit, query: OpsQuery) -> Response:
    """Figures and charts of the last ten minutes; a script asks for them anew every few seconds."""
    _admin(visit)
    found = await operations(visit)
    if visit.partial:
        return part(visit, "operations", ops=found)
    told = visit.words.text("They are given another chance.") if query.done else ""
    return await page(visit, "ops", title=visit.words.text("Operations"), ops=found, told=told)


async def replay(visit: Visit, asked: ReplayForm) -> Response:
    """Give jobs another chance that were set aside."""
    me = _admin(visit)
    visit.check_sent(asked)
    writes = visit.front.writes
    number = await jobs.replay(
        {"store": visit.front.store}, asked.jobs or None, writes.graph, writes.new_id, writes.actor
    )
    _log.info("%s: replay %d jobs", me.id, number)
    return visit.go("/ops", done="replay")


async def shards(visit: Visit, _params: None) -> Response:
    """How evenly members, posts and bytes lie on the 64 data sources.

    The whole network is read for it, so that is done every ten minutes at most, and nobody waits for it but the first.
    """
    _admin(visit)

    async def counted() -> tuple[int, list[Spread]]:
        return visit.now_ms, await spread_of(visit.front.store, _silent)

    at, held = await visit.front.spread.get(visit.now_ms, counted, outdated=True)
    return await page(
        visit,
        "shards",
        title=visit.words.text("Data sources"),
        shards=shards_of(visit, held, evenness(held)),
        counted=visit.when(at),
    )


_silent: Progress = lambda *_: None  # noqa: E731 (there is nobody to tell)


def _admin(visit: Visit) -> Member:
    """Return the admin who is logged in. Raises `LogInFirst`, or `NotAllowed` for others."""
    me = visit.member
    if me.role.rank < Role.ADMIN.rank:
        raise NotAllowed(visit.words.text("This page is for admins."))
    check_staff(me, required=visit.front.settings.staff_second_factor)
    return me


ROUTES = (
    rows.page("/ops", show, OpsQuery),
    rows.form("/ops/jobs", replay, ReplayForm),
    rows.page("/ops/shards", shards),
)
