"""Members and other objects of another product, by their ids there."""

from __future__ import annotations

from shoal.app.network import Network
from shoal.commands import external_ids
from shoal.commands.external_ids import ExternalProfile
from shoal.core.errors import NotFound
from shoal.core.external_ids import ExternalId, ExternalKind, external_id
from shoal.library.acting import AnyMember, ExternalKindName, one_of, resolve
from shoal.library.handle import Handle


class ExternalIds:
    """The external ids of members and of imported objects: pairs of an issuer and an id there, each of at most 255 bytes."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def upsert(
        self,
        issuer: str,
        id_: str,
        *,
        user_name: str = "",
        display_name: str | None = None,
        note: str | None = None,
        language: str = "",
    ) -> Handle:
        """Return the member with an external id, with this profile. If there is none, create one without password and address.

        Idempotent: concurrent calls create one member.

        Args:
            issuer: The name of the product, such as its URL.
            id_: The id of the member there.
            user_name: The proposed user name of a new member. If it is taken, a free name like it is assigned.
            display_name: None keeps the value of an existing member, as for `note`.
            language: "" keeps the value of an existing member. An unknown language is ignored.

        Raises `InvalidInput`, and `Gone` for a suspended member.
        """
        profile = ExternalProfile(user_name=user_name, display_name=display_name, note=note, language=language)
        made = await external_ids.upsert(self._network.writes, external_id(issuer, id_), profile)
        return Handle(self._network, made.member)

    async def member(self, issuer: str, id_: str) -> Handle:
        """Return the member with an external id. Raises `NotFound` and `InvalidInput`."""
        member = await external_ids.find(self._network.writes.graph, external_id(issuer, id_))
        if member is None:
            raise NotFound("no member has this external id")
        return Handle(self._network, member)

    async def find(self, kind: ExternalKindName, issuer: str, id_: str) -> int:
        """Return the id of the post, comment or media object that was imported with an external id.

        Args:
            kind: The kind of the external id: "posts", "comments" or "media".
            issuer: The issuer in the map of the import.
            id_: The id of the object there.

        Raises `NotFound`, also if the object was deleted, and `InvalidInput`.
        """
        chosen = one_of(ExternalKind, kind, "kind")
        return await external_ids.object_id_of(self._network.writes.graph, chosen, external_id(issuer, id_))

    async def of(self, who: AnyMember) -> list[ExternalId]:
        """Return the external ids of a member, newest first. Raises `NotFound` for an unknown user name."""
        return await external_ids.of_member(self._network.writes.graph, await resolve(self._network, who))

    async def link(self, who: AnyMember, issuer: str, id_: str) -> None:
        """Give an existing member an external id, of which a member has at most five. Idempotent.

        Raises `Taken` if another member has it, `Unfit` if the member has too many, `NotFound`, `Gone` and `InvalidInput`.
        """
        member_id = await resolve(self._network, who)
        await external_ids.link(self._network.writes, member_id, external_id(issuer, id_))

    async def unlink(self, who: AnyMember, issuer: str, id_: str) -> None:
        """Remove an external id from a member, who stays, and revoke the tokens that were exchanged through it.

        Raises `NotFound` if the member does not have it.
        """
        member_id = await resolve(self._network, who)
        await external_ids.unlink(self._network.writes, member_id, external_id(issuer, id_))
