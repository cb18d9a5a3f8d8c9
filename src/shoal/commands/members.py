"""Register members, check their login, change their profile, and resolve the tags and mentions in a text.

A text links at most 100 tags and 50 members; the rest stays plain text. The contact salt is the server-wide salt for hashed
email addresses in contact search; the first use creates it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, structs

from shoal import gazetteer
from shoal.commands import authentication, publishing, relationships
from shoal.commands.authentication import Asker
from shoal.commands.context import Limits, Writes, add_node, made_once
from shoal.commands.oauth import check_welcome
from shoal.commands.publishing import With
from shoal.core.credentials import Login
from shoal.core.email import SALT_BYTES, ContactSalt, MailKind, hash_address
from shoal.core.errors import (
    CodeNeeded,
    InvalidInput,
    NotAllowed,
    ShoalError,
    Taken,
    TooLarge,
    TooShort,
    Unauthenticated,
    Unfit,
    is_refusal,
)
from shoal.core.events import FilesReleased, MailDue, MemberRegistered, NamedFeedChanged, ProfileChanged
from shoal.core.ids import milliseconds_of
from shoal.core.licenses import License
from shoal.core.media_files import files_of_member
from shoal.core.model import MediaKind, Member, Mention, ProfileField, QuotePolicy, Visibility
from shoal.core.placement import place
from shoal.core.places import Location, PlacePrecision
from shoal.core.publishing import ALLOW, Decision, HeldContent
from shoal.core.signup import Invited
from shoal.core.text import check_email, check_text, check_user_name, mentions_of, normalized, tags_of
from shoal.graph import member_lookup
from shoal.graph.access import access_member, members_by_id
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch, IdTaken, KeyTaken
from shoal.graph.member_lookup import free_address, keep_address, member_called, redeclare
from shoal.graph.schema import contact_salt_key, email_key, import_key, user_name_id, user_name_key
from shoal.i18n import check_language, language_tag

MAX_MENTIONS = 50
_MAX_TAGS = 100


def tags_named(text: str) -> tuple[str, ...]:
    """Return the first hundred distinct tags of a text in canonical form; further ones stay plain text."""
    return tuple(canonical for canonical, _ in tags_of(text)[:_MAX_TAGS])


async def members_named(writes: Writes, text: str) -> tuple[Mention, ...]:
    """Return the members mentioned in a text. Mentions beyond the fiftieth, and of pending members, stay plain text."""
    names = mentions_of(text, writes.domain)[:MAX_MENTIONS]
    if not names:
        return ()
    keys = {user_name_key(name): name for name in names}
    found = await writes.graph.key_get(list(keys))
    members = await members_by_id(writes.graph, list(found.values()))
    there = {id_ for id_, member in members.items() if not member.pending}
    return tuple(Mention(found[key], name) for key, name in keys.items() if found.get(key) in there)


def _with_mentions(member: Member, named: tuple[Mention, ...], domain: str) -> Member:
    text = "\n".join((member.note, *(field.value for field in member.fields)))
    names = set(mentions_of(text, domain))
    found = dict.fromkeys((*member.mentions, *named))
    return structs.replace(member, mentions=tuple(mention for mention in found if mention.name in names))


async def contact_salt(writes: Writes) -> str:
    """Return the contact salt in hexadecimal. The first call creates it."""

    def make(id_: int) -> ContactSalt:
        return ContactSalt(id=id_, salt=secrets.token_bytes(SALT_BYTES))

    return (await made_once(writes, contact_salt_key(), ContactSalt, make)).salt.hex()


_HELD_MS = 60_000
"""Milliseconds for which an email address is reserved for a registration that has not committed yet."""

_PLAIN = (
    "bot",
    "discoverable",
    "locked",
    "hides_connections",
    "indexable",
    "folds_shares",
    "rankable",
    "asks_descriptions",
    "shows_photo_details",
    "default_license",
    "allows_downloads",
    "shows_replies",
    "default_visibility",
    "default_sensitive",
    "quote_policy",
    "place_precision",
    "shows_location",
)
"""Profile fields that need no validation."""

MAX_DOMAINS = 100
"""Attribution domains per profile."""
MAX_DOMAIN = 253
_DOMAIN = re.compile(r"(?:[\w](?:[\w-]*[\w])?\.)+[\w](?:[\w-]*[\w])?")
"""A host name of two labels or more (RFC 1034, 3.1), in any script."""
_WRONG = "the name or the password is wrong"


class HeldProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of a held profile; None keeps a value. Pictures are keys of stored files."""

    display_name: str | None = None
    note: str | None = None
    fields: tuple[ProfileField, ...] | None = None
    avatar: str | None = None
    header: str | None = None
    before: HeldProfile | None = None
    """The values that these replace. Approval fails if they have been changed since."""


