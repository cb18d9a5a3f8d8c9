"""The audit log records failed logins without the attempted password, and bounds the entries of a flood."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Shoal
from shoal.commands import account_deletions, authentication, context, members, moderation
from shoal.commands.context import Background
from shoal.core.audit import HOUR_MS, AuditVerb, RepeatCounter
from shoal.core.errors import ShoalError
from shoal.core.model import AccountDeletion, Member
from shoal.graph.contract import Batch, find_object
from shoal.graph.schema import AUDITED
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.async_runner import eventually, in_loop
from tests.audit.log_reader import entries
from tests.audit.login_clients import From
from tests.engines import dynamodb
from tests.engines.authenticator_app import code_of
from tests.example_counts import examples
from tests.stores import all_links

FAILED = AuditVerb.LOGIN_FAILED
PASSWORD, WRONG = "a long password", "correct horse battery"


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def one_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no hour end during the test, because failures are counted per hour."""
    monkeypatch.setattr("shoal.core.audit.HOUR_MS", 10**15)


async def tried(shoal: Shoal, name: str, password: str = WRONG, code: str = "", times: int = 1, at: str = "") -> None:
    for _ in range(times):
        with pytest.raises(ShoalError):
            await members.log_in(shoal.network.writes, name, password, From(at) if at else None, code=code)


async def told(shoal: Shoal) -> list[tuple[str, object, object]]:
    found = await entries(shoal.network.store, FAILED)
    return [(one.entry.target_name, one.entry.details["why"], one.entry.details["count"]) for one in found]


@pytest.mark.usefixtures("one_hour")
@in_loop
async def test_audit_log_records_reason_of_failed_login() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await shoal.register("ann", PASSWORD), await shoal.register("ben", PASSWORD)
        key = await ann.second_factor_key()
        await ann.turn_on_second_factor(PASSWORD, key, code_of(key))
        await shoal.suspend(ben)
        await tried(shoal, "ann")
        await tried(shoal, "ann", PASSWORD, "000000")
        await tried(shoal, "ben", PASSWORD)
        await tried(shoal, "nobody" * 20)
        assert sorted(await told(shoal), key=repr) == [
            ("ann", "wrong code", 1),
            ("ann", "wrong password", 1),
            ("ben", "not allowed in", 1),
            (("nobody" * 20)[:30], "wrong password", 1),
        ]


@in_loop
async def test_audit_log_does_not_record_login_that_still_lacks_second_factor_code() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", PASSWORD)
        key = await ann.second_factor_key()
        await ann.turn_on_second_factor(PASSWORD, key, code_of(key))
        await tried(shoal, "ann", PASSWORD)
        assert await told(shoal) == []


@pytest.mark.usefixtures("one_hour")
@in_loop
async def test_audit_log_repeated_failed_logins_are_recorded_at_powers_of_ten() -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.register("ann")
        writes = shoal.network.writes
        login = await members.login_of(writes, await shoal.moderation.member("ann"))
        for _ in range(1_234):
            await authentication.failed(writes, login, "ann", From("203.0.113.9"), "wrong password")
        assert [count for _, _, count in await told(shoal)] == [1, 10, 100, 1_000]


@pytest.mark.usefixtures("one_hour")
@in_loop
async def test_audit_log_entries_for_many_distinct_failed_logins_are_bounded() -> None:
    async with Shoal.open("memory://") as shoal:
        chance = random.Random(7)
        people = [await shoal.register(f"m{number}") for number in range(20)]
        writes = replace(shoal.network.writes, failures=RepeatCounter(50))
        logins = [await members.login_of(writes, await shoal.moderation.member(one)) for one in people]
        for number in range(20_000):
            at = From(f"{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}.9")
            login = chance.choice([None, *logins])
            await authentication.failed(writes, login, f"made up {number}", at, "wrong password")
        found = await entries(shoal.network.store, FAILED)
        # Fifty distinct keys and one overflow counter, each recorded at most at 1, 10, 100, 1,000 and 10,000.
        assert 50 <= len(found) <= 50 + 5
        beyond = [one.entry.details["count"] for one in found if not one.entry.target_name]
        assert beyond == [1, 10, 100, 1_000, 10_000]
        assert (
            sum(len(row.data) for row in await all_links(shoal.network.store) if row.atype == AUDITED.number) < 20_000
        )


