"""Registration, login and profiles."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher

from shoal import Shoal
from shoal.commands import authentication, credentials, members, oauth
from shoal.core.audit import AuditVerb
from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput, NotFound, Taken, Unauthenticated, Unavailable
from shoal.core.model import Member, ProfileField, Visibility
from tests.async_runner import in_loop
from tests.flows.members import register

SECRET = "correct horse battery"


async def login_of(shoal: Shoal, member_id: int) -> Login:
    member = (await shoal.network.store.obj_get([member_id]))[member_id]
    assert isinstance(member, Member)
    login = (await shoal.network.store.obj_get([member.login_id]))[member.login_id]
    assert isinstance(login, Login)
    return login


@pytest.mark.usefixtures("real_hashes")
@in_loop
async def test_password_is_stored_as_argon2id_hash_and_login_requires_it() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", SECRET, email="Ann@Example.org")
        login = await login_of(shoal, ann.id)
        assert login.password.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
        assert SECRET not in repr(await shoal.network.store.obj_scan(-(2**63), 100))
        assert PasswordHasher().verify(login.password, SECRET)
        for name in ("ann", "ANN", "ann@example.org", " ANN@EXAMPLE.ORG "):
            assert (await shoal.log_in(name, SECRET)).id == ann.id
        for name, password in [("ann", SECRET + "x"), ("ann", ""), ("nobody", SECRET), ("a@b.org", SECRET), ("", "")]:
            with pytest.raises(Unauthenticated, match="the name or the password is wrong"):
                await shoal.log_in(name, password)


@in_loop
async def test_login_with_name_variants_of_case_space_and_at_sign_succeeds() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", SECRET, email="ann@example.org")
        for typed in ("ann ", " ann", "ANN\t", "@ann", " @Ann ", "ann@example.org ", "\uff41nn@example.org"):
            assert (await shoal.log_in(typed, SECRET)).id == ann.id, typed
        for typed in ("@@ann", "a nn", "@", "@ann@example.org"):
            with pytest.raises(Unauthenticated):
                await shoal.log_in(typed, SECRET)


@pytest.mark.parametrize("address", ["a%evil.com@ok.org", "a..b@ok.org", "=?utf-8?q?a?=@ok.org", "\uff41nn@ok.org"])
@in_loop
async def test_login_with_email_from_before_strict_validation_succeeds(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    async with Shoal.open("memory://") as shoal:
        with monkeypatch.context() as before:
            before.setattr(members, "check_email", str.lower)
            ann = await shoal.register("ann", SECRET, email=address)
        for typed in (address, address.upper(), f" {address} "):
            assert (await shoal.log_in(typed, SECRET)).id == ann.id
        await ann.update_profile(findable_by_email=True)


@in_loop
async def test_login_of_member_without_password_is_refused_until_password_is_set() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        for guess in ("", "x" * 8):
            with pytest.raises(Unauthenticated):
                await shoal.log_in("ann", guess)
        await credentials.set_password(shoal.network.writes, ann.id, SECRET)
        assert (await shoal.log_in("ann", SECRET)).id == ann.id


@in_loop
async def test_password_change_invalidates_old_password() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", SECRET)
        await credentials.set_password(shoal.network.writes, ann.id, "another one")
        assert (await shoal.log_in("ann", "another one")).id == ann.id
        with pytest.raises(Unauthenticated):
            await shoal.log_in("ann", SECRET)


@pytest.mark.parametrize(("length", "taken"), [(7, False), (8, True), (1_024, True), (1_025, False)])
@in_loop
async def test_password_length_outside_8_to_1024_is_refused(length: int, taken: bool) -> None:
    async with Shoal.open("memory://") as shoal:
        if taken:
            await shoal.register("ann", "x" * length)
            assert (await shoal.log_in("ann", "x" * length)).name == "ann"
            return
        with pytest.raises(InvalidInput, match="8 to 1024 characters") as refusal:
            await shoal.register("ann", "x" * length)
        assert refusal.value.field == "password"
        await shoal.register("ann")


@in_loop
async def test_username_uniqueness_is_case_insensitive() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("Ann")
        assert ann.name == "ann"
        for name in ("ann", "ANN", "aNn"):
            with pytest.raises(Taken, match="Username") as refusal:
                await shoal.register(name)
            assert refusal.value.field == "username"
            assert (await shoal.member(name)).id == ann.id


@pytest.mark.parametrize("name", ["", "a b", "änn", "x" * 31, "ann@home", "admin", "a-b"])
@in_loop
async def test_username_invalid_is_refused(name: str) -> None:
    async with Shoal.open("memory://") as shoal:
        with pytest.raises(InvalidInput) as refusal:
            await shoal.register(name)
        assert refusal.value.field == "username"
        with pytest.raises(NotFound):
            await shoal.member(name)


@pytest.mark.parametrize("backend", ["memory", "sqlite", "two stores"])
@in_loop
async def test_username_registered_concurrently_is_given_to_one_member(backend: str, tmp_path: Path) -> None:
    urls: dict[str, str | dict[str, str]] = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/shoal.db",
        "two stores": {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"},
    }
    async with Shoal.open(urls[backend]) as shoal:
        answers = await asyncio.gather(*[shoal.register("ann") for _ in range(20)], return_exceptions=True)
        assert [type(answer).__name__ for answer in answers].count("Taken") == 19
        found = [node for node in await shoal.network.store.obj_scan(-(2**63), 100) if isinstance(node, Member)]
        assert [member.name for member in found] == ["ann"]


@in_loop
async def test_email_address_in_use_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", email="Ann@Example.org")
        with pytest.raises(Taken, match="Email") as refusal:
            await shoal.register("ben", email="ann@EXAMPLE.org")
        assert refusal.value.field == "email"
        assert (await shoal.member("ann@example.org")).id == ann.id
        assert (await shoal.register("ben", email="ben@example.org")).name == "ben"
        with pytest.raises(InvalidInput):
            await shoal.register("cyd", email="nonsense")
        await shoal.register("cyd")


@in_loop
async def test_email_address_reserved_by_interrupted_registration_is_released_on_expiry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Shoal.open("memory://") as shoal:
        with monkeypatch.context() as dying:

            async def die(*_: object) -> None:
                raise Unavailable("the power went out")

            dying.setattr(members, "add_node", die)
            with pytest.raises(Unavailable):
                await shoal.register("ann", email="ann@example.org")
        with pytest.raises(Taken):
            await shoal.register("ann", email="ann@example.org")
        assert await members.find(shoal.network.writes, "ann@example.org") is None
        later = time.time_ns() // 1_000_000 + members._HELD_MS + 10_000
        monkeypatch.setattr("shoal.graph.memory.now_ms", lambda: later)
        ann = await shoal.register("ann", email="ann@example.org")
        assert (await shoal.member("ann@example.org")).id == ann.id


@in_loop
async def test_email_address_of_registration_with_taken_username_is_released() -> None:
    async with Shoal.open("memory://") as shoal:
        await register(shoal, "ann")
        with pytest.raises(Taken, match="Username"):
            await shoal.register("ann", email="new@example.org")
        assert (await shoal.register("ben", email="new@example.org")).name == "ben"


@in_loop
async def test_profile_update_changes_only_given_fields() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", display_name="Ann", note="I fish")
        await ann.update_profile(note="I sail", fields=[("boat", "Kittiwake"), ("", "")], bot=True)
        await ann.update_profile(default_visibility=Visibility.FOLLOWERS)
        member = (await ann.profile()).member
        assert (member.display_name, member.note, member.bot) == ("Ann", "I sail", True)
        assert member.fields == (ProfileField("boat", "Kittiwake"),)
        assert (member.default_visibility, member.version) == (Visibility.FOLLOWERS, 3)


@in_loop
async def test_profile_updates_of_different_fields_made_concurrently_are_all_kept() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await asyncio.gather(
            ann.update_profile(note="note"), ann.update_profile(display_name="Ann"), ann.update_profile(bot=True)
        )
        member = (await ann.profile()).member
        assert (member.note, member.display_name, member.bot) == ("note", "Ann", True)


@pytest.mark.parametrize(
    "changes",
    [
        {"note": "x" * 501},
        {"display_name": "x" * 101},
        {"fields": [("n", "v")] * 5},
        {"fields": [("n", "x" * 256)]},
        {"default_language": "x" * 36},
    ],
    ids=lambda changes: next(iter(changes)),
)
@in_loop
async def test_profile_update_with_too_long_value_is_refused(changes: dict[str, Any]) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        before = await ann.profile()
        with pytest.raises(InvalidInput) as refusal:
            await ann.update_profile(**changes)
        assert refusal.value.field == next(iter(changes))
        assert await ann.profile() == before


@in_loop
async def test_profile_counts_include_followers_posts_comments_and_shares() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        post = await ann.create("one")
        await ann.comment(post, "two")
        await ann.share(post)
        await shoal.settle()
        found = await ann.profile()
        assert (found.followers, found.following, found.posts) == (1, 0, 3)


@in_loop
async def test_password_change_revokes_all_access_tokens() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", "a first password")
        writes = shoal.network.writes
        app = await oauth.register(writes, "app")
        tokens = [await oauth.issue_token(writes, app.app.id, ann.id, ("read",)) for _ in range(3)]
        await credentials.set_password(writes, ann.id, "a second password")
        for token in tokens:
            with pytest.raises(Unauthenticated):
                await oauth.check_token(writes, token.text)
        assert (await shoal.log_in("ann", "a second password")).id == ann.id


@in_loop
async def test_password_hashing_for_in_process_callers_is_not_limited() -> None:
    async with Shoal.open("memory://") as shoal:
        names = [f"member{number}" for number in range(authentication.AT_ONCE + authentication.WAITING + 2)]
        made = await asyncio.gather(*(shoal.register(name, password=SECRET) for name in names))
        assert [one.name for one in made] == names


@pytest.mark.parametrize("typed", ["zwölf Möwen", "zwo\u0308lf Mo\u0308wen"])
@in_loop
async def test_login_with_password_in_another_normalization_form_succeeds(typed: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", typed)
        for spelling in ("zwölf Möwen", "zwo\u0308lf Mo\u0308wen"):
            assert (await shoal.log_in("ann", spelling)).id == ann.id
        with pytest.raises(Unauthenticated):
            await shoal.log_in("ann", "zwolf Mowen")


@in_loop
async def test_password_hash_from_before_normalization_still_matches_what_was_typed() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        secret = authentication._hasher.hash("zwo\u0308lf Mo\u0308wen")
        await credentials.replace_password(shoal.network.writes, ann.id, secret, AuditVerb.PASSWORD_SET)
        assert (await shoal.log_in("ann", "zwo\u0308lf Mo\u0308wen")).id == ann.id


@in_loop
async def test_login_with_longest_password_in_decomposed_form_succeeds() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", "o\u0308" * 1_024)
        for spelling in ("o\u0308" * 1_024, "ö" * 1_024):
            assert (await shoal.log_in("ann", spelling)).id == ann.id


@in_loop
async def test_profile_mentions_in_note_and_fields_link_existing_members_only() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben, cara = await register(shoal, "ann", "ben", "cara")
        await ann.update_profile(note="with @ben and @nobody", fields=[("also", "@Cara"), ("@ben", "none")])
        assert {mention.name: mention.id for mention in (await ann.profile()).member.mentions} == {
            "ben": ben.id,
            "cara": cara.id,
        }
        await ann.update_profile(note="alone")
        assert [mention.name for mention in (await ann.profile()).member.mentions] == ["cara"]
        await ann.update_profile(display_name="Ann")
        assert [mention.name for mention in (await ann.profile()).member.mentions] == ["cara"]
        await ann.update_profile(fields=[])
        assert (await ann.profile()).member.mentions == ()
        dora = await shoal.register("dora", note="hi @ann")
        assert [mention.name for mention in (await dora.profile()).member.mentions] == ["ann"]
