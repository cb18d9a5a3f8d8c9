"""Passwords of engines do not appear in logs, pages, metrics or errors."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from redis import Redis

from shoal.commands import moderation, posts
from shoal.commands.posts import Draft
from shoal.core.errors import ShoalError
from shoal.core.model import Role
from shoal.graph.shard_map import shown_url
from shoal.monitoring.metrics_server import telling
from shoal_devcluster.program import free_port
from tests.api.in_memory_network import network_fixture
from tests.engines.certificates import trusted
from tests.tls import servers
from tests.web.browser import member, visitor

S3_SECRET = "not-a-secret-at-all"
SECRETS = (servers.PASSWORD, servers.QUOTED, S3_SECRET)


# Before Python 3.12, asyncio leaves the transport of a failed handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_engine_passwords_are_absent_from_logs_pages_metrics_and_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    database = asyncio.run(servers.postgres_server())
    redis, redis_port = servers.redis_server(servers.good())
    broker, ca = servers.broker(), str(trusted().certificate)
    login = f"shoal:{servers.QUOTED}@localhost"
    access = {"region": "us-east-1", "access_key_id": "tests", "secret_access_key": S3_SECRET, "cafile": ca}
    place = f"{login}:{servers.port_of(database)}/{servers.DATABASE}"
    settings: dict[str, Any] = {
        "store": f"postgresql://{place}?sslmode=verify-full&sslrootcert={ca}",
        "timelines": f"rediss://{login}:{redis_port}/0?ssl_ca_certs={ca}",
        "broker": f"amqps://{login}:{broker.tls}/net%2Fwork?cafile={ca}",
        "media": f"s3://pictures?{urlencode({'endpoint': f'https://localhost:{servers.s3_port(servers.good())}', **access})}",
        "metrics_port": free_port(),
        "log_level": "debug",
    }
    shown: list[str] = []

    async def scraped(here_network: object) -> str:
        async with telling(here_network), httpx.AsyncClient() as client:  # type: ignore[arg-type]
            return (await client.get(f"http://127.0.0.1:{settings['metrics_port']}/metrics")).text

    with network_fixture(**settings) as here:
        ann = member(here, "ann")
        here.run(moderation.set_role(here.writes, ann.id, Role.ADMIN))
        operator = visitor(here, "ann")
        here.run(posts.create(here.writes, ann.id, Draft(text="to everybody")))
        shown.append(operator.open("/ops").text)
        shown.append(here.run(scraped(here.network)))
        for engine, port in (
            ("PostgreSQL", servers.port_of(database)),
            ("Redis", redis_port),
            ("RabbitMQ", broker.tls),
        ):
            assert engine in shown[0]
            assert f"localhost:{port}" in shown[0]
            assert f'place="localhost:{port}' in shown[1]
        with Redis.from_url(redis.url) as administrator:
            administrator.execute_command("ACL", "SETUSER", "shoal", "resetpass", ">another")
            administrator.execute_command("CLIENT", "KILL", "USER", "shoal")
        caught: list[BaseException] = []
        for _ in range(2):
            with pytest.raises(ShoalError) as raised:
                here.run(here.network.timelines.create(ann.id))
            caught.append(raised.value)
        shown += ["".join(traceback.format_exception(one)) for one in caught]
        shown += [operator.open("/ops").text, operator.open("/").text, here.run(scraped(here.network))]
    said = [one for one in caplog.messages if "invalid username-password pair" in one and "is misconfigured" in one]
    assert len(said) == 1
    shown.append("\n".join(f"{one.getMessage()} {one.exc_text}" for one in caplog.records))
    shown += [shown_url(str(settings[name])) for name in ("store", "timelines", "broker", "media")]
    for text in shown:
        for secret in SECRETS:
            assert secret not in text
