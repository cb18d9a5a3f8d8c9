"""Changes of imported objects: rows that the source has changed or deleted since they were imported.

The link of an external id has the time of the last change that an import has read. A change that was made here since is kept, and
reported, unless the import overwrites. It is recognized by the time of the edit of a post, which is that of the source after an
imported edit, and by the digest of a member's profile. The link names a change before it is applied, so after a kill, the change
is not taken for one that was made here, even if the source has changed the row again.

A row can change twice within the resolution of its times. So rows at the newest watermark of the last import are compared with
their objects, even if their time is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shoal.admin.database_imports.maps import Rejected, Section
from shoal.admin.database_imports.session import AT_ONCE, Record, Session, shortened, text_of
from shoal.admin.throttling import run_bounded
from shoal.commands import external_ids, members, posts
from shoal.commands.external_ids import ExternalProfile
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.errors import ShoalError, Unavailable
from shoal.core.external_ids import ExternalLink, ExternalObject, profile_digest
from shoal.core.model import Member, Post
from shoal.core.visibility import narrower

_KEPT = "changed here since it was imported: kept (--overwrite replaces it)"
_OF_ANOTHER = "id: a post or comment of another author was imported with this id"


class _Entry(NamedTuple):
    record: Record
    link: ExternalObject
    post: Post

    @property
    def moment(self) -> int:
        """When the source changed the row; 0 for never."""
        return int(self.record.fields.get("updated_at", 0))

    @property
    def edited_here(self) -> bool:
        imported = (self.link.updated, self.link.applying, self.moment)
        return self.post.edited_at not in {0, *map(self.edit_time, imported)}

    def edit_time(self, moment: int) -> int:
        """Return the time of an imported edit: a time before the post would be shown as one before its publication."""
        return max(moment, self.post.created_at)


class _Profile(NamedTuple):
    record: Record
    profile: ExternalProfile
    link: ExternalLink
    member: Member


class Updates:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def entries(self, section: Section, records: Mapping[str, Record]) -> None:
        """Apply the changes of existing posts or comments, by their ids in the source."""
        if not {"updated_at", "deleted_at"} & section.fields.keys():
            return
        externals = map(self._session.external, records)
        links = await external_ids.links_to_objects(self._session.writes.graph, section.ids, externals)
        nodes = await self._session.posts({link.object_id for link in links.values()})
        found = [
            _Entry(records[external.id], link, nodes[link.object_id])
            for external, link in links.items()
            if link.object_id in nodes
        ]
        authors = await self._session.members(each.record.fields["author"] for each in found)
        own: list[_Entry] = []
        for each in found:
            if authors.get(each.record.fields["author"]) == each.post.author_id:
                own.append(each)
            else:
                self._session.refuse(section, each.record.where, Rejected(_OF_ANOTHER, each.record.fields["id"]))
        changed = [
            each
            for each in own
            if each.record.fields.get("deleted_at")
            or each.moment > each.link.updated
            or (self._is_same_time(each.record, each.link) and not each.edited_here)
        ]

        async def update(entry: _Entry) -> None:
            try:
                await (self._delete if entry.record.fields.get("deleted_at") else self._edit)(section, entry)
            except Unavailable:
                raise
            except ShoalError as error:
                self._session.refuse(section, entry.record.where, Rejected(str(error), ""))

        await run_bounded(changed, update, AT_ONCE, patience=self._session.options.patience)

    async def _delete(self, section: Section, entry: _Entry) -> None:
        if entry.edited_here and not self._session.options.overwrite:
            self._keep(section, entry.record)
            return
        if not self._session.options.dry_run:
            await posts.delete(self._session.writes, entry.post.author_id, entry.post.id)
        self._session.summary[section.kind].deleted += 1

    async def _edit(self, section: Section, entry: _Entry) -> None:
        writes, post = self._session.writes, entry.post
        draft = self._draft(entry)
        visibility = entry.record.fields.get("visibility", post.visibility)
        narrow = visibility if visibility in narrower(post.visibility) else post.visibility
        if posts.is_edit(writes, post, draft) or narrow is not post.visibility:
            if entry.edited_here and not self._session.options.overwrite:
                self._keep(section, entry.record)
                return
            if not self._session.options.dry_run:
                await external_ids.note_import(writes, entry.link, applying=entry.moment)
                moment = entry.edit_time(entry.moment)
                await posts.update(writes, post.author_id, post.id, draft, visibility=narrow, edited_at=moment)
            self._session.summary[section.kind].changed += 1
        elif entry.moment == entry.link.updated:
            return
        if not self._session.options.dry_run:
            await external_ids.note_import(writes, entry.link, updated=entry.moment, applying=0)

    def _draft(self, entry: _Entry) -> Draft:
        """Return the draft of an edit. Fields that the map does not have keep their values."""
        post, fields = entry.post, entry.record.fields
        worded = {"title", "text", "tags"} & fields.keys()
        spoiler = (
            shortened(fields["spoiler"], self._session.writes.limits.spoiler) if "spoiler" in fields else post.spoiler
        )
        return Draft(
            text=text_of(entry.record, self._session.writes.limits.text).text if worded else post.text,
            spoiler=spoiler,
            sensitive=fields.get("sensitive", post.sensitive and (bool(spoiler) or not post.spoiler)),
            language=fields["language"] if fields.get("language") else post.language,
            media=post.media,
            place=post.place,
            data=fields.get("data", post.data),
            imported=True,
        )

    async def members(self, section: Section, records: Mapping[str, tuple[Record, ExternalProfile]]) -> None:
        """Apply the changes of the profiles of existing members, by their ids in the source."""
        if "updated_at" not in section.fields:
            return
        graph = self._session.writes.graph
        links = await external_ids.links_to_members(graph, map(self._session.external, records))
        nodes = await self._session.nodes({link.member_id for link in links.values()})
        changed = [
            _Profile(*records[external.id], link, member)
            for external, link in links.items()
            if isinstance(member := nodes.get(link.member_id), Member)
            and (
                records[external.id][1].updated_at > link.updated
                or (
                    self._is_same_time(records[external.id][0], link)
                    and link.profile == profile_digest(member.display_name, member.note)
                )
            )
        ]

        async def update(entry: _Profile) -> None:
            try:
                await self._update_member(section, entry)
            except Unavailable:
                raise
            except ShoalError as error:
                self._session.refuse(section, entry.record.where, Rejected(str(error), ""))

        await run_bounded(changed, update, AT_ONCE, patience=self._session.options.patience)

    async def _update_member(self, section: Section, entry: _Profile) -> None:
        record, profile, link, member = entry
        given = {name: getattr(profile, name) for name in ("display_name", "note") if name in record.fields}
        before = profile_digest(member.display_name, member.note)
        if any(getattr(member, name) != value for name, value in given.items()):
            if before not in {link.profile, link.applying} and not self._session.options.overwrite:
                self._keep(section, record)
                return
            if not self._session.options.dry_run:
                after = {"display_name": member.display_name, "note": member.note} | given
                await external_ids.note_import(self._session.writes, link, applying=profile_digest(**after))
                member = await members.update_profile(self._session.writes, member.id, ProfileChange(**given))
            self._session.summary[section.kind].changed += 1
        elif profile.updated_at == link.updated:
            return
        elif link.profile and before not in {link.profile, link.applying}:
            # The member has changed another part of the profile, which later imports must keep.
            return
        if not self._session.options.dry_run:
            digest = profile_digest(member.display_name, member.note)
            values = {"updated": profile.updated_at, "profile": digest, "applying": ""}
            await external_ids.note_import(self._session.writes, link, **values)

    def _is_same_time(self, record: Record, link: ExternalObject | ExternalLink) -> bool:
        """Return whether a row has a known time, and may have changed again within the resolution of its watermark."""
        watermark, newest = record.section.watermark, self._session.newest
        return bool(
            watermark
            and newest is not None
            and record.row[watermark] == newest
            and record.fields.get("updated_at") == link.updated != 0
        )

    def _keep(self, section: Section, record: Record) -> None:
        # A change that is kept is no error, so `strict` does not end the import.
        self._session.summary.refuse(section.kind, f"row {record.where}", _KEPT)
