"""Archive uploads are streamed to disk in bounded memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

from bs4 import BeautifulSoup
from httpx import Client

from shoal import Shoal
from tests.server_process import served

PASSWORD = "low tide at dawn"
MIB = 1 << 20


async def _begun(store: Path) -> int:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        return (await shoal.register("ann", PASSWORD)).id


def test_archive_upload_streams_to_disk_in_bounded_memory(tmp_path: Path) -> None:
    store, size = tmp_path / "shoal.db", 160 * MIB
    owner = asyncio.run(_begun(store))
    with served(store, TMPDIR=str(tmp_path)) as server, Client(base_url=server.url, timeout=60) as browser:
        token = _token(browser, "/login")
        browser.post("/login", data={"form_token": token, "username": "ann", "password": PASSWORD})
        token = _token(browser, "/settings/import")
        before = _peak(server.process.pid)

        def body() -> Iterator[bytes]:
            yield f'--x\r\nContent-Disposition: form-data; name="form_token"\r\n\r\n{token}\r\n'.encode()
            yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n'
            for _ in range(size // MIB):
                yield bytes(MIB)
            yield b"\r\n--x--\r\n"

        sent = browser.post(
            "/settings/import", content=body(), headers={"Content-Type": "multipart/form-data; boundary=x"}
        )
        assert (sent.status_code, sent.headers["location"]) == (303, "/settings/import")
        assert _peak(server.process.pid) - before < 64 * MIB
        state = json.loads((store.with_name("shoal.db.archives") / str(owner) / "state.json").read_bytes())
        assert (state["file"], state["size"]) == ("a.zip", size)
        assert server.stop() == 0


def _token(browser: Client, path: str) -> str:
    found = BeautifulSoup(browser.get(path).text, "lxml").select_one("main input[name=form_token]")
    assert found is not None
    return str(found["value"])


def _peak(process: int) -> int:
    """Return the peak memory of a process, in bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
