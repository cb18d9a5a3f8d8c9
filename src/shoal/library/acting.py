"""The two kinds of users of the library: one who looks at the network, and one who acts in it."""

from __future__ import annotations

from typing import TypeAlias

from shoal.commands import members
from shoal.commands.context import Writes
from shoal.core.audit import Actor
from shoal.core.errors import NotFound
from shoal.core.model import Member
from shoal.queries.hydration import Profile
from shoal.wiring import Network


class Seeing:
    """A view of the network: a member's, or that of somebody who is not logged in."""

    def __init__(self, network: Network, viewer: int | None) -> None:
        self._network = network
        self._reads = network.reads
        self._viewer = viewer

    @property
    def _writes(self) -> Writes:
        return self._network.writes

    async def _resolve(self, who: AnyMember) -> int:
        return await resolve(self._network, who)


class Identity:
    """The member that a handle is for: the id and the user name."""

    def __init__(self, id_: int, name: str) -> None:
        self.id = id_
        self.name = name

    def __repr__(self) -> str:
        return f"<member {self.name}>"


class Acting(Seeing, Identity):
    """A member to act as. It asks for no password: a caller who holds the network holds its members."""

    def __init__(self, network: Network, id_: int, name: str) -> None:
        Seeing.__init__(self, network, id_)
        Identity.__init__(self, id_, name)

    @property
    def _writes(self) -> Writes:
        return self._network.writes.by(Actor(self.id, self.name))


AnyMember: TypeAlias = Identity | Member | Profile | int | str
"""A member: as a handle, as itself, as a profile, by id, or by user name."""


async def resolve(network: Network, who: AnyMember) -> int:
    """Return the id of a member. Raises `NotFound` for a name that nobody has; ids are not looked up."""
    if isinstance(who, str):
        found = await members.find(network.writes, who)
        if found is None:
            raise NotFound(f"there is no member {who!r}")
        return found.id
    if isinstance(who, Profile):
        return who.member.id
    return who if isinstance(who, int) else who.id
