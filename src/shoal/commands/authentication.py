"""Verify passwords, second-factor codes and passkeys, with rate limits and a log of failed logins.

Passwords are argon2id hashes. Hashing takes about 50 ms on each of four cores and 64 MiB by design, so it runs in dedicated
threads: one hash at a time, two on a machine with enough cores. At most sixteen outside callers wait; further ones are refused
at once, so a flood of passwords does not build a queue.

Wrong passwords are counted per account, from all addresses together. That alone would let a stranger lock the owner out, so an
address range from which a correct password came before has a separate counter: there the owner is delayed only by failures from
that range, and at most for the rest of the window.

A passkey challenge is signed with a server-wide key that the first use creates. The challenge is used up, and the sign count
of the passkey stored, in one commit.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import logging
import os
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import NamedTuple, Protocol

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from msgspec.structs import replace

from shoal.commands.audit import note_failed_login
from shoal.commands.context import Writes, made_once
from shoal.core.credentials import (
    ALONE,
    GOOD_MS,
    KEY_BYTES,
    Assertion,
    BadAnswer,
    ChallengeKey,
    Login,
    Passkey,
    Purpose,
    Site,
    check_assertion,
    is_answer,
    is_copy,
    is_good,
    made_at,
    new_challenge,
    read_assertion,
    request_options,
    used,
)
from shoal.core.email import MailKind
from shoal.core.errors import NotAllowed, ShoalError, TooMany, Unauthenticated, Unavailable
from shoal.core.events import MailDue
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.core.text import account_as_typed, normalized
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, KeyTaken, find_object
from shoal.graph.member_lookup import login_of
from shoal.graph.schema import Key, challenge_key_key, used_challenge_key

_LANES = 4
"""Threads that compute each hash: the parallelism of argon2."""
AT_ONCE = 2 if (os.cpu_count() or 1) >= 2 * _LANES else 1
"""Concurrent hashes. More would share these cores and take another 64 MiB each."""
WAITING = 16

_RETRY_SECONDS = 1.0
"""Seconds after which a refused client should retry: longer than the whole queue takes."""

_NICE = 10
"""Added to the niceness of the hashing threads, so that requests without a password go first."""


def _lower_priority() -> None:
    # On Linux, each thread has its own niceness. Raising it, which lowers the priority, needs no privilege.
    with suppress(OSError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)


_hasher = PasswordHasher(parallelism=_LANES)
_threads = ThreadPoolExecutor(AT_ONCE, "shoal-password", initializer=_lower_priority)
_hashing_slots = threading.BoundedSemaphore(AT_ONCE + WAITING)

_DUMMY_HASH = "$argon2id$v=19$m=65536,t=3,p=4$c29tZSBvdGhlciBzYWx0$lPCwXAWBVxPSfvb7XMkbNiYqmHVSfBDa4kUNExGEI9M"
"""A hash that matches no password. Verifying against it takes as long as against a real one."""


@contextmanager
def hashing_slot() -> Iterator[None]:
    """Hold one of the slots for password hashing during the block. Raises `Unavailable` if all are taken.

    The HTTP API acquires a slot before it runs a command, so a refusal costs no reads. Callers inside the process must limit
    themselves.
    """
    if not _hashing_slots.acquire(blocking=False):
        raise Unavailable("Too many passwords are being checked; try again in a moment", retry_after=_RETRY_SECONDS)
    try:
        yield
    finally:
        _hashing_slots.release()


async def hashed(password: str) -> str:
    """Hash the NFC form of a password: keyboards differ in whether they encode a character as one or several code points."""
    return await asyncio.get_running_loop().run_in_executor(_threads, _hasher.hash, normalized("NFC", password))


async def matches(password: str, stored: str) -> bool:
    """Return whether the password has this hash. An empty hash matches nothing and takes equally long."""
    fits = await asyncio.get_running_loop().run_in_executor(_threads, _verify, password, stored or _DUMMY_HASH)
    return fits and bool(stored)


def _verify(password: str, stored: str) -> bool:
    # Older hashes were made from the password as typed.
    return any(_is_hash_of(spelling, stored) for spelling in dict.fromkeys((password, normalized("NFC", password))))


def _is_hash_of(password: str, stored: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (Argon2Error, InvalidHashError):
        return False


async def make_challenge(writes: Writes, purpose: Purpose, member_id: int = 0) -> bytes:
    """Return a passkey challenge for a member. `member_id` is 0 if the member is not known yet."""
    return new_challenge(await _challenge_secret(writes), purpose, member_id, writes.new_id.now())


async def challenge_fits(writes: Writes, challenge: bytes, purpose: Purpose, member_id: int = 0) -> bool:
    """Return whether this server issued the challenge for this purpose and it has not expired. Reuse is detected at commit."""
    return is_good(await _challenge_secret(writes), challenge, purpose, member_id, writes.new_id.now())


def use_up_challenge(writes: Writes, batch: Batch, challenge: bytes) -> None:
    """Consume a challenge with the batch, which fails with `KeyTaken` if it was used before."""
    key, use = used_challenge_key(batch.shard, challenge), writes.new_id(batch.shard)
    batch.key_add(key, use, until=made_at(challenge) + 2 * GOOD_MS)
    batch.fresh.add(use)


async def _challenge_secret(writes: Writes) -> bytes:
    def make(id_: int) -> ChallengeKey:
        return ChallengeKey(id=id_, secret=secrets.token_bytes(KEY_BYTES))

    return (await made_once(writes, challenge_key_key(), ChallengeKey, make)).secret


async def sealed(writes: Writes, purpose: bytes, data: bytes) -> str:
    """Return data that a browser keeps for `unsealed`, protected from changes under the key of the network.

    The data are not encrypted. `purpose` has at most 16 bytes.
    """
    head = writes.new_id.now().to_bytes(8) + data
    return base64.urlsafe_b64encode(head + _seal(await _challenge_secret(writes), purpose, head)).decode()


async def unsealed(writes: Writes, purpose: bytes, text: str, lifetime_ms: int) -> bytes | None:
    """Return the data of `sealed`; None if the text is malformed, has another purpose, or is older than the lifetime."""
    try:
        found = base64.b64decode(text, altchars=b"-_", validate=True)
    except ValueError:
        return None
    head, seal = found[:-_SEAL_BYTES], found[-_SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(await _challenge_secret(writes), purpose, head)):
        return None
    age = writes.new_id.now() - int.from_bytes(head[:8])
    return head[8:] if -_SEAL_SKEW_MS <= age < lifetime_ms else None


def _use_key(text: str) -> Key:
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=24).digest()
    return used_challenge_key(place(digest.hex()).shard, digest)


async def use_up(writes: Writes, text: str, lifetime_ms: int) -> bool:
    """Record that a secret or sealed text with this lifetime is used. Return whether this is its first use."""
    key = _use_key(text)
    batch = Batch(key.shard)
    batch.key_add(key, writes.new_id(key.shard), until=writes.new_id.now() + lifetime_ms + _SEAL_SKEW_MS)
    try:
        await writes.graph.commit(batch)
    except KeyTaken:
        return False
    return True


async def is_used_up(writes: Writes, text: str) -> bool:
    key = _use_key(text)
    return bool((await writes.graph.key_get((key,))).get(key))


_SEAL_BYTES = 32
_SEAL_SKEW_MS = 120_000
"""Milliseconds by which the clock of the process that sealed the data may be ahead."""


def _seal(secret: bytes, purpose: bytes, head: bytes) -> bytes:
    return blake2b(head, digest_size=_SEAL_BYTES, key=secret, person=purpose).digest()


_CONFIRMED = b"owner"
CONFIRMED_MS = 5 * 60_000
"""Lifetime of a confirmation."""


class Confirmed(NamedTuple):
    """A member who has recently confirmed in this session that they own the account (`confirmation`)."""

    member_id: int


OwnerProof = str | Confirmed
"""With what a logged-in member proves again who they are: the password, or for members without one a confirmation."""


async def confirmation(writes: Writes, member: Member, session: str) -> str:
    """Return a text with which `confirmed_member` recognizes for five minutes that a member has just logged in again.

    `session` is the text of the browser's token; empty for none. Another session, or a later password change, voids the text.
    """
    return await sealed(writes, _CONFIRMED, member.id.to_bytes(8) + _session_digest(member, session))


async def confirmed_member(writes: Writes, text: str, session: str) -> Member | None:
    """Return the member whose `confirmation` in this session the text is; None for another text."""
    data = await unsealed(writes, _CONFIRMED, text, CONFIRMED_MS) if text else None
    member = await find_object(writes.graph, Member, int.from_bytes(data[:8])) if data else None
    if data is None or member is None or not hmac.compare_digest(data[8:], _session_digest(member, session)):
        return None
    return member


def _session_digest(member: Member, session: str) -> bytes:
    return blake2b(f"{member.generation} {session}".encode("utf-8", "replace"), digest_size=16).digest()


_log = logging.getLogger("shoal.logins")


async def passkey_options(
    writes: Writes, site: Site, purpose: Purpose, member: Member | None = None
) -> dict[str, object]:
    """Return the WebAuthn request options for any passkey of the site or, if `member` is given, for the member's passkeys."""
    challenge = await make_challenge(writes, purpose, member.id if member else 0)
    login = await login_of(writes.graph, member) if member else None
    return request_options(site, challenge, login.passkeys if login else (), verified=purpose in ALONE)


