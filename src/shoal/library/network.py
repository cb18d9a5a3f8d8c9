"""`Shoal`, an open network as an application uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from shoal import settings as configuration
from shoal.admin.database_imports.run import ImportMapped
from shoal.admin.database_imports.session import ImportOptions
from shoal.admin.imports.records import ImportReport
from shoal.admin.report import nothing
from shoal.app.network import Network, open_network
from shoal.app.paths import base_url
from shoal.commands import account_deletions, credentials, invitations, members
from shoal.commands.account_deletions import Farewell
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import AccountDeletion, Post
from shoal.core.publishing import Check
from shoal.graph.access import access_member
from shoal.library.acting import AnyMember, AnyPost, resolve
from shoal.library.declared_reactions import DeclaredReactions
from shoal.library.external_ids import ExternalIds
from shoal.library.handle import Handle, Visitor
from shoal.library.kinds import Kinds
from shoal.library.moderation import Moderation, NetworkBlocklists
from shoal.library.moderation_rules import BulkModeration, ModerationRules
from shoal.library.named_feeds import ServerFeeds
from shoal.library.plugins import plugin
from shoal.library.search import Tags
from shoal.library.server_keys import ServerKeys
from shoal.library.shared_network import SharedNetwork
from shoal.library.webhooks import Webhooks
from shoal.queries.events import END, FULL, MAX_EVENTS, POLL_SECONDS, PUBLIC, Event, EventReader
from shoal.streaming.subscriptions import PRESENCE

if TYPE_CHECKING:
    from shoal.library._generated import Options

SHARED_MODERATION = "moderation: a shared network needs the setting moderation_hook instead"


class Shoal:
    """A network of members and posts, opened by `Shoal.open`."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.tags = Tags(network.reads)
        self.blocklists = NetworkBlocklists(network.writes)
        self.moderation = Moderation(network)
        self.moderation_rules = ModerationRules(network)
        self.bulk_moderation = BulkModeration(network)
        self.kinds = Kinds(network)
        self.declared_reactions = DeclaredReactions(network)
        self.server_keys = ServerKeys(network)
        self.external_ids = ExternalIds(network)
        self.webhooks = Webhooks(network)
        self.server_feeds = ServerFeeds(network)
        self.visitor = Visitor(network)
        self.closing = AsyncExitStack()
        """Tasks and streams that must end before the network is closed."""

    @staticmethod
    @asynccontextmanager
    async def open(
        url: str | dict[str, str] = "sqlite:///shoal.db",
        *,
        shared: bool = False,
        moderation: Check | None = None,
        **settings: Unpack[Options],
    ) -> AsyncIterator[Shoal]:
        """Open the network at a store URL or shard map until the block ends, and create it if it does not exist.

        Several processes may open a `shared` network, which is one SQLite file. One of them owns it and serves the others.
        `settings` are those of `shoal.settings.Settings`, by name. `moderation` decides about posts, edits, profile changes and
        uploads before they are public (docs/howto/moderation-hook.md); a shared network has the setting `moderation_hook` for
        this. Raises `SettingsError` for an unknown setting or invalid value, `InvalidInput` for a URL that names no backend, and
        `Unavailable` if another process has the network open.
        """
        chosen = configuration.build(store=url, **settings)
        if shared and moderation:
            raise InvalidInput(SHARED_MODERATION, field="moderation")
        if shared:
            async with SharedNetwork(chosen, Shoal).opened() as shoal:
                yield shoal
            return
        async with open_network(chosen, moderation=moderation) as network:
            shoal = Shoal(network)
            async with shoal.closing:
                yield shoal

    async def register(
        self,
        name: str,
        password: str | None = None,
        *,
        email: str = "",
        display_name: str = "",
        note: str = "",
        language: str = "",
        reserved: bool = False,
        pending: bool = False,
        reason: str = "",
        invite_code: str = "",
    ) -> Handle:
        """Create a member. A member without a password cannot log in.

        Args:
            name: `[a-z0-9_]{1,30}`, in any case.
            reserved: Allow a reserved name.
            pending: Require approval by a moderator, who is shown the `reason`.
            invite_code: Count a use of this invitation.

        Raises `Taken` for a name or address in use, and `InvalidInput` (`Reserved`, `TooShort`, `TooLarge`) for an invalid value
        and for an invitation that has expired or is used up.
        """
        writes = self.network.writes
        async with invitations.held(writes, invite_code, name) if invite_code else nullcontext() as invited:
            made = await members.register(
                writes,
                name,
                password=password,
                email=email,
                display_name=display_name,
                note=note,
                language=language,
                reserved=reserved,
                pending=pending,
                reason=reason,
                invited=invited,
            )
        return Handle(self.network, made)

    async def log_in(self, name_or_email: str, password: str, code: str = "") -> Handle:
        """Return the member with this password and, if they have a second factor, this code.

        Raises `Unauthenticated`, `CodeNeeded` if a code is missing, and `NotAllowed` for a member barred from logging in.
        """
        return Handle(self.network, await members.log_in(self.network.writes, name_or_email, password, code=code))

    async def member(self, who: AnyMember) -> Handle:
        """Return a handle to act as a member. Raises `NotFound` and, for the id of a suspended member, `Gone`."""
        if isinstance(who, Handle):
            return who
        if isinstance(who, str):
            found = await members.find(self.network.writes, who)
            if found is None:
                raise NotFound(f"no member {who!r}")
            return Handle(self.network, found)
        return Handle(self.network, await access_member(self.network.store, await resolve(self.network, who)))

    async def set_password(self, who: AnyMember, password: str) -> None:
        """Set a member's password, which ends all their sessions. Raises `NotFound`, `TooShort` and `TooLarge`."""
        await credentials.set_password(self.network.writes, (await self.member(who)).id, password)

    async def forgot_password(self, name_or_email: str, language: str = "") -> None:
        """Send a password reset link to the member with this name or address. Requires the setting `mail`.

        The call does not reveal whether the member exists. `language` is the language of the mail, such as "de"; by default the
        member's. Raises `InvalidInput` for an empty text.
        """
        await credentials.forgot(self.network.writes, name_or_email, language)

    async def reset_password(self, proof: str, password: str) -> Handle:
        """Set a new password by a reset link, and end all sessions. `proof` is the end of the link `/reset/<proof>`.

        Raises `Gone` for an expired or used link, `TooShort` and `TooLarge`.
        """
        return Handle(self.network, await credentials.reset_password(self.network.writes, proof, password))

    async def confirm_email(self, proof: str) -> Handle:
        """Confirm a member's new or current email address by a link. `proof` is the end of the link `/confirm/<proof>`.

        Raises `Gone` for an expired or used link, `Taken` if another member has the address by now, and `NotAllowed` if the
        member changed theirs too often.
        """
        return Handle(self.network, await credentials.confirm(self.network.writes, proof))

    async def undo_email_change(self, proof: str) -> Handle:
        """Restore a member's previous address, which ends all sessions and deletes passkeys.

        `proof` is the end of the link `/undo/<proof>`. Raises `Gone` for an expired or used link.
        """
        return Handle(self.network, await credentials.undo_change(self.network.writes, proof))

    async def set_email(self, who: AnyMember, address: str) -> None:
        """Set or remove ("") a member's address without a confirmation mail.

        Raises `NotFound`, `InvalidInput`, `Taken`, and `Conflict` for a member without a login.
        """
        await credentials.set_email(self.network.writes, (await self.member(who)).id, address)

    async def come_back(self, name_or_email: str, password: str) -> Handle:
        """Undo `Handle.leave`, before the deletion of the account begins.

        Raises `Unauthenticated`, and `NotAllowed` if no deletion is scheduled or it has begun.
        """
        return Handle(self.network, await account_deletions.come_back(self.network.writes, name_or_email, password))

    async def receipt(self, text: str) -> AccountDeletion:
        """Return what a deleted account contained, and when it was deleted. Raises `NotFound` for an unknown receipt."""
        return await account_deletions.receipt(self.network.writes, text)

    async def delete_member(self, who: AnyMember, days: int = 0) -> Farewell:
        """Schedule the deletion of a member's account in `days`, as `Handle.leave` but without their password.

        Raises `NotFound`, and `NotAllowed` if the deletion has begun.
        """
        return await account_deletions.dismiss(self.network.writes, await resolve(self.network, who), days)

    async def keep_member(self, who: AnyMember) -> Handle:
        """Undo `Handle.leave` or `delete_member`. Raises `NotFound`, and `NotAllowed` if the deletion has begun."""
        return Handle(self.network, await account_deletions.keep(self.network.writes, await resolve(self.network, who)))

    async def suspend(self, who: AnyMember) -> None:
        """Hide a member and all their posts, as `moderation.suspend`. Raises `NotFound`."""
        await self.moderation.suspend(who)

    async def restore(self, who: AnyMember) -> None:
        """Undo `suspend`. Raises `NotFound`."""
        await self.moderation.restore(who)

    async def hide(self, post: AnyPost) -> Post:
        """Hide a post, as `moderation.hide`. Raises `NotFound`."""
        return await self.moderation.hide(post)

    async def reveal(self, post: AnyPost) -> Post:
        """Undo `hide`. Raises `NotFound`."""
        return await self.moderation.reveal(post)

    async def events(
        self, after: str | None = None, types: Sequence[str] = (), *, public: bool = False
    ) -> AsyncGenerator[Event, None]:
        """Iterate over the events of the network, which needs the setting `event_log`. Events may repeat, with equal ids.

        Args:
            after: The `position` of the last processed event, or the result of `events_end`; "start" for the oldest stored event,
                and None for the time when the iteration begins.
            types: Types such as "post.created", or "post" for all types of posts; empty for all types.
            public: Leave out what only members or moderators may see.

        Ends when the network closes. Raises `Gone` if events after the position were deleted, `InvalidInput` if the network keeps
        no event log and for an invalid value, `NotAllowed` for types that are not `public`, and `Unavailable`.
        """
        network = self.network
        reader = EventReader(network.store, base_url(network.settings))
        access = PUBLIC if public else FULL
        async with network.hub.connect(0, to=PRESENCE) as connection:
            pause = partial(connection.lasts, POLL_SECONDS)
            chosen = types if isinstance(types, str) else ",".join(types)
            pages = reader.pages(END if after is None else after, chosen, access, MAX_EVENTS, pause)
            async with aclosing(pages):
                async for page in pages:
                    for event in page.positioned():
                        yield event

    async def events_end(self) -> str:
        """Return the position after all events so far, for `events`. State that is read afterwards includes all of them.

        Raises `InvalidInput` if the network keeps no event log, and `Unavailable`.
        """
        return await EventReader(self.network.store, base_url(self.network.settings)).position(END)

    async def events_state(self, *, public: bool = False) -> AsyncGenerator[Event, None]:
        """Iterate over the current state of the network, as events of creations. Call `events_end` before, and continue from there.

        With `public`, it leaves out what only members or moderators may see. Raises `Unavailable`.
        """
        reader = EventReader(self.network.store, base_url(self.network.settings))
        after: str | None = ""
        while after is not None:
            page = await reader.state(after, PUBLIC if public else FULL, MAX_EVENTS)
            for event in page.events:
                yield event
            after = page.next

    async def project(self, url: str, include: Sequence[str] = (), *, rebuild: bool = False) -> None:
        """Store all events so far in SQL tables (docs/howto/sql.md). The next call continues there.

        Needs the setting `event_log`. If the call is interrupted, each event is still stored exactly once.

        Args:
            url: `postgresql://…`, `sqlite:///FILE`, `duckdb:FILE` or `parquet:DIR`. In a shared network, the path is absolute.
            include: Private data to add, the same in each call: "followers", "direct" or "connections".
            rebuild: Delete the tables, and read the current state again.

        Raises `InvalidInput` for an invalid value, a missing package, and tables that need a rebuild; `Gone` if events were deleted
        before they were stored; and `Conflict` if another program writes to the tables.
        """
        await plugin("project")(self.network, url, include, rebuild=rebuild)

    async def import_database(
        self,
        import_map: str,
        source: str,
        *,
        issuer: str = "",
        media: str | Path | None = None,
        fetch_media: bool = False,
        dry_run: bool = False,
        strict: bool = False,
        overwrite: bool = False,
        full: bool = False,
        rejected: str | Path | None = None,
    ) -> ImportReport:
        """Import the members, follows, posts and so on of another product (docs/howto/import-database.md).

        After an interruption, call it again: it continues after the last stored batch. In a shared network, the paths of the map
        and the source are absolute. Roles are not checked.

        Args:
            import_map: TOML file that assigns tables to members, posts and so on, or the name of a ready map.
            source: `postgresql://…`, `mysql://…`, `sqlite:///FILE`, or a folder.
            issuer: Product whose ids the rows have, instead of that of the map.
            media: Folder of the media that have a path.
            fetch_media: Fetch the media that have a URL.
            dry_run: Write nothing, and report what would be imported.
            strict: End at the first rejected row.
            overwrite: Replace changes that were made here by later changes of the source.
            full: Read all rows, also those before the stored position.
            rejected: New file for all rejected rows, as JSON lines.

        Raises `InvalidInput` for a wrong map, a source that it does not fit, and a missing package, and `Unavailable`.
        """
        options = ImportOptions(
            dry_run=dry_run,
            strict=strict,
            overwrite=overwrite,
            full=full,
            media=Path(media) if media else None,
            fetch=fetch_media,
            networks=self.network.settings.outgoing_networks,
        )
        target = Path(rejected) if rejected else None
        operation = await asyncio.to_thread(ImportMapped.of, import_map, source, issuer, options, target)
        return await operation.carry_out(self.network, nothing)

    async def settle(self, patience: float = 60.0) -> None:
        """Wait until the background work of earlier calls, such as fan-out, is done.

        Raises `TimeoutError` after `patience` seconds.
        """
        await self.network.settle(patience)