class ProfileChange(msgspec.Struct, frozen=True, kw_only=True):
    """Profile changes; None keeps the current value."""

    display_name: str | None = None
    note: str | None = None
    fields: Sequence[tuple[str, str]] | None = None
    bot: bool | None = None
    discoverable: bool | None = None
    locked: bool | None = None
    hides_connections: bool | None = None
    indexable: bool | None = None
    folds_shares: bool | None = None
    rankable: bool | None = None
    asks_descriptions: bool | None = None
    shows_photo_details: bool | None = None
    default_license: License | None = None
    allows_downloads: bool | None = None
    shows_replies: bool | None = None
    findable_by_email: bool | None = None
    default_visibility: Visibility | None = None
    default_sensitive: bool | None = None
    default_language: str | None = None
    attribution_domains: Sequence[str] | None = None
    quote_policy: QuotePolicy | None = None
    place_precision: PlacePrecision | None = None
    """Applies to future posts; existing posts keep their places."""
    location: Location | UnsetType | None = UNSET
    """Where the member lives (see `location_of`); None deletes it."""
    shows_location: bool | None = None
    avatar: bytes | None = None
    header: bytes | None = None


async def register(
    writes: Writes,
    name: str,
    *,
    password: str | None = None,
    hashed: str = "",
    email: str = "",
    display_name: str = "",
    note: str = "",
    language: str = "",
    created_at: int = 0,
    reserved: bool = False,
    record: str = "",
    pending: bool = False,
    reason: str = "",
    unconfirmed: bool = False,
    confirms: bool = False,
    network: str = "",
    invited: Invited | None = None,
    confirmed: bool = False,
    extra: Callable[[Batch, int], None] = lambda _batch, _member_id: None,
) -> Member:
    """Create a member, on the shard of the name. Without a password, logging in is impossible until one is set.

    `hashed` is the result of `authentication.hashed`, for many members with one password. Operators may use a `reserved` name.
    An import passes `record`, a unique name by which it finds the member again. A `pending` member can neither act nor be seen
    until approved (`moderation.approve`); `reason` is their message to the moderators. An `unconfirmed` member waits until they
    open the link in a mail, which is sent if `confirms` is true. `network` is the client's address prefix; it is recorded as
    one from which the member has logged in. An `invited` member gets the id that `invitations.held` yields. `confirmed` means
    that the address is known to be the member's. `extra` adds changes to the commit that creates the member, whose id it
    gets. Raises `Taken` for a name or address in use, and `InvalidInput` for a malformed value.
    """
    name = check_user_name(name, reserved=reserved)
    display_name = check_text(display_name, field="display_name", maximum=writes.limits.display_name)
    note = check_text(note, field="note", maximum=writes.limits.note)
    language = language_tag(language)
    address = check_email(email) if email else ""
    reason = check_text(reason, field="reason", maximum=writes.limits.reason)
    key, shard = user_name_key(name), place(name).shard
    named = await members_named(writes, note)
    if await writes.graph.key_get((key,)):
        raise Taken("Username has already been taken", field="username")
    login = Login(
        id=0,
        member_id=0 if invited is None else invited.member_id,
        email=address,
        password=hashed if password is None else await authentication.hashed(check_password(writes, password)),
        reason=reason,
        confirmed=confirmed,
        needs_approval=pending and unconfirmed,
    )
    waits = pending or unconfirmed

    def build(login: Login, id_: int) -> tuple[Member, Batch]:
        secrets = msgspec.structs.replace(login, id=id_, networks=authentication.prefixes_of(id_, network))
        member = Member(
            id=login.member_id,
            name=name,
            display_name=display_name,
            note=note,
            mentions=named,
            default_language=language,
            login_id=id_,
            dated=created_at,
            pending=waits,
            unconfirmed=unconfirmed,
            suspended=waits,
            invited_by=invited.inviter.id if invited else 0,
            follows_inviter=waits and invited is not None and invited.follow,
        )
        batch = Batch(shard)
        batch.key_add(key, member.id)
        if record:
            batch.key_add(import_key(shard, record), member.id)
        batch.obj_add(member)
        batch.obj_add(secrets)
        batch.emit(ProfileChanged(member_id=member.id))
        batch.emit(NamedFeedChanged(feed_id=user_name_id(name), time=writes.new_id(shard)))
        if invited is not None and invited.follow and not waits:
            relationships.begin_first(writes, batch, member.id, invited.inviter)
        if address:
            batch.emit(MemberRegistered(member_id=member.id, address=address))
            if confirms:
                batch.emit(MailDue(kind=MailKind.CONFIRM, asked=writes.new_id(shard), member_id=member.id))
        extra(batch, member.id)
        return member, batch

    try:
        member = await _add(writes, shard, login, build)
    except KeyTaken as error:
        raise Taken("Username has already been taken", field="username") from error
    if address:
        # If this call fails, the consumer of `MemberRegistered` repeats it later: the member exists already.
        with contextlib.suppress(ShoalError):
            await keep_address(writes.graph, member.id, address)
    return member


