"""Live updates of reports: held statuses leave public streams, and reporters receive a notification on resolution."""

from __future__ import annotations

from shoal.commands import reports
from tests.api.in_memory_network import Someone
from tests.api.streaming.stream_clients import StreamServer, stream_server
from tests.async_runner import in_loop


async def report(server: StreamServer, by: Someone, about: Someone, post: str) -> int:
    return int((await server.ask(by, "POST", "/api/v1/reports", account_id=about.id, status_ids=[post]))["id"])


@in_loop
async def test_report_resolved_notification_is_streamed_to_reporter() -> None:
    async with stream_server() as server:
        ann, ben, judge = [await server.join(name) for name in ("ann", "ben", "judge")]
        filed = await report(server, ben, ann, await server.post(ann, "rude"))
        async with (
            server.ear(ben, "user/notification") as ear,
            server.ear(ann, "user/notification") as other,
            server.socket("?stream=user", ben) as socket,
        ):
            await reports.resolve(server.network.writes, filed, judge.member.id, upheld=True)
            await socket.hears((["user"], "notification"))
            await ear.saw("notification", 1)
            (heard,) = [event.json for event in ear.events]
            assert [heard] == await server.ask(ben, "GET", "/api/v1/notifications")
            assert (heard["type"], heard["report"]["id"]) == ("shoal:report_resolved", str(filed))
            assert heard["report"]["action_taken"] is True
            await other.hears()


@in_loop
async def test_status_held_for_review_is_deleted_from_public_streams_but_not_from_home_stream() -> None:
    async with stream_server(reports_to_hold=2, reporter_age_days=0.0) as server:
        ann, ben, cyd, fan = [await server.join(name) for name in ("ann", "ben", "cyd", "fan")]
        await server.ask(fan, "POST", f"/api/v1/accounts/{ann.id}/follow")
        post = await server.post(ann, "rude #words")
        await server.settle()
        async with (
            server.ear(ben, "public") as ear,
            server.ear(ben, "hashtag", tag="words") as tagged,
            server.ear(fan, "user") as home,
        ):
            for by in (cyd, await server.join("eve")):
                await report(server, by, ann, post)
            await server.settle()
            await ear.saw("delete", 1)
            await tagged.saw("delete", 1)
            await server.ask(ann, "PUT", f"/api/v1/statuses/{post}", status="ruder")
            await server.post(ann, "kind")
            await ear.hears(f"-{post}", "+kind")
            await home.hears("~ruder", "+kind")


@in_loop
async def test_held_status_is_deleted_from_home_stream_when_report_is_upheld() -> None:
    async with stream_server(reports_to_hold=2, reporter_age_days=0.0) as server:
        ann, ben, cyd, fan, judge = [await server.join(name) for name in ("ann", "ben", "cyd", "fan", "judge")]
        await server.ask(fan, "POST", f"/api/v1/accounts/{ann.id}/follow")
        post = await server.post(ann, "rude #words")
        filed = [await report(server, by, ann, post) for by in (ben, cyd)]
        await server.settle()
        async with server.ear(fan, "user") as home:
            await reports.resolve(server.network.writes, filed[0], judge.member.id, upheld=True)
            await server.settle()
            await home.saw("delete", 1)
            await home.hears(f"-{post}")
        assert await server.ask(fan, "GET", "/api/v1/timelines/home") == []
