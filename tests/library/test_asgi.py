"""A network mounted in another ASGI application: all URLs in its responses include the mount path."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from mastodon import Mastodon
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.sync.client import connect

from shoal import Shoal
from shoal.asgi import asgi_app
from tests.async_runner import in_loop
from tests.server_process import first_url

PASSWORD = "a long password"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
    "789c63606060000000040001f61738550000000049454e44ae426082"
)
GET = partial(httpx.get, timeout=60)
PROGRAM = f'''
"""A host with a network below /social."""

from contextlib import asynccontextmanager

from fastapi import FastAPI

from shoal import Shoal
from shoal.asgi import asgi_app


@asynccontextmanager
async def lifespan(app):
    async with Shoal.open("sqlite:///shoal.db", rate_limits=False) as shoal:
        await shoal.register("ann", "{PASSWORD}")
        app.mount("/social", asgi_app(shoal))
        yield
        print("closing", flush=True)
    print("closed", flush=True)


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def own():
    return {{"own": True}}
'''


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a FastAPI application under uvicorn."""
    folder = tmp_path_factory.mktemp("host")
    with started(folder) as process:
        yield first_url(process)
        assert stopped(process) == ["closing", "closed"]


def started(folder: Path) -> subprocess.Popen[str]:
    """Start a host that stops within two seconds of SIGTERM, even with open streams."""
    pytest.importorskip("fastapi")
    (folder / "host.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "uvicorn", "host:app", "--port", "0", "--timeout-graceful-shutdown", "2"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stopped(process: subprocess.Popen[str]) -> list[str]:
    """Stop the process; return the lines printed by the program, without those of uvicorn."""
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=300)
    assert "Traceback" not in said, said
    return [line for line in said.splitlines() if line.startswith("clos")]


@pytest.fixture(scope="module")
def root(host: str) -> str:
    return f"{host.rstrip('/')}/social"


@pytest.fixture(scope="module")
def ann(root: str) -> Mastodon:
    """A client of the mounted path."""
    keys = Mastodon.create_app("test", api_base_url=root)
    client = Mastodon(*keys, api_base_url=root)
    client.log_in("ann", PASSWORD)
    return client


def test_asgi_mount_serves_mastodon_client_below_its_path(host: str, root: str, ann: Mastodon) -> None:
    assert GET(host).json() == {"own": True}
    assert GET(f"{host}/api/v1/instance").status_code == 404
    statuses = [ann.status_post(f"Tide {number} #tide", visibility="public") for number in range(5)]
    page = ann.timeline_home(limit=2)
    assert [status.id for status in ann.fetch_next(page) or ()] == [status.id for status in statuses[2:0:-1]]
    assert page._pagination_next["_pagination_endpoint"].startswith("/")
    assert [found.id for found in ann.search(statuses[0].url).statuses] == [statuses[0].id]
    assert ann.search(root + "/@ann").accounts[0].username == "ann"
    outside = statuses[0].url.replace("/social", "")
    assert ann.search(outside).statuses == []


def test_asgi_mount_response_urls_are_below_its_path(root: str, ann: Mastodon) -> None:
    picture = ann.media_post(PIXEL, "image/png")
    ann.account_update_credentials(avatar=PIXEL, avatar_mime_type="image/png")
    status = ann.status_post("A #heron for @ann", media_ids=[picture])
    headers = {"authorization": f"Bearer {ann.access_token}"}
    seen: set[str] = set()
    for path in (
        "api/v1/timelines/home?limit=1",
        "api/v2/instance",
        "api/v1/trends/tags",
        ".well-known/nodeinfo",
        "@ann",
    ):
        answer = GET(f"{root}/{path}", headers=headers)
        assert answer.status_code == 200, path
        seen.update(
            re.findall(r"(?:http|ws)://127\.0\.0\.1:\d+[^\"'\\ <>;]*", answer.text + answer.headers.get("link", ""))
        )
    assert {url for url in seen if not url.replace("ws:", "http:").startswith(root)} == set()
    kinds = ("/media/", "/headers/", "/tags/heron", "/nodeinfo/", f"/@ann/{status.id}", "max_id=")
    assert [kind for kind in kinds if not any(kind in url for url in seen)] == []
    shown = {url for url in seen if url.startswith("http") and url != root}
    answers = {url: GET(url, headers=headers).status_code for url in shown}
    assert {url: code for url, code in answers.items() if code != 200} == {}


def test_asgi_mount_pages_link_their_stylesheet_below_its_path(root: str) -> None:
    for path, status in (("@ann", 200), ("nobody", 404), ("oauth/authorize?client_id=1&response_type=code", 400)):
        page = GET(f"{root}/{path}")
        assert page.status_code == status, page.text
        (style,) = re.findall(r'stylesheet" href="([^"]+)"', page.text)
        assert GET(urlsplit(root)._replace(path=style).geturl()).headers["content-type"].startswith("text/css")


def test_asgi_mount_share_target_is_below_its_path(root: str) -> None:
    target = GET(f"{root}/manifest.webmanifest").json()["share_target"]
    address = urlsplit(root)._replace(path=target["action"]).geturl()
    answer = httpx.post(address, data={"text": "Low tide"}, timeout=60)
    assert target["action"] == f"{urlsplit(root).path}/share"
    assert answer.status_code == 403, "a request without the mark of a browser is refused"


def test_asgi_mount_openapi_document_uses_its_path(root: str) -> None:
    document = GET(f"{root}/openapi.json").json()
    assert document["servers"] == [{"url": "/social"}]
    scheme = document["components"]["securitySchemes"]["OAuth2"]
    assert scheme["flows"]["authorizationCode"]["authorizationUrl"] == "/social/oauth/authorize"
    assert 'href="/social/openapi.json"' in GET(f"{root}/docs").text