def imported(
    limits: Limits, ids: tuple[int, int], name: str, display_name: str, note: str, created_at: int
) -> tuple[Member, Login]:
    """Return the member and login that `register` would create for an import record, with the given ids.

    The caller has checked the name. Raises `InvalidInput` for malformed values.
    """
    member_id, login_id = ids
    member = Member(
        id=member_id,
        name=name,
        display_name=check_text(display_name, field="display_name", maximum=limits.display_name),
        note=check_text(note, field="note", maximum=limits.note),
        login_id=login_id,
        dated=created_at,
    )
    return member, Login(id=login_id, member_id=member_id)


async def _add(writes: Writes, shard: int, login: Login, build: Callable[[Login, int], tuple[Member, Batch]]) -> Member:
    """Commit a member with their login.

    The member's id is `login.member_id` if the caller reserved an id, or a new id.
    """
    theirs = msgspec.structs.replace(login, member_id=login.member_id or writes.new_id(shard))
    if login.email:
        await hold_address(writes, login.email, theirs.member_id, milliseconds_of(theirs.member_id))
    try:
        return await add_node(writes, shard, lambda id_: build(theirs, id_))
    except IdTaken:
        if login.email:
            await free_address(writes.graph, theirs.member_id, login.email)
        if login.member_id:
            raise
    return await _add(writes, shard, login, build)


async def hold_address(writes: Writes, address: str, member_id: int, now: int) -> None:
    """Reserve an email address for a minute from `now` (Unix ms). Raises `Taken` if another member has it."""
    key = email_key(address)
    batch = Batch(key.shard)
    batch.key_add(key, member_id, until=now + _HELD_MS)
    try:
        await writes.graph.commit(batch)
    except KeyTaken as error:
        raise Taken("Email has already been taken", field="email") from error


async def check_free(writes: Writes, address: str, member_id: int) -> None:
    """Raise `Taken` if another member has the address."""
    key = email_key(address)
    if (await writes.graph.key_get((key,))).get(key, member_id) != member_id:
        raise Taken("Email has already been taken", field="email")