async def use_passkey(writes: Writes, site: Site, member: Member, text: str, purpose: Purpose) -> Login | None:
    """Return the login after a valid passkey response for this purpose; None if it is invalid.

    A challenge is accepted once, even for concurrent requests. The owner gets a mail if the passkey seems to be cloned.
    """
    try:
        found = read_assertion(text)
    except BadAnswer:
        return None
    whose = 0 if purpose is Purpose.LOG_IN else member.id
    if not await challenge_fits(writes, found.challenge, purpose, whose):
        return None

    async def attempt() -> Login | None:
        login = await login_of(writes.graph, member)
        known = login.passkeys if login else ()
        passkey = next((candidate for candidate in known if candidate.credential == found.credential), None)
        if login is None or passkey is None:
            return None
        try:
            check_assertion(site, passkey, found, verified=purpose in ALONE)
        except BadAnswer:
            return None
        copied = is_copy(passkey, found)
        after = login if copied else _used(login, passkey, found, writes.new_id.now())
        batch = Batch(shard_of(member.id))
        batch.obj_set(replace(after, version=login.version + 1))
        use_up_challenge(writes, batch, found.challenge)
        if copied and login.email:
            asked = writes.new_id(batch.shard)
            batch.emit(MailDue(kind=MailKind.COPIED, asked=asked, member_id=member.id, passkey=passkey.name))
        await writes.graph.commit(batch)
        if copied:
            _log.warning("login failed: reason='copied passkey' name=%r", member.name)
        return None if copied else replace(after, version=login.version + 1)

    try:
        return await retry_on_conflict(attempt, lambda conflict: not isinstance(conflict, KeyTaken))
    except KeyTaken:
        return None


