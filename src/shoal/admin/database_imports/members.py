"""Import of members: written as rows while the network is new, otherwise created as a server does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shoal.admin.database_imports.files import FILES_AT_ONCE, Files
from shoal.admin.database_imports.maps import PICTURES, Rejected, Section
from shoal.admin.database_imports.session import AT_ONCE, Record, Session, shortened
from shoal.admin.database_imports.updates import Updates
from shoal.admin.imports.members import bulk_keys
from shoal.admin.throttling import run_bounded
from shoal.commands import external_ids, members
from shoal.commands.external_ids import ExternalProfile
from shoal.commands.members import ProfileChange
from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.core.external_ids import DELETED_MEMBERS, ExternalLink, profile_digest
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.core.text import check_user_name
from shoal.graph.access import count_of
from shoal.graph.bulk import KeyRow, Loading, LoadPart, Occupied
from shoal.graph.schema import (
    BLOCKS_NAME,
    EVERYBODY,
    EXTERNAL_IDS,
    USER_NAME,
    encode_node,
    external_id_key,
    user_name_key,
)


class MemberImport:
    def __init__(self, session: Session, files: Files) -> None:
        self._session, self._files = session, files
        self._updates = Updates(session)

    async def run(self, section: Section, records: list[Record]) -> None:
        once = self._session.once(section, records)
        there = await self._session.members(once)
        deleted = await self._deleted([id_ for id_ in once if id_ not in there])
        self._session.summary["members"].there += len(deleted)
        for id_ in deleted:
            del once[id_]
        missing = [record for id_, record in once.items() if id_ not in there]
        self._session.summary["members"].there += len(there)
        known = {id_: (once[id_], self._profile(once[id_])) for id_ in there}
        await self._updates.members(section, known)
        if self._session.options.dry_run:
            self._session.plan("members", once)
            self._session.summary["members"].taken += len(missing)
            await self._pictures(section, once)
            return

        if self._session.bulk is not None:
            missing = await self._load_members(self._session.bulk, section, missing)

        async def create(record: Record) -> None:
            fields, profile = record.fields, self._profile(record)
            try:
                made = await external_ids.upsert(
                    self._session.writes, self._session.external(fields["id"]), profile, update=False
                )
            except Unavailable:
                raise
            except ShoalError as error:
                self._session.refuse(section, record.where, Rejected(str(error), ""))
                return
            self._session.member_ids[fields["id"]] = made.member.id
            self._session.summary["members"].taken += made.created
            if made.member.name != fields["name"].lower():
                one, many = "user name was changed", "user names were changed"
                self._session.summary.note(f"{one}: invalid here, or taken", f"{many}: invalid here, or taken")

        await run_bounded(missing, create, AT_ONCE, patience=self._session.options.patience)
        await self._pictures(section, once)

    async def _deleted(self, ids: Sequence[str]) -> list[str]:
        """Return which of these members have deleted their account here."""
        if self._session.new:
            return []
        externals = map(self._session.external, ids)
        found = await external_ids.objects_of_kind(self._session.writes.graph, DELETED_MEMBERS, externals)
        return [external.id for external in found]

    async def _pictures(self, section: Section, records: Mapping[str, Record]) -> None:
        """Store the avatars and headers of members for whom an import has not done so yet. A picture set here is kept."""
        given = PICTURES & section.fields.keys()
        named = {id_: record for id_, record in records.items() if any(record.fields[name] for name in given)}
        if not named:
            return
        graph = self._session.writes.graph
        links = await external_ids.links_to_members(graph, map(self._session.external, named))
        nodes = await self._session.nodes({link.member_id for link in links.values()})
        jobs: list[tuple[Record, ExternalLink | None, Member | None]] = []
        for id_, record in named.items():
            link = links.get(self._session.external(id_))
            node = nodes.get(link.member_id) if link else None
            if link and not link.pictures and isinstance(node, Member):
                jobs.append((record, link, node))
            elif link is None and self._session.options.dry_run:
                jobs.append((record, None, None))

        async def store(job: tuple[Record, ExternalLink | None, Member | None]) -> None:
            record, link, member = job
            done = [await self._picture(section, record, which, member) for which in ("avatar", "header")]
            if link and all(done) and not self._session.options.dry_run:
                await external_ids.note_import(self._session.writes, link, pictures=True)

        await run_bounded(jobs, store, FILES_AT_ONCE, patience=self._session.options.patience)

    async def _picture(self, section: Section, record: Record, which: str, member: Member | None) -> bool:
        """Store a picture of a profile. Return whether there is nothing left to do."""
        path, url = record.fields.get(which, ""), record.fields.get(f"{which}_url", "")
        if not (path or url) or (member and getattr(member, which)):
            return True
        with self._files.refusing(section, record, path, url, f"{which}: ") as reasons:
            local = await self._files.located(path or None)
            if member and not self._session.options.dry_run:
                async with self._files.limit:
                    data = await self._files.read(local, url)
                    change = ProfileChange(avatar=data) if which == "avatar" else ProfileChange(header=data)
                    await members.update_profile(self._session.writes, member.id, change)
            self._session.summary["pictures"].taken += 1
        return not reasons

    def _profile(self, record: Record) -> ExternalProfile:
        fields, limits = record.fields, self._session.writes.limits
        name = fields["name"]
        return ExternalProfile(
            user_name=name,
            display_name=shortened(fields.get("display_name", ""), limits.display_name)
            or shortened(name, limits.display_name),
            note=shortened(fields.get("note", ""), limits.note),
            language=fields.get("language", ""),
            created_at=fields.get("created_at", 0),
            updated_at=fields.get("updated_at", 0),
        )

    async def _load_members(self, store: Loading, section: Section, records: Sequence[Record]) -> list[Record]:
        """Write new members as rows, in one transaction. Return the records that `external_ids.upsert` has to create."""
        named: dict[str, Record] = {}
        others: list[Record] = []
        blocked = await count_of(self._session.writes.graph, EVERYBODY, BLOCKS_NAME)
        for record in records:
            name = record.fields["name"].lower()
            if blocked or not _is_user_name(name) or named.setdefault(name, record) is not record:
                others.append(record)
        taken = await bulk_keys(self._session.network, [user_name_key(name) for name in named])
        others += [named.pop(key.name) for key in taken]
        rows: list[tuple[int, int, bytes]] = []
        keys: list[KeyRow] = []
        made: dict[str, tuple[int, int]] = {}
        for name, record in list(named.items()):
            external, profile, shard = (
                self._session.external(record.fields["id"]),
                self._profile(record),
                place(name).shard,
            )
            member_id, login_id, link_id = (self._session.writes.new_id(shard) for _ in range(3))
            try:
                member, login = external_ids.imported(self._session.writes, (member_id, login_id), name, profile)
            except ShoalError as error:
                self._session.refuse(section, named.pop(name).where, Rejected(str(error), ""))
                continue
            link = ExternalLink(
                id=link_id,
                member_id=member_id,
                issuer=external.issuer,
                subject=external.id,
                updated=profile.updated_at,
                profile=profile_digest(member.display_name, member.note) if profile.updated_at else "",
            )
            rows += [(node.id, node.version, encode_node(node)) for node in (member, login, link)]
            keys += [KeyRow(USER_NAME, name, member_id, 0)]
            keys += [KeyRow("external_id", external_id_key(external).name, link_id, 0)]
            made[external.id] = member_id, link_id
        ends = np.array(list(made.values()), np.int64).reshape(-1, 2)
        atype = np.full(len(ends), EXTERNAL_IDS.number, np.int64)
        links = np.column_stack((ends[:, 0], atype, ends[:, 1], ends[:, 1]))
        counts = np.column_stack((ends[:, 0], atype, np.ones(len(ends), np.int64)))
        order = np.argsort(ends[:, 0])
        try:
            await store.load(LoadPart(sorted(rows), sorted(keys), links[order], counts[order]))
        except Occupied:
            # A new member took one of the names, or another process imports these rows.
            return [*named.values(), *others]
        self._session.member_ids |= {id_: member_id for id_, (member_id, _) in made.items()}
        self._session.summary["members"].taken += len(made)
        return others


def _is_user_name(name: str) -> bool:
    try:
        check_user_name(name)
    except InvalidInput:
        return False
    return True