async def log_in(
    writes: Writes, name_or_email: str, password: str, asker: Asker | None = None, *, code: str = ""
) -> Member:
    """Return the member with this name or address and password. A member with a second factor also needs the `code`.

    `asker` is None for a caller inside the process. Raises `Unauthenticated`, with one message for every reason, `CodeNeeded`
    for a correct password without a code, `NotAllowed` for a member barred from logging in, and `TooMany` if the `asker` is
    rate-limited.
    """
    member = await knows_password(writes, name_or_email, password, asker)
    if member.second_factor:
        if not code:
            raise CodeNeeded("This account requires a second factor")
        if not await authentication.code_counts(writes, member, code, asker):
            raise Unauthenticated(_WRONG)
    return member


async def knows_password(writes: Writes, name_or_email: str, password: str, asker: Asker | None = None) -> Member:
    """Return the member with this name or address and password, if they may log in. The second factor is not checked.

    Raises `Unauthenticated`, with one message for every reason, `NotAllowed` for a member barred from logging in, and `TooMany` if
    the `asker` is rate-limited.
    """
    return await welcomed(writes, await by_password(writes, name_or_email, password, asker), asker)


async def by_passkey(writes: Writes, answer: str, asker: Asker) -> Member:
    """Return the member whose passkey signed the response, if they may log in.

    Raises `Unauthenticated`, with one message for every reason, `NotAllowed` for a member barred from logging in, and `TooMany` if
    the `asker` is rate-limited.
    """
    return await welcomed(writes, await authentication.by_passkey(writes, answer, asker), asker)


async def welcomed(writes: Writes, member: Member, asker: Asker | None) -> Member:
    """Return an authenticated member if they may log in. Raises `NotAllowed` otherwise, and records the failed login."""
    try:
        check_welcome(member)
    except NotAllowed:
        await authentication.failed(writes, await login_of(writes, member), member.name, asker, "not allowed in")
        raise
    return member


async def by_password(writes: Writes, name_or_email: str, password: str, asker: Asker | None = None) -> Member:
    """Return the member with this name or address and password, even if they may not log in.

    Raises `Unauthenticated`, with one message for every reason, and `TooMany` if the `asker` is rate-limited.
    """
    member = await find_login(writes, name_or_email)
    login = await login_of(writes, member) if member is not None else None
    fits = await authentication.fits(writes, login, name_or_email, password, asker)
    if member is None or not fits:
        raise Unauthenticated(_WRONG)
    return member


async def find(writes: Writes, name_or_email: str) -> Member | None:
    return await member_called(writes.graph, name_or_email)


async def find_login(writes: Writes, typed: str) -> Member | None:
    return await member_called(writes.graph, typed, writes.domain)


async def update_profile(writes: Writes, member_id: int, profile: ProfileChange) -> Member:
    """Change the given values of a profile. The files of replaced pictures are deleted later.

    If a check holds the texts and pictures, only the other values change. Raises `Rejected` or `Held` by a check.
    """
    changes = _checked_profile(writes, profile)
    member = await access_member(writes.graph, member_id)
    if profile.findable_by_email is not None:
        changes["email_hash"] = await _email_hash(writes, member) if profile.findable_by_email else ""
    pictures: dict[str, tuple[str, str]] = {}  # keys and blurhashes
    try:
        if profile.avatar is not None:
            pictures["avatar"] = await writes.media.store_avatar(member.name, profile.avatar)
        if profile.header is not None:
            pictures["header"] = await writes.media.store_header(member.name, profile.header)
        decision = (
            await _decision(writes, member, profile, changes, pictures) if await writes.checks.in_force() else ALLOW
        )
        changes |= {name: key for name, (key, _blurhash) in pictures.items()}
        if decision.action == "hold":
            content = {name: changes.pop(name) for name in _HELD if name in changes}
            if changes:
                await _change(writes, member_id, changes)
            before = {name: getattr(member, name) for name in content}
            held = _held(member, content, before, decision)
            raise await publishing.hold(writes, held, merge=partial(_merged, writes))
        values = (field.value for field in changes.get("fields", ()))
        named = await members_named(writes, "\n".join((changes.get("note", ""), *values)))

        def extra(batch: Batch, _id: int, _now: int) -> None:
            publishing.note_unchecked(writes, batch, decision, "profile", member)

        return await _change(writes, member_id, changes, named, extra)
    except ShoalError as error:
        if pictures and is_refusal(error):
            # One of the two pictures may have been stored before the other was found invalid.
            await writes.media.remove([key for key, _blurhash in pictures.values()])
        raise


