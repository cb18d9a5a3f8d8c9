"""The HTTP server as a whole: start, shutdown, media files, plain pages, and the number of reads per page."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest
import uvloop
from PIL import Image
from starlette.requests import Request

from shoal import server
from shoal.app.network import open_network
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch
from shoal.http.responses import Reply, plain_page
from shoal.server import AppParts, RunningApp, listen, serve
from shoal.settings import load
from tests.api.in_memory_network import BASE, NetworkFixture, Someone, network_fixture, picture, served

_PROGRAM = """
import asyncio, sys
from shoal.server import AppParts, listen, serve
from shoal.settings import load
from shoal.app.network import open_network

async def main():
    async with open_network(load({}, store="sqlite:///" + sys.argv[1])) as network:
        deps = AppParts(network.settings, network.store, network.writes, network.reads, network.media, network.hub)
        await serve(deps, listener=listen("127.0.0.1", 0), ready=lambda url: print(url, flush=True))
    print("closed", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_server_on_sigterm_or_sigint_closes_stores_and_exits(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-W", "error", "-c", _PROGRAM, str(tmp_path / "shoal.db")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as child:
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        with httpx.Client(base_url=address) as client:
            assert client.get("/health").text == "OK"
            assert client.get("/api/v1/instance").json()["uri"] == address.removeprefix("http://")
            child.send_signal(number)
            said, complaints = child.communicate(timeout=300)
    assert (child.returncode, said.strip(), complaints) == (0, "closed", "")


def test_server_accepts_several_connections_per_turn_of_the_event_loop(tmp_path: Path) -> None:
    turns = 0

    async def main() -> None:
        async with open_network(load({}, store=f"sqlite:///{tmp_path / 'shoal.db'}", port=0)) as network:
            parts = (network.settings, network.store, network.writes, network.reads, network.media, network.hub)
            running: list[RunningApp] = []

            @contextlib.asynccontextmanager
            async def keep(app: RunningApp) -> AsyncIterator[None]:
                running.append(app)
                yield

            with listen("127.0.0.1", 0) as listener, contextlib.ExitStack() as clients:
                ready = asyncio.Event()
                serving = asyncio.create_task(
                    serve(AppParts(*parts), listener=listener, ready=lambda _: ready.set(), companion=keep)
                )
                await ready.wait()
                for _ in range(64):
                    clients.enter_context(socket.create_connection(listener.getsockname()))
                await until_accepted(running[0])
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)

    async def until_accepted(running: RunningApp) -> None:
        nonlocal turns
        while running.connections.open < 64:
            turns += 1
            await asyncio.sleep(0)

    uvloop.run(main())
    assert turns <= 32


def test_process_that_starts_to_listen_leaves_shared_socket_non_blocking() -> None:
    with listen("127.0.0.1", 0) as shared, contextlib.ExitStack() as opened:
        # Another process already accepts connections.
        shared.setblocking(False)
        inherited = socket.socket(fileno=os.dup(shared.fileno()))
        for descriptor in server._descriptors(inherited):
            opened.enter_context(descriptor)
            assert not os.get_blocking(shared.fileno())
        with pytest.raises(BlockingIOError):
            shared.accept()


def test_server_reported_address_equals_base_url_setting() -> None:
    with served(base_url="https://example.org/") as address:
        assert address == "https://example.org"


def test_server_listening_on_used_port_raises_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_media_file_is_cacheable_forever_and_not_executable(shared: NetworkFixture) -> None:
    ann = shared.join("media_ann")
    photo = shared.json("POST", "/api/v2/media", ann, files={"file": picture()})
    for method in ("GET", "HEAD"):
        file = shared.ask(method, photo["preview_url"].removeprefix(BASE))
        assert file.status_code == 200
        assert file.headers["content-type"] == "image/png"
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert file.headers["x-content-type-options"] == "nosniff"
        assert file.headers["content-security-policy"] == "default-src 'none'"
        assert file.headers["access-control-allow-origin"] == "*"
    assert Image.open(io.BytesIO(shared.ask("GET", photo["url"].removeprefix(BASE)).content)).size == (32, 20)


@pytest.mark.parametrize(("noun", "size"), [("avatar", (400, 400)), ("header", (1500, 500))])
def test_default_avatar_and_header_images_are_served(shared: NetworkFixture, noun: str, size: tuple[int, int]) -> None:
    answer = shared.ask("GET", f"/{noun}s/original/missing.png")
    with Image.open(io.BytesIO(answer.content)) as image:
        image.load()
        assert (image.size, len(image.getcolors() or ())) == (size, 2)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert len(answer.content) < 2_000


def test_status_page_of_public_post_escapes_content(shared: NetworkFixture) -> None:
    ann = shared.join("page_ann")
    body = {"status": "<script>alert(1)</script> #dawn", "spoiler_text": "a <warning>"}
    post = shared.json("POST", "/api/v1/statuses", ann, json=body)
    page = shared.ask("GET", f"/@page_ann/{post['id']}")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;" in page.text
    assert "a &lt;warning&gt;" in page.text
    assert page.text.count("dawn") > 1
    assert "&lt;script&gt;" in shared.ask("GET", "/@Page_Ann/?show=posts").text
    assert shared.ask("GET", "/").status_code == 200


def test_page_title_escapes_display_name_and_status_text(shared: NetworkFixture) -> None:
    ann = shared.join("title_ann")
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": "a </title><b>& c"})
    shared.json("PATCH", "/api/v1/accounts/update_credentials", ann, data={"display_name": "<i>Ann</i> & co"})
    assert (
        "<title>&lt;i&gt;Ann&lt;/i&gt; &amp; co: a &lt;/title&gt;&lt;b&gt;&amp; c · Shoal</title>"
        in shared.ask("GET", f"/@title_ann/{post['id']}").text
    )
    page = shared.ask("GET", "/@title_ann").text
    assert "<title>&lt;i&gt;Ann&lt;/i&gt; &amp; co (@title_ann) · Shoal</title>" in page
    assert '<h1 dir="auto">&lt;i&gt;Ann&lt;/i&gt; &amp; co</h1>' in page
    refused = plain_page(Reply({"error": "<script>"}, 422), Request({"type": "http"}))
    assert "<p>&lt;script&gt;</p>" in bytes(refused.body).decode()


def test_public_page_hides_private_posts_and_unknown_paths_return_404(shared: NetworkFixture) -> None:
    ann = shared.join("shy_ann")
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": "only friends", "visibility": "private"})
    for path in (f"/@shy_ann/{post['id']}", "/@nobody", "/@shy_ann/x", f"/@shy_ann/{'9' * 30}", "/else", "/@a@b"):
        assert shared.ask("GET", path).status_code == 404, path
    assert "only friends" not in shared.ask("GET", "/@shy_ann").text
    assert shared.ask("POST", "/@shy_ann").status_code == 405


def test_suspended_account_returns_410_and_its_posts_return_404(shared: NetworkFixture) -> None:
    eve = shared.join("eve")
    post = shared.json("POST", "/api/v1/statuses", eve, json={"status": "spam"})
    batch = Batch(shard_of(eve.member.id))
    batch.obj_set(msgspec.structs.replace(eve.member, suspended=True, version=2))
    shared.run(shared.network.store.commit(batch))
    assert shared.ask("GET", f"/api/v1/accounts/{eve.id}").status_code == 410
    assert shared.ask("GET", "/api/v1/accounts/lookup?acct=eve").status_code == 410
    assert shared.ask("GET", f"/api/v1/statuses/{post['id']}").status_code == 404
    assert shared.ask("GET", "/@eve").status_code == 410
    app = shared.json("POST", "/api/v1/apps", json={"client_name": "x", "redirect_uris": "urn:x"})
    form = {key: app[key] for key in ("client_id", "client_secret")}
    answer = shared.ask(
        "POST", "/oauth/token", data={**form, "grant_type": "password", "username": "eve", "password": "x"}
    )
    assert answer.json()["error"] == "invalid_grant"


def test_instance_stats_count_users_and_statuses(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    shoal.join("ben")
    shoal.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})
    assert shoal.json("GET", "/api/v1/instance")["stats"] == {"user_count": 2, "status_count": 1, "domain_count": 1}
    assert shoal.json("GET", "/api/v2/instance")["usage"]["users"]["active_month"] == 1
    assert shoal.json("GET", "/nodeinfo/2.0")["usage"]["localPosts"] == 1


