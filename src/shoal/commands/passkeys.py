"""Commands for a member's passkeys. Adding and removing require the password and, if enabled, the second factor.

`authentication` has the login by passkey.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from shoal.commands import authentication, external_ids, second_factor
from shoal.commands.audit import note
from shoal.commands.authentication import Asker, OwnerProof
from shoal.commands.context import Writes
from shoal.core.audit import AuditVerb, member_target
from shoal.core.credentials import (
    MOST_NAME,
    BadAnswer,
    Login,
    Passkey,
    Purpose,
    Site,
    made,
    making_options,
    read_new_key,
)
from shoal.core.email import MailKind
from shoal.core.errors import InvalidInput, NotAllowed, NotFound
from shoal.core.events import MailDue
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.core.text import check_text
from shoal.graph.access import access_member
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, KeyTaken
from shoal.graph.member_lookup import login_of

MOST = 20

_MAILS = {AuditVerb.PASSKEY_ADDED: MailKind.PASSKEY_ADDED, AuditVerb.PASSKEY_REMOVED: MailKind.PASSKEY_REMOVED}
_REFUSED = "The device did not make a passkey for this account in time; please try again"


async def of_member(writes: Writes, member_id: int) -> tuple[Passkey, ...]:
    login = await login_of(writes.graph, await access_member(writes.graph, member_id))
    return login.passkeys if login else ()


async def options(writes: Writes, site: Site, member: Member) -> dict[str, object]:
    challenge = await authentication.make_challenge(writes, Purpose.ADD, member.id)
    known = await of_member(writes, member.id)
    return making_options(site, challenge, known, member.id, member.name, member.display_name)


async def add(
    writes: Writes, member_id: int, name: str, answer: str, password: OwnerProof, code: str, asker: Asker
) -> Passkey:
    """Add the passkey that a device created in response to `options` for the asker's site, and notify the member by mail.

    Raises `InvalidInput` for a wrong password or code and for an invalid or reused response, `NotAllowed` if the member has too
    many passkeys, and `TooMany` if the `asker` is rate-limited.
    """
    name = check_text(name, field="name", maximum=MOST_NAME) or "Passkey"
    try:
        found = read_new_key(answer)
        fits = await authentication.challenge_fits(writes, found.challenge, Purpose.ADD, member_id)
        passkey = made(asker.site, found, name, writes.new_id.now())
    except BadAnswer:
        raise InvalidInput(_REFUSED, field="answer") from None
    if not fits:
        raise InvalidInput(_REFUSED, field="answer")
    await second_factor.check_owner(writes, member_id, password, code, asker)

    def add_to(login: Login, batch: Batch) -> Login:
        if any(known.credential == passkey.credential for known in login.passkeys):
            raise InvalidInput("This device has a passkey for this account already", field="answer")
        if len(login.passkeys) >= MOST:
            raise NotAllowed("You have the maximum number of passkeys: remove one first")
        authentication.use_up_challenge(writes, batch, found.challenge)
        return replace(login, passkeys=(*login.passkeys, passkey))

    try:
        await _change(writes, member_id, add_to, AuditVerb.PASSKEY_ADDED, name)
    except KeyTaken:
        raise InvalidInput(_REFUSED, field="answer") from None
    return passkey


async def rename(writes: Writes, member_id: int, id_: str, name: str) -> None:
    name = check_text(name, field="name", maximum=MOST_NAME) or "Passkey"

    def renamed(login: Login, _batch: Batch) -> Login:
        before = _passkey(login.passkeys, id_)
        after = replace(before, name=name)
        return replace(login, passkeys=tuple(after if passkey is before else passkey for passkey in login.passkeys))

    await _change(writes, member_id, renamed)


async def remove(
    writes: Writes,
    member_id: int,
    id_: str,
    password: OwnerProof,
    code: str,
    asker: Asker | None,
    providers: Collection[str] = (),
) -> None:
    """Remove a passkey, and notify the member by mail. `providers` are the issuers of login providers.

    Raises `InvalidInput` for a wrong password or code, `NotFound` for an unknown passkey, `NotAllowed` for the last passkey if it
    is the only second factor or the only way to log in, and `TooMany` if the `asker` is rate-limited.
    """
    name = _passkey(await of_member(writes, member_id), id_).name
    await second_factor.check_owner(writes, member_id, password, code, asker)

    def removed(login: Login, _batch: Batch) -> Login:
        before = _passkey(login.passkeys, id_)
        left = tuple(passkey for passkey in login.passkeys if passkey is not before)
        if not left and login.second is not None and not login.second.key:
            raise NotAllowed(
                "This passkey is your second factor: add another one first or turn off two-factor authentication"
            )
        return replace(login, passkeys=left)

    await _change(writes, member_id, removed, AuditVerb.PASSKEY_REMOVED, name, providers)


async def _change(
    writes: Writes,
    member_id: int,
    change: Callable[[Login, Batch], Login],
    verb: AuditVerb | None = None,
    name: str = "",
    providers: Collection[str] | None = None,
) -> None:
    """Change the login. With `providers`, the issuers of login providers, a way to log in must remain."""

    async def attempt() -> None:
        member = await access_member(writes.graph, member_id)
        login = await login_of(writes.graph, member)
        if login is None:
            raise NotFound("Record not found")
        batch = Batch(shard_of(member_id))
        after = change(login, batch)
        if providers is not None:
            await external_ids.check_login_remains(writes, member, after, providers)
        batch.obj_set(replace(after, version=login.version + 1))
        if verb is not None:
            note(writes, batch, verb, member_target(member), passkey=name)
            if login.email:
                asked = writes.new_id(batch.shard)
                batch.emit(MailDue(kind=_MAILS[verb], asked=asked, member_id=member_id, passkey=name))
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt, lambda conflict: not isinstance(conflict, KeyTaken))


def _passkey(passkeys: Sequence[Passkey], id_: str) -> Passkey:
    found = next((passkey for passkey in passkeys if passkey.id == id_), None)
    if found is None:
        raise NotFound("Record not found")
    return found