async def _decision(
    writes: Writes,
    member: Member,
    profile: ProfileChange,
    changes: dict[str, Any],
    pictures: Mapping[str, tuple[str, str]],
) -> Decision:
    """Return the decision of the checks about the texts and pictures that change. Raises `Rejected`."""
    if all(changes.get(name, value) == value for name, value in _texts_of(member).items()) and not pictures:
        return ALLOW
    media = tuple(
        publishing.facts_of_file(0, MediaKind.IMAGE, getattr(profile, name), blurhash)
        for name, (_key, blurhash) in pictures.items()
    )
    return await publishing.check(writes, member, "profile", _lines(changes), media=media)


def _texts_of(member: Member) -> dict[str, Any]:
    return {"display_name": member.display_name, "note": member.note, "fields": member.fields}


def _lines(changes: Mapping[str, Any]) -> list[str]:
    rows = [f"{field.name} {field.value}".strip() for field in changes.get("fields", ())]
    return [changes.get("display_name", ""), changes.get("note", ""), *rows]


_HELD = ("display_name", "note", "fields", "avatar", "header")
_decode_held = msgspec.msgpack.Decoder(HeldProfile).decode


def _held(member: Member, content: dict[str, Any], before: dict[str, Any], decision: Decision) -> HeldContent:
    return HeldContent(
        id=decision.candidate_id,
        owner_id=member.id,
        kind="profile",
        text="\n".join(filter(None, _lines(content))),
        content=publishing.encode(HeldProfile(**content, before=HeldProfile(**before))),
        files=tuple(content[name] for name in ("avatar", "header") if content.get(name)),
        reason=decision.reason,
        rule=decision.rule,
    )


def _values(profile: HeldProfile | None) -> dict[str, Any]:
    return {name: value for name in _HELD if (value := getattr(profile, name, None)) is not None}


async def _merged(writes: Writes, held: HeldContent, earlier: Sequence[HeldContent]) -> HeldContent:
    """Return a held change with the values of earlier ones that neither it nor the profile has replaced since."""
    member = await access_member(writes.graph, held.owner_id)
    values: dict[str, Any] = {}
    before: dict[str, Any] = {}
    for each in (*earlier, held):
        change = _decode_held(each.content)
        for name, replaced in _values(change.before).items():
            if each is held or replaced == getattr(member, name):
                values[name], before[name] = getattr(change, name), replaced
    changed = [name for name, value in values.items() if value != before[name]]
    return _held(
        member,
        {name: values[name] for name in changed},
        {name: before[name] for name in changed},
        Decision("hold", held.reason, held.rule),
    )


async def apply_held(writes: Writes, held: HeldContent, together_with: With) -> Member:
    """Apply an approved profile change. Raises `Unfit` if the profile has been changed since."""
    change = _decode_held(held.content)
    changes, before = _values(change), _values(change.before)
    values = (field.value for field in changes.get("fields", ()))
    named = await members_named(writes, "\n".join((changes.get("note", ""), *values)))
    return await _change(writes, held.owner_id, changes, named, together_with, before)


async def _email_hash(writes: Writes, member: Member) -> str:
    login = await login_of(writes, member)
    if login is None or not login.email:
        raise Unfit("findable_by_email: this account has no e-mail address", field="findable_by_email")
    return hash_address(await contact_salt(writes), login.email)


async def remove_picture(writes: Writes, member_id: int, which: str) -> Member:
    return await _change(writes, member_id, {which: ""})


