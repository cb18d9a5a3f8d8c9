"""Operations about where a member is logged in."""

from __future__ import annotations

import msgspec

from shoal.commands import members, sessions
from shoal.core.errors import NotFound
from shoal.core.ids import milliseconds_of
from shoal.graph.contract import Cursor
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.operation import Operation

_MOST = 1_000


class MemberSession(msgspec.Struct, kw_only=True):
    """A login of a member, as commands tell of one."""

    id: int
    app: str
    """Name of the app; empty for a browser, and where the app is gone."""
    program: str
    system: str
    made_at: int
    """Unix milliseconds, as `used_at`, which is 0 where no use was noted yet."""
    used_at: int
    used_from: str


class ListSessions(Operation[list[MemberSession]]):
    """Tell where a member is logged in, newest first; the newest 1,000."""

    answer = list[MemberSession]
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[MemberSession]:
        member_id = await _id_of(network, self.name)
        page = await sessions.page(network.writes, member_id, Cursor(limit=_MOST))
        return [
            MemberSession(
                id=token.id,
                app=app.name if app else "",
                program=token.use.program,
                system=token.use.system,
                made_at=milliseconds_of(token.id),
                used_at=token.use.at,
                used_from=token.use.used_from,
            )
            for token, app in page.sessions
        ]


class EndSessions(Operation[int]):
    """End one login of a member, or all of them (0); how many there were."""

    answer = int
    name: str
    session_id: int = 0

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> int:
        member_id = await _id_of(network, self.name)
        if not self.session_id:
            return await sessions.end_others(network.writes, member_id, 0)
        try:
            await sessions.end(network.writes, member_id, self.session_id)
        except NotFound:
            raise NotFound(f"{self.name} has no login {self.session_id}") from None
        return 1


async def _id_of(network: AnyNetwork, name: str) -> int:
    found = await members.find(network.writes, name)
    if found is None:
        raise NotFound(f"there is no member {name!r}")
    return found.id