def _used(login: Login, passkey: Passkey, found: Assertion, now: int) -> Login:
    after = replace(passkey, count=found.signatures, used_at=now)
    return replace(login, passkeys=tuple(after if each is passkey else each for each in login.passkeys))


_KNOWN = 8
"""Networks remembered per member."""
_LOGGED_CHARACTERS = 64
_WRONG_PASSKEY = "unknown passkey, or the login timed out"


class Asker(Protocol):
    """The client that sends a password, code or passkey response, for rate limits and logs."""

    @property
    def address(self) -> str:
        """The client's IP address, for logs; empty if unknown."""

    @property
    def site(self) -> Site:
        """The site to which the request was sent. A passkey belongs to one site."""

    @property
    def network(self) -> str:
        """The /24 or /64 prefix of the client's IP address; empty if unknown."""

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
        """Count an attempt as failed before it is made, so that concurrent attempts cannot exceed the limit.

        `known`: a correct password came from this address prefix before. `code`: the attempt is a second-factor code.
        Raises `TooMany` if the limit is reached.
        """

    async def take_back(self) -> None:
        """Undo the count of `begin`, because the attempt succeeded."""


async def fits(writes: Writes, login: Login | None, name: str, password: str, asker: Asker | None) -> bool:
    """Return whether the password is that of the login. `name` is the name or address as typed.

    Attempts are counted for the `asker`, which is None for a caller inside the process. Raises `TooMany` if the `asker` is
    rate-limited, and `NotAllowed` if passwords are disabled.
    """
    if not writes.limits.passwords:
        raise NotAllowed("This server does not accept passwords: log in with a login provider or a passkey")
    # Limit the text to hash. The maximum length applies to the NFC form, in which up to four characters become one.
    stored, given = login.password if login else "", password[: 4 * writes.limits.password_most]
    if asker is not None:
        await _begin(writes, login, account_key(name, writes.domain), name, asker)
    if not await matches(given, stored):
        await failed(writes, login, name, asker, "wrong password")
        return False
    if asker is None:
        return True
    await asker.take_back()
    # With a second factor, the password alone does not prove that the owner uses this address.
    if login is not None and login.second is None:
        await remember(writes, login, asker)
    return True


