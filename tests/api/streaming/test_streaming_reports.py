"""Live updates of reports: held statuses leave public streams, and reporters receive a notification on resolution."""

from __future__ import annotations

from shoal.commands import reports
from tests.api.in_memory_network import Someone
from tests.api.streaming.stream_clients import Place, a_place
from tests.async_runner import in_loop


async def report(place: Place, by: Someone, about: Someone, post: str) -> int:
    return int((await place.ask(by, "POST", "/api/v1/reports", account_id=about.id, status_ids=[post]))["id"])


@in_loop
async def test_report_resolved_notification_is_streamed_to_reporter() -> None:
    async with a_place() as place:
        ann, ben, judge = [await place.join(name) for name in ("ann", "ben", "judge")]
        filed = await report(place, ben, ann, await place.post(ann, "rude"))
        async with (
            place.ear(ben, "user/notification") as ear,
            place.ear(ann, "user/notification") as other,
            place.socket("?stream=user", ben) as socket,
        ):
            await reports.resolve(place.network.writes, filed, judge.member.id, upheld=True)
            await socket.hears((["user"], "notification"))
            await ear.saw("notification", 1)
            (heard,) = [event.json for event in ear.events]
            assert [heard] == await place.ask(ben, "GET", "/api/v1/notifications")
            assert (heard["type"], heard["report"]["id"]) == ("shoal:report_resolved", str(filed))
            assert heard["report"]["action_taken"] is True
            await other.hears()


@in_loop
async def test_held_status_is_deleted_from_public_streams_but_not_from_home() -> None:
    async with a_place(reports_to_hold=2, reporter_age_days=0.0) as place:
        ann, ben, cyd, fan = [await place.join(name) for name in ("ann", "ben", "cyd", "fan")]
        await place.ask(fan, "POST", f"/api/v1/accounts/{ann.id}/follow")
        post = await place.post(ann, "rude #words")
        await place.settle()
        async with (
            place.ear(ben, "public") as ear,
            place.ear(ben, "hashtag", tag="words") as tagged,
            place.ear(fan, "user") as home,
        ):
            for by in (cyd, await place.join("eve")):
                await report(place, by, ann, post)
            await place.settle()
            await ear.saw("delete", 1)
            await tagged.saw("delete", 1)
            await place.ask(ann, "PUT", f"/api/v1/statuses/{post}", status="ruder")
            await place.post(ann, "kind")
            await ear.hears(f"-{post}", "+kind")
            await home.hears("~ruder", "+kind")


@in_loop
async def test_held_status_is_deleted_from_home_stream_when_report_is_upheld() -> None:
    async with a_place(reports_to_hold=2, reporter_age_days=0.0) as place:
        ann, ben, cyd, fan, judge = [await place.join(name) for name in ("ann", "ben", "cyd", "fan", "judge")]
        await place.ask(fan, "POST", f"/api/v1/accounts/{ann.id}/follow")
        post = await place.post(ann, "rude #words")
        filed = [await report(place, by, ann, post) for by in (ben, cyd)]
        await place.settle()
        async with place.ear(fan, "user") as home:
            await reports.resolve(place.network.writes, filed[0], judge.member.id, upheld=True)
            await place.settle()
            await home.saw("delete", 1)
            await home.hears(f"-{post}")
        assert await place.ask(fan, "GET", "/api/v1/timelines/home") == []