async def _change(
    writes: Writes,
    member_id: int,
    changes: dict[str, Any],
    named: tuple[Mention, ...] = (),
    together_with: With = lambda _batch, _id, _now: None,
    expected: Mapping[str, Any] | None = None,
) -> Member:
    """Apply profile changes to the member's current state, so that concurrent changes of other fields are kept.

    Raises `Unfit` if a value is neither the `expected` one nor the new one.
    """

    def changed(member: Member) -> Member:
        for name, value in (expected or {}).items():
            if getattr(member, name) not in (value, changes[name]):
                raise Unfit("The profile has been changed since: reject this change")
        return _with_mentions(msgspec.structs.replace(member, **changes), named, writes.domain)

    def extra(batch: Batch, before: Member, after: Member) -> None:
        batch.emit(ProfileChanged(member_id=member_id))
        redeclare(batch, before, after, writes.new_id(batch.shard))
        retained = files_of_member(after)
        if gone := tuple(key for key in files_of_member(before) if key not in retained):
            batch.emit(FilesReleased(keys=gone))
        together_with(batch, member_id, writes.new_id(batch.shard))

    return await change_object(
        writes.graph,
        lambda: access_member(writes.graph, member_id),
        changed,
        extra,
    )


def _checked_profile(writes: Writes, profile: ProfileChange) -> dict[str, Any]:
    limits = writes.limits
    changes = {name: value for name in _PLAIN if (value := getattr(profile, name)) is not None}
    if profile.location is not UNSET:
        changes["location"] = profile.location
    if profile.default_language is not None:
        changes["default_language"] = check_language(profile.default_language, field="default_language")
    for name, maximum in (("display_name", limits.display_name), ("note", limits.note)):
        if (value := getattr(profile, name)) is not None:
            changes[name] = check_text(value, field=name, maximum=maximum)
    if profile.attribution_domains is not None:
        changes["attribution_domains"] = _checked_domains(profile.attribution_domains)
    if profile.fields is not None:
        if len(profile.fields) > limits.profile_fields:
            raise InvalidInput(f"fields: at most {limits.profile_fields} fields", field="fields")
        most = limits.profile_field
        checked = [[check_text(part, field="fields", maximum=most) for part in field] for field in profile.fields]
        changes["fields"] = tuple(ProfileField(name, value) for name, value in checked if name or value)
    return changes


async def location_of(text: str, language: str = "en") -> Location | None:
    """Return the place of residence that a member typed, a town or country; None for an empty text.

    Raises `TooLarge` for a text that is too long, `InvalidInput` for an unknown name (the message suggests similar names in this
    language), and `Unfit` on a server without the data of place names.
    """
    if not text.strip():
        return None
    return await asyncio.to_thread(lambda: gazetteer.required("location").location(text, language))


def _checked_domains(typed: Sequence[str]) -> tuple[str, ...]:
    domains = tuple(dict.fromkeys(domain for line in typed if (domain := line.strip().lower())))
    if len(domains) > MAX_DOMAINS:
        raise InvalidInput(f"attribution_domains: at most {MAX_DOMAINS} domains", field="attribution_domains")
    for domain in domains:
        if len(domain) > MAX_DOMAIN or _DOMAIN.fullmatch(domain) is None:
            message = "attribution_domains: expected domain names such as example.org, without scheme or path"
            raise InvalidInput(message, field="attribution_domains")
    return domains


async def login_of(writes: Writes, member: Member) -> Login | None:
    return await member_lookup.login_of(writes.graph, member)


def check_password(writes: Writes, password: str, *, field: str = "password") -> str:
    """Return the password if it has a valid length. Raises `TooShort` or `TooLarge` otherwise."""
    least, most = writes.limits.password_least, writes.limits.password_most
    length = len(normalized("NFC", password))
    if least <= length <= most:
        return password
    wrong = TooShort if length < least else TooLarge
    raise wrong(f"{field}: {least} to {most} characters, not {length}", field=field)
