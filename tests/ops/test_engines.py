"""Engines started for tests and clusters are reachable only from this machine."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shoal_devcluster.program import Program
from tests.engines import dynamodb, postgres, rabbitmq, redis

ENGINES: dict[str, Callable[[], Program]] = {
    "dynamodb": dynamodb.server,
    "postgres": postgres.server,
    "rabbitmq": rabbitmq.node,
    "redis": redis.server,
}
_LISTENING = "0A"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Program:
    """Each engine in turn, running."""
    return ENGINES[request.param]()


def test_test_engine_listens_on_loopback_only(engine: Program) -> None:
    addresses = list(_listening(engine))
    assert urlsplit(engine.url).port in {port for _, port in addresses}
    assert [(host, port) for host, port in addresses if not _is_loopback(host)] == []


def test_test_engine_refuses_connections_to_other_addresses(engine: Program) -> None:
    if (host := _own_address()) is None:
        pytest.skip("this machine has no address but loopback")
    for _, port in _listening(engine):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, port), timeout=60).close()


def _own_address() -> str | None:
    """Return the source address of the machine, without sending a packet."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("192.0.2.1", 9))
        host: str = sender.getsockname()[0]
        return None if _is_loopback(host) else host
    return None


def _is_loopback(host: str) -> bool:
    address = ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _listening(program: Program) -> Iterator[tuple[str, int]]:
    """Yield the listening addresses of an engine's processes, as reported by the kernel."""
    sockets = {name for pid in _session(program) for name in _open_files(Path(f"/proc/{pid}/fd"))}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENING and f"socket:[{inode}]" in sockets:
                host, port = local.split(":")
                yield _address(host), int(port, 16)


def _session(program: Program) -> Iterator[int]:
    """Yield the processes of an engine; each engine runs in a separate session."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[3]) == program.pid:
                yield int(entry.name)


def _open_files(folder: Path) -> Iterator[str]:
    """Yield the open files of a process, which may close them or exit during the scan."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for link in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                yield str(link.readlink())


def _address(words: str) -> str:
    """Decode an address of /proc: words of 32 bits in native byte order."""
    raw = bytes.fromhex(words)
    return str(ip_address(b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))))
