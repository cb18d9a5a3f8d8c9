"""Engine logins over TLS with passwords. Each fault is reported in one line without the password."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from shoal.amqp import url_of_each
from shoal.core.errors import InvalidInput, ShoalError, Unavailable, with_cause
from shoal.core.events import PostCreated
from shoal.graph.connection_errors import MisconfiguredEngine
from shoal.graph.contract import Job
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.postgres import PostgresGraph
from shoal.graph.redis.client import Nodes
from shoal.health.rabbitmq import look
from shoal.media.store import MediaStore
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.tagcloud.rabbitmq import RabbitTransport
from tests.async_runner import eventually, in_loop
from tests.engines import dynamodb, postgres, rabbitmq, redis
from tests.engines.certificates import SelfSigned, trusted, unknown
from tests.engines.dynamodb_faults import moody
from tests.tls import servers

SECRETS = (servers.PASSWORD, servers.QUOTED, "not-a-secret-at-all", "wr0ng")


class Login(NamedTuple):
    """Parameters of a connection to an engine."""

    host: str = "localhost"
    user: str = "shoal"
    password: str = servers.QUOTED
    authority: str = ""
    """The file of the certificate authority. Empty: the trusted one."""
    tls: bool = True
    certificate: SelfSigned | None = None
    """The certificate of the server. None: the valid one."""

    @property
    def cafile(self) -> str:
        return self.authority or str(trusted().certificate)


Open = Callable[[Login], Awaitable[object]]


async def on_postgres(login: Login) -> None:
    program = await servers.postgres_server()
    options = {"sslmode": "verify-full", "sslrootcert": login.cafile} if login.tls else {"sslmode": "disable"}
    place = f"{login.host}:{servers.port_of(program)}/{servers.DATABASE}"
    graph = await PostgresGraph.open(f"postgresql://{login.user}:{login.password}@{place}?{urlencode(options)}")
    await graph.obj_get([1])
    await graph.close()


async def on_redis(login: Login) -> None:
    _, port = servers.redis_server(login.certificate) if login.certificate else servers.usual_redis()
    await _use(f"{login.user}:{login.password}@{login.host}:{port}/0", "redis", login)


async def on_redis_cluster(login: Login) -> None:
    port = servers.redis_cluster().masters[0].tls
    await _use(f"{login.user}:{login.password}@{login.host}:{port}", "redis", login, "+cluster")


async def _use(rest: str, scheme: str, login: Login, kind: str = "") -> None:
    options = f"?{urlencode({'ssl_ca_certs': login.cafile})}" if login.tls else ""
    assert await _ids(f"{scheme}{'s' if login.tls else ''}{kind}://{rest}{options}") == 0


async def _ids(url: str) -> int:
    nodes = await Nodes.open(url)
    try:
        return sum([len(ids) async for ids in nodes.ids("t")])
    finally:
        await nodes.close()


async def on_rabbitmq(login: Login) -> None:
    broker = await asyncio.to_thread(servers.broker)
    if login.certificate is not None:
        await asyncio.to_thread(broker.present, login.certificate)
    options = f"?{urlencode({'cafile': login.cafile})}" if login.tls else ""
    place = f"{login.host}:{broker.tls}/net%2Fwork"
    try:
        url = f"amqp{'s' if login.tls else ''}://{login.user}:{login.password}@{place}{options}"
        outbox = await RabbitOutbox.open(url, namespace="shoal")
        assert await outbox.backlog() == 0
        await outbox.close()
    finally:
        if login.certificate is not None:
            await asyncio.to_thread(broker.present, servers.good())


async def on_s3(login: Login) -> None:
    port = await asyncio.to_thread(servers.s3_port, login.certificate or servers.good())
    secret = "not-a-secret-at-all" if login.password == servers.QUOTED else login.password
    options = {
        "endpoint": f"http{'s' if login.tls else ''}://{login.host}:{port}",
        "region": "us-east-1",
        "access_key_id": "tests",
        "secret_access_key": secret,
        **({"cafile": login.cafile} if login.tls else {}),
    }
    store = MediaStore.open(f"s3://pictures/media?{urlencode(options)}")
    await store.put("1/ann/a.jpg", b"picture", "image/jpeg")
    assert await store.get("1/ann/a.jpg") == (b"picture", "image/jpeg")


ENGINES: dict[str, Open] = {
    "postgres": on_postgres,
    "redis": on_redis,
    "redis-cluster": on_redis_cluster,
    "rabbitmq": on_rabbitmq,
    "s3": on_s3,
}
FAULTS: dict[str, tuple[Callable[[], Login], dict[str, str]]] = {
    "a wrong password": (
        lambda: Login(password="wr0ng"),
        {
            "postgres": 'password authentication failed for user "shoal"',
            "redis": "invalid username-password pair or user is disabled",
            "rabbitmq": "ACCESS_REFUSED",
            "s3": "403 Forbidden",
        },
    ),
    "an authority that nobody told us of": (
        lambda: Login(authority=str(unknown().certificate)),
        {"": "the server's certificate is not trusted"},
    ),
    "another name": (
        lambda: Login(host="127.0.0.2"),
        {"": "the server's certificate is for another name"},
    ),
    "a certificate that has expired": (
        lambda: Login(certificate=trusted().signed("expired", days="-1")),
        {"": "the server's certificate has expired"},
    ),
    "no TLS where it is spoken": (
        lambda: Login(tls=False),
        {
            "postgres": "no encryption",
            "redis": "the server requires TLS: use rediss://",
            "rabbitmq": "the server requires TLS: use amqps://",
            "s3": "Client sent an HTTP request to an HTTPS server",
        },
    ),
    "a file that does not exist": (
        lambda: Login(authority="/nowhere/ca.pem"),
        {"": "/nowhere/ca.pem"},
    ),
}


CASES = [
    (engine, fault)
    for engine in ENGINES
    for fault in FAULTS
    # The certificate of these servers cannot be replaced.
    if engine not in {"postgres", "redis-cluster"} or fault != "a certificate that has expired"
]


@pytest.mark.parametrize("engine", ENGINES)
@in_loop
async def test_engine_login_over_tls_accepts_password_with_special_characters(engine: str) -> None:
    await ENGINES[engine](Login())


# Before Python 3.12, asyncio leaves the transport of a failed handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("engine", "fault"), CASES)
@in_loop
async def test_engine_login_fault_is_reported_in_one_line_without_password(
    engine: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, said = FAULTS[fault]
    login = make()
    with pytest.raises(ShoalError) as caught:
        await ENGINES[engine](login)
    line = with_cause(caught.value)
    assert (said.get(engine) or said.get(engine.partition("-")[0]) or said[""]) in line
    assert "\n" not in line
    assert isinstance(caught.value, MisconfiguredEngine | InvalidInput) or engine == "s3"
    everything = "".join(traceback.format_exception(caught.value)) + caplog.text + line
    for secret in SECRETS:
        assert secret not in everything.replace('"wr0ng"', "")


@pytest.mark.parametrize("engine", ["postgres", "redis", "rabbitmq"])
@in_loop
async def test_database_redis_and_broker_accept_client_certificate(engine: str) -> None:
    ours = trusted().signed("certified", user="certified")
    if engine == "postgres":
        program = await servers.postgres_server()
        place = f"localhost:{servers.port_of(program)}/{servers.DATABASE}"
        files = {"sslmode": "verify-full", "sslrootcert": str(trusted().certificate)}
        mine = {"sslcert": str(ours.certificate), "sslkey": str(ours.key)}
        with pytest.raises(MisconfiguredEngine) as caught:
            await PostgresGraph.open(f"postgresql://certified@{place}?{urlencode(files)}")
        assert "requires a valid client certificate" in with_cause(caught.value)
        graph = await PostgresGraph.open(f"postgresql://certified@{place}?{urlencode(files | mine)}")
        await graph.close()
    elif engine == "redis":
        program, port = servers.redis_server(servers.good(), clients="yes")
        files = {"ssl_ca_certs": str(trusted().certificate)}
        mine = {"ssl_certfile": str(ours.certificate), "ssl_keyfile": str(ours.key)}
        url = f"rediss://shoal:{servers.QUOTED}@localhost:{port}/0"
        # The server may close the connection before its error message arrives.
        with pytest.raises(Unavailable):
            await _ids(f"{url}?{urlencode(files)}")
        assert await _ids(f"{url}?{urlencode(files | mine)}") == 0
    else:
        broker = await asyncio.to_thread(servers.broker)
        files = {"cafile": str(trusted().certificate), "certfile": str(ours.certificate), "keyfile": str(ours.key)}
        url = f"amqps://shoal:{servers.QUOTED}@localhost:{broker.tls}/net%2Fwork?{urlencode(files)}"
        await (await RabbitOutbox.open(url)).close()


@in_loop
async def test_rabbitmq_documented_permissions_suffice_for_outbox_and_tag_counts() -> None:
    broker = await asyncio.to_thread(servers.broker)
    url = f"amqps://shoal:{servers.QUOTED}@localhost:{broker.tls}/net%2Fwork?cafile={trusted().certificate}"
    outbox = await RabbitOutbox.open(url)
    transport = await RabbitTransport.open(url, collecting=True)
    try:
        jobs = [Job(n, PostCreated(post_id=n, author_id=1)) for n in range(3)]
        await outbox.send(jobs)
        await eventually(outbox.backlog, 3)
        taken: list[Job] = []
        async with asyncio.timeout(60):
            while len(taken) < 3:
                taken += await outbox.claim(3, 60.0)
                await asyncio.sleep(0.01)
        await outbox.put_back(taken[0], 0.1)
        await outbox.park(taken[1], "why")
        await outbox.ack(taken[2:])
        assert [job.seq for job, _ in await outbox.parked()] == [taken[1].seq]
        assert await outbox.unpark([taken[1]]) == 1
        assert (await outbox.figures()).workers == 1
        await transport.send(b"one", b"an increment")
        await anext(transport.arrivals())
        assert [one.reached for one in await look(url, "here")] == [True]
    finally:
        await transport.close()
        await outbox.close()


@in_loop
async def test_rabbitmq_user_without_permissions_raises_misconfigured_engine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = await asyncio.to_thread(servers.broker)
    for name, permissions in {"nobody": None, "reader": ("^$", "^$", ".*")}.items():
        await asyncio.to_thread(rabbitmq.add_user, broker.program, name, "wr0ng-too")
        if permissions:
            await asyncio.to_thread(rabbitmq.permit, broker.program, name, "net/work", permissions)
        url = f"amqps://{name}:wr0ng-too@localhost:{broker.tls}/net%2Fwork?cafile={trusted().certificate}"
        with pytest.raises(MisconfiguredEngine) as caught:
            await RabbitOutbox.open(url, namespace="others")
        said = "ACCESS_REFUSED - access to queue" if permissions else "there is no virtual host 'net/work'"
        assert said in with_cause(caught.value)
        assert "wr0ng-too" not in with_cause(caught.value) + caplog.text


# Before Python 3.12, asyncio leaves the transport of a failed handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@in_loop
async def test_engine_tls_url_for_plaintext_port_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # Redis does not answer the handshake.
    defaults: Any = Nodes.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "connect_seconds", 2.0)
    redis_program, _ = servers.usual_redis()
    broker = await asyncio.to_thread(rabbitmq.node)
    database = f"{postgres.server().url}?sslmode=verify-full&sslrootcert={trusted().certificate}"
    for opening, said in (
        (
            Nodes.open(redis_program.url.replace("redis://", "rediss://")),
            "the server does not support TLS on this port",
        ),
        (RabbitOutbox.open(broker.url.replace("amqp://", "amqps://")), "the server does not support TLS on this port"),
        (PostgresGraph.open(database, patience=60.0), "rejected SSL upgrade"),
    ):
        with pytest.raises(MisconfiguredEngine) as caught:
            await opening
        assert said in with_cause(caught.value)


@in_loop
async def test_dynamodb_over_tls_verifies_server_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamodb.server()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(servers.good().certificate, servers.good().key)
    async with moody(context) as front:
        table = dynamodb.new_table(at=front.url.replace("127.0.0.1", "localhost"))
        graph = await DynamoGraph.open(f"{table}&cafile={trusted().certificate}")
        assert await graph.obj_get([1]) == {}
        await graph.close()
        with pytest.raises(MisconfiguredEngine) as caught:
            await DynamoGraph.open(f"{table}&cafile={unknown().certificate}")
        assert "the server's certificate is not trusted" in with_cause(caught.value)


def test_redis_documented_acl_matches_acl_used_by_tests() -> None:
    documented = redis.DOCUMENTED.read_text("utf-8").strip()
    assert documented in (redis.DOCUMENTED.parents[2] / "docs" / "operations.md").read_text("utf-8")


def test_rabbitmq_documented_permissions_match_permissions_used_by_tests() -> None:
    page = (redis.DOCUMENTED.parents[2] / "docs" / "operations.md").read_text("utf-8")
    assert " ".join(f"'{expression}'" for expression in servers.PERMISSIONS) in page


@in_loop
async def test_rabbitmq_outbox_with_unreachable_node_connects_to_next_node() -> None:
    url = (await asyncio.to_thread(rabbitmq.node)).url
    outbox = await RabbitOutbox.open(url.replace("@", "@127.0.0.1:1,"), namespace=rabbitmq.namespace(), taking=False)
    try:

        async def reached() -> bool:
            return outbox._putting.up

        await eventually(reached, True)
        assert await outbox.backlog() == 0
    finally:
        await outbox.close()


def test_broker_url_with_several_nodes_is_split_into_one_url_per_node() -> None:
    assert url_of_each("amqps://u:p%40@one,two:5673/net%2Fwork?cafile=" + str(trusted().certificate), heartbeat=10) == [
        f"amqps://u:p%40@{host}/net%2Fwork?cafile={trusted().certificate}&heartbeat=10" for host in ("one", "two:5673")
    ]
    for wrong in ("amqp://u:p/w@one", "amqp://one?no_verify_ssl=1", "amqp://one?cafile=/ca.pem", "http://one"):
        with pytest.raises(InvalidInput, match="broker: "):
            url_of_each(wrong, heartbeat=10)