async def is_owner(writes: Writes, member: Member, proof: OwnerProof, asker: Asker | None) -> bool:
    """Return whether a logged-in member proved again who they are: by their password or, if they have none, a confirmation.

    Raises `NotAllowed` without a confirmation if the member has no password or passwords are disabled, and `TooMany` if the `asker`
    is rate-limited.
    """
    login = await login_of(writes.graph, member)
    if has_password(writes, login):
        return isinstance(proof, str) and await fits(writes, login, member.name, proof, asker)
    if proof != Confirmed(member.id):
        raise NotAllowed("This account has no password: confirm in the web app that it is yours")
    return True


def has_password(writes: Writes, login: Login | None) -> bool:
    return writes.limits.passwords and login is not None and login.password != ""


async def by_passkey(writes: Writes, answer: str, asker: Asker) -> Member:
    """Return the member whose passkey signed the response, even if the member may not log in.

    Raises `Unauthenticated`, whose message does not depend on the reason, and `TooMany`: wrong responses have their own rate limit.
    """
    try:
        member_id = read_assertion(answer).member_id
    except BadAnswer:
        raise Unauthenticated(_WRONG_PASSKEY) from None
    member = await find_object(writes.graph, Member, member_id)
    name = member.name if member else "-"
    before = await login_of(writes.graph, member) if member else None
    await _begin(writes, before, account_key(f"passkey of {member_id}"), name, asker, what="passkeys")
    login = await use_passkey(writes, asker.site, member, answer, Purpose.LOG_IN) if member else None
    if member is None or login is None:
        await failed(writes, before, name, asker, "wrong passkey")
        raise Unauthenticated(_WRONG_PASSKEY)
    await asker.take_back()
    await remember(writes, login, asker)
    return member