@settings(max_examples=examples(50, full=100))
@given(
    happened=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 3 * HOUR_MS)), max_size=300),
    most=st.integers(1, 5),
)
def test_failed_login_counter_records_bounded_number_of_repeated_failures_per_hour(
    happened: list[tuple[str, int]], most: int
) -> None:
    counter = RepeatCounter(most)
    by_hour: dict[int, int] = {}
    for what, at in sorted(happened, key=lambda one: one[1]):
        repeat = counter.count(what, at)
        if repeat is not None:
            by_hour[at // HOUR_MS] = by_hour.get(at // HOUR_MS, 0) + 1
    # 300 repeats are recorded at most at 1, 10 and 100 for each key.
    assert all(n <= (most + 1) * 3 for n in by_hour.values())
    hours = {at // HOUR_MS for _, at in happened}
    assert by_hour.keys() == hours


def test_audit_failed_login_entry_has_ip_address_and_no_password(here: NetworkFixture) -> None:
    here.run(members.register(here.network.writes, "ann", password=PASSWORD))
    for name in ("ann", "no_such_member"):
        page = here.ask("GET", "/login")
        token = page.text.split('name="form_token" value="')[1].split('"')[0]
        form = {"form_token": token, "username": name, "password": WRONG}
        assert here.ask("POST", "/login", data=form).status_code in {401, 422}
    here.run(eventually(lambda: noted(here), 2))
    unknown, known = sorted(here.run(entries(here.network.store, FAILED)), key=lambda one: one.entry.target_id)
    assert (known.entry.target_name, unknown.entry.target_name) == ("ann", "no_such_member")
    assert known.address == unknown.address == "127.0.0.1"
    assert known.entry.target_id > 0
    assert known.entry.holder_id == known.entry.target_id
    assert (unknown.entry.target_id, unknown.entry.holder_id) == (0, 0)
    assert not any(WRONG.encode() in row.data for row in here.state().assocs)


def test_failed_login_response_does_not_wait_for_audit_entry(
    here: NetworkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.run(members.register(here.network.writes, "ann", password=PASSWORD))
    token = here.ask("GET", "/login").text.split('name="form_token" value="')[1].split('"')[0]
    form = {"form_token": token, "username": "ann", "password": WRONG}
    commit, released = here.network.writes.graph.commit, asyncio.Event()

    async def late(batch: Batch) -> None:
        await released.wait()
        await commit(batch)

    monkeypatch.setattr(here.graph, "commit", late, raising=False)
    answer = here.run(asyncio.wait_for(here.request("POST", "/login", data=form), 60))
    assert answer.status_code in {401, 422}
    assert here.run(noted(here)) == 0
    released.set()
    here.run(eventually(lambda: noted(here), 1))


async def noted(here: NetworkFixture) -> int:
    """Return the number of failed logins in the log."""
    return len(await entries(here.network.store, FAILED))


@in_loop
async def test_background_tasks_are_bounded_and_finished_on_close(caplog: pytest.LogCaptureFixture) -> None:
    beside, released, done = Background(), asyncio.Event(), list[int]()

    async def work(number: int) -> None:
        await released.wait()
        done.append(number)
        if number == 0:
            raise ValueError("broken")

    for number in range(context.MAX_BACKGROUND_TASKS):
        await beside.run(work(number))
    one_more = asyncio.create_task(beside.run(work(99)))
    await asyncio.sleep(0)
    assert (done, one_more.done()) == ([], False)
    released.set()
    await one_more
    await beside.close()
    assert sorted(done) == [*range(context.MAX_BACKGROUND_TASKS), 99]
    assert [record.message for record in caplog.records] == ["background task failed"]
    await beside.close()


@in_loop
async def test_background_task_that_never_finishes_is_cancelled_on_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_CLOSING_SECONDS", 0.01)
    beside, begun, ended = Background(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await beside.run(work())
    await begun.wait()
    await asyncio.wait_for(beside.close(), 60)
    assert ended.is_set()


@pytest.mark.usefixtures("one_hour")
def test_audit_log_rate_limited_password_guessing_writes_few_entries() -> None:
    with network_fixture(rate_limits=True, limits={"login": "off", "pages": "off"}) as here:
        here.run(members.register(here.network.writes, "ann", password=PASSWORD))
        token = here.ask("GET", "/login").text.split('name="form_token" value="')[1].split('"')[0]
        form = {"form_token": token, "username": "ann", "password": WRONG}
        statuses = [here.ask("POST", "/login", data=form).status_code for _ in range(40)]
        assert 429 in statuses
        here.run(eventually(lambda: noted(here), 4))
        found = [one.entry.details for one in here.run(entries(here.network.store, FAILED))]
        assert {str(one["why"]) for one in found} == {"wrong password", "too many wrong passwords"}
        assert sorted(int(one["count"]) for one in found) == [1, 1, 10, 10]


@in_loop
async def test_account_deletion_removes_member_addresses_from_audit_log_and_keeps_those_of_moderators() -> None:
    async with Shoal.open("memory://") as shoal:
        await shoal.register("ann", PASSWORD)
        mo = await shoal.register("mo")
        writes = shoal.network.writes
        actor = writes.actor._replace(address="203.0.113.9")
        await tried(shoal, "ann")
        with pytest.raises(ShoalError):
            await members.log_in(writes.by(actor), "ann", "also wrong", From("203.0.113.9"))
        ann = await shoal.moderation.member("ann")
        await moderation.silence(writes.by(actor._replace(member_id=mo.id, name="mo", address="198.51.100.7")), ann.id)
        assert [one.address for one in await entries(shoal.network.store, FAILED)] == ["", "203.0.113.9"]
        await shoal.delete_member("ann")
        await shoal.settle()
        await gone(shoal, ann.id)
        assert [one.address for one in await entries(shoal.network.store, FAILED)] == ["", ""]
        (silenced,) = await entries(shoal.network.store, AuditVerb.MEMBER_SILENCED)
        assert (silenced.address, silenced.entry.target_name) == ("198.51.100.7", "ann")
        (done,) = await entries(shoal.network.store, AuditVerb.DELETION_COMPLETED)
        assert done.entry.target_id == ann.id
        assert not any(b"203.0.113.9" in row.data for row in await all_links(shoal.network.store))


@in_loop
async def test_sign_up_rejection_with_many_failed_logins_succeeds_on_dynamodb() -> None:
    async with Shoal.open(dynamodb.new_table(), media="memory://", tags="memory://", search="memory://") as shoal:
        fay = await shoal.register("fay", PASSWORD, pending=True, reason="birds")
        writes = shoal.network.writes
        login = await members.login_of(writes, await shoal.moderation.member("fay"))
        for network in range(60):
            asker = From(f"203.0.{network}.9")
            theirs = writes.by(writes.actor._replace(address=asker.address))
            await authentication.failed(theirs, login, "fay", asker, "wrong password")
        assert len(await entries(shoal.network.store, FAILED)) == 60
        await moderation.reject(writes, fay.id)
        assert [one.address for one in await entries(shoal.network.store, FAILED)] == [""] * 60
        assert await members.find(writes, "fay") is None


async def gone(shoal: Shoal, member_id: int) -> None:
    """Carry out the due deletion."""
    while isinstance(node := (await shoal.network.store.obj_get((member_id,))).get(member_id), Member):
        deletion = await find_object(shoal.network.store, AccountDeletion, node.departure_id)
        assert deletion is not None
        await account_deletions.carry_out(shoal.network.writes, deletion)