def test_sign_up_rate_limit_per_address_returns_429() -> None:
    with network_fixture(rate_limits=True) as limited:
        app = limited.join("ann").app_id
        statuses = [
            limited.ask("POST", "/api/v1/accounts", limited.token(app), data={"username": ""}).status_code
            for _ in range(7)
        ]
    assert statuses == [422] * 5 + [429] * 2


def reads_of(shoal: NetworkFixture, viewer: Someone, path: str) -> int:
    """Return the number of graph reads of a warm request."""
    shoal.json("GET", path, viewer)
    shoal.graph.reads.clear()
    shoal.json("GET", path, viewer)
    return len(shoal.graph.reads)


def test_timeline_page_read_count_is_independent_of_page_size(forgetful: NetworkFixture) -> None:
    shoal = forgetful
    ann, ben = shoal.join("ann"), shoal.join("ben")
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    for n in range(45):
        post = shoal.json("POST", "/api/v1/statuses", ann, json={"status": f"#dawn {n} @ben"})
        shoal.json("POST", f"/api/v1/statuses/{post['id']}/favourite", ben)
    shoal.settle()
    for path in ("/api/v1/timelines/home", f"/api/v1/accounts/{ann.id}/statuses", "/api/v1/favourites"):
        assert len(shoal.json("GET", f"{path}?limit=40", ben)) == 40
        assert reads_of(shoal, ben, f"{path}?limit=1") == reads_of(shoal, ben, f"{path}?limit=40") <= 14