async def code_counts(
    writes: Writes, member: Member, code: str, asker: Asker | None, purpose: Purpose = Purpose.SECOND
) -> bool:
    """Return whether a text is a valid second-factor code or passkey response of the member for this purpose; if so, use it up.

    Returns True if the member has no second factor. Wrong codes have their own rate limit, beyond which `TooMany` is raised.
    """
    if asker is not None:
        await _begin(
            writes, await login_of(writes.graph, member), str(member.id), member.name, asker, code=True, what="codes"
        )

    async def attempt() -> Login | None:
        login = await login_of(writes.graph, member)
        if login is None or login.second is None:
            return login
        now = writes.new_id.now()
        after = used(login.second, code, now)
        if after is None:
            return None
        batch = Batch(shard_of(login.id))
        updated = replace(login, second=after, version=login.version + 1)
        batch.obj_set(updated)
        await writes.graph.commit(batch)
        return updated

    if asker is not None and is_answer(code):
        login = await use_passkey(writes, asker.site, member, code, purpose)
    else:
        login = await retry_on_conflict(attempt)
    if login is None:
        await failed(writes, await login_of(writes.graph, member), member.name, asker, "wrong code")
        return False
    if asker is not None:
        await asker.take_back()
        if login.second is not None:
            await remember(writes, login, asker)
    return True


async def _begin(
    writes: Writes,
    login: Login | None,
    account: str,
    name: str,
    asker: Asker,
    *,
    code: bool = False,
    what: str = "passwords",
) -> None:
    mark = _mark_from(login, asker)
    try:
        await asker.begin(account, known=login is not None and mark in login.networks, code=code)
    except TooMany:
        await failed(writes, login, name, asker, f"too many wrong {what}")
        raise


def prefixes_after(login: Login, asker: Asker | None) -> tuple[bytes, ...]:
    """Return the address prefixes to remember after a password change: only the prefix from which the member changed it.

    For a member with a second factor, none is remembered: the password does not prove that the owner uses an address.
    """
    if login.second is not None:
        return ()
    return prefixes_of(login.id, asker.network if asker is not None else "")


def prefixes_of(login_id: int, network: str) -> tuple[bytes, ...]:
    return (_mark(login_id, network),) if network else ()


async def remember(writes: Writes, login: Login, asker: Asker) -> None:
    """Remember the address prefix of a successful login, and send the member a mail if the prefix is new.

    Best effort: after a failure, attempts from this prefix still count towards the limit for unknown prefixes.
    """
    mark = _mark_from(login, asker)
    if not mark or mark in login.networks:
        return
    batch = Batch(shard_of(login.id))
    batch.obj_set(replace(login, networks=(mark, *login.networks)[:_KNOWN], version=login.version + 1))
    if login.networks and login.email:
        asked = writes.new_id(batch.shard)
        batch.emit(MailDue(kind=MailKind.NEW_PLACE, asked=asked, member_id=login.member_id, place=asker.address))
    with contextlib.suppress(ShoalError):
        await writes.graph.commit(batch)


def _mark_from(login: Login | None, asker: Asker) -> bytes:
    return _mark(login.id, asker.network) if login is not None and asker.network else b""


def _mark(login_id: int, network: str) -> bytes:
    """Return the hash under which an address prefix is stored: keyed by the login, so that hashes of two members differ."""
    return blake2b(network.encode(), digest_size=8, key=login_id.to_bytes(8)).digest()


def account_key(name: str, domain: str = "") -> str:
    """Return the key under which attempts for a name are counted: a hash of the name or address, equal for all its spellings.

    The key does not depend on which account the name belongs to: limits would otherwise reveal which names belong together.
    """
    name = normalized("NFKC", normalized("NFKC", account_as_typed(name)).lower()).removeprefix("@")
    if domain:
        name = name.removesuffix(f"@{domain.lower()}")
    return blake2b(name.encode("utf-8", "replace"), digest_size=12).hexdigest()


async def failed(writes: Writes, login: Login | None, name: str, asker: Asker | None, why: str) -> None:
    """Log a failed login to the server log and to the audit log. `name` is the name as typed."""
    if asker is not None:
        _log.warning("login failed: reason=%r name=%r address=%s", why, name[:_LOGGED_CHARACTERS], asker.address or "-")
    network = asker.network if asker is not None else ""
    await note_failed_login(writes, login.member_id if login is not None else 0, name, network, why)