def test_asgi_mount_oauth_authorization_works_below_its_path(root: str) -> None:
    address = "https://app.example/back"
    app = httpx.post(f"{root}/api/v1/apps", timeout=60, json={"client_name": "App", "redirect_uris": address}).json()
    asked = {"client_id": app["client_id"], "redirect_uri": address, "response_type": "code", "state": "s"}
    with httpx.Client(timeout=60) as browser:
        page = browser.get(f"{root}/oauth/authorize", params=asked)
        leads = ""
        for filled in ({"do": "login", "username": "ann", "password": PASSWORD}, {"do": "allow"}):
            form_token = re.findall(r'name="form_token" value="(\w+)"', page.text)[0]
            sent = browser.post(page.url, data={"form_token": form_token, **filled})
            assert sent.status_code == 303
            leads = sent.headers["location"]
            if filled["do"] == "login":
                assert leads.startswith("/social/oauth/authorize?")
                page = browser.get(page.url.join(leads))
    assert leads.startswith(address)
    code = parse_qs(urlsplit(leads).query)["code"][0]
    keys = {"client_id": app["client_id"], "client_secret": app["client_secret"], "redirect_uri": address}
    token = httpx.post(
        f"{root}/oauth/token", data={"grant_type": "authorization_code", "code": code, **keys}, timeout=60
    )
    assert token.json()["token_type"] == "Bearer"


def test_asgi_mount_streaming_works_over_websocket_and_sse(root: str, ann: Mastodon) -> None:
    where = GET(f"{root}/api/v2/instance").json()["configuration"]["urls"]["streaming"]
    assert where == root.replace("http", "ws", 1)
    token = {"authorization": f"Bearer {ann.access_token}"}
    with (
        connect(f"{where}/api/v1/streaming?stream=user&access_token={ann.access_token}", open_timeout=60) as socket,
        httpx.stream("GET", f"{root}/api/v1/streaming/user", headers=token, timeout=60) as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        status = ann.status_post("Now")
        assert json.loads(json.loads(socket.recv(timeout=60))["payload"])["uri"] == status.uri
        data = next(line for line in lines if line.startswith("data:"))
        assert json.loads(data.removeprefix("data:"))["url"] == status.url


def test_asgi_host_shuts_down_cleanly_with_open_stream(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        root = first_url(process).rstrip("/") + "/social"
        client = Mastodon(*Mastodon.create_app("test", api_base_url=root), api_base_url=root)
        token = client.log_in("ann", PASSWORD)
        where = f"{root}/api/v1/streaming/user"
        with httpx.stream("GET", where, headers={"authorization": f"Bearer {token}"}, timeout=60) as stream:
            assert stream.status_code == 200
            assert next(stream.iter_raw())
            assert stopped(process) == ["closing", "closed"]


@asynccontextmanager
async def within(app: ASGIApp, root_path: str = "") -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application behind a server that sets `root_path`."""
    transport = httpx.ASGITransport(app, root_path=root_path)
    async with httpx.AsyncClient(transport=transport, base_url="http://host.test:8000") as client:
        yield client


async def _thumbnail(client: httpx.AsyncClient, path: str) -> str:
    answer = await client.get(f"{path}/api/v2/instance")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["thumbnail"]["url"]).removesuffix("/headers/original/missing.png")


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("", "http://host.test:8000/proxy/b%20c"),
        ("https://example.org", "https://example.org/proxy/b%20c"),
        ("https://example.org/", "https://example.org/proxy/b%20c"),
        ("https://example.org/elsewhere", "https://example.org/elsewhere"),
    ],
)
@in_loop
async def test_asgi_mount_urls_combine_base_url_and_mount_paths(base_url: str, root: str) -> None:
    async with Shoal.open("memory://", base_url=base_url, rate_limits=False) as shoal:
        host = Starlette()
        host.mount("/b c", asgi_app(shoal))
        # With a proxy that strips its prefix, and with one that keeps it.
        async with within(host, "/proxy") as client:
            assert await _thumbnail(client, "/b c") == root
            assert await _thumbnail(client, "/proxy/b c") == root


@in_loop
async def test_asgi_app_mounted_twice_and_alone_uses_each_path() -> None:
    async with Shoal.open("memory://", base_url="https://example.org", rate_limits=False) as shoal:
        app = asgi_app(shoal)
        host, inner = Starlette(), Starlette()
        inner.mount("/two", app)
        host.mount("/one", app)
        host.mount("/in", inner)
        async with within(host) as client, within(app) as whole:
            assert await _thumbnail(client, "/one") == "https://example.org/one"
            assert await _thumbnail(client, "/in/two") == "https://example.org/in/two"
            assert await _thumbnail(whole, "") == "https://example.org"
            page = await whole.get("/")
            assert "strict-transport-security" not in page.headers


@in_loop
async def test_asgi_app_cache_of_root_paths_is_bounded() -> None:
    async with Shoal.open("memory://", rate_limits=False) as shoal:
        app: Any = asgi_app(shoal)
        for number in range(40):
            async with within(app, f"/p{number}") as client:
                assert await _thumbnail(client, f"/p{number}")
        assert len(app._apps) == 16


@in_loop
async def test_asgi_app_without_host_and_on_unix_socket_is_served() -> None:
    said: list[Any] = []
    async with Shoal.open("memory://", rate_limits=False, port=8501) as shoal:
        app = asgi_app(shoal)

        async def from_socket(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "server": ("/run/host.sock", None), "client": None}, receive, send)

        async with within(from_socket) as client:
            assert await _thumbnail(client, "") == "http://127.0.0.1:8501"
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            said.append(message["type"])

        await app({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
