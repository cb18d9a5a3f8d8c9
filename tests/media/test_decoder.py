"""Image decoding in child processes: damaged images, killed processes and cleanup."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from shoal.core.errors import InvalidInput, TooLarge, Unavailable, Unsupported
from shoal.media import decoder as child_module
from shoal.media.decoder import Child, Decoder
from shoal.media.limits import MIB, UploadLimits
from tests.example_counts import examples
from tests.server_process import alive

PAST_LIMITS = "could not be decoded within the limits: at most 16 MiB, .* million pixels, .* seconds and .* of memory"
GONE = 60.0
"""Maximum seconds for a process to exit on a busy machine."""


def picture(kind: str = "JPEG", size: tuple[int, int] = (64, 48), **options: Any) -> bytes:
    file = io.BytesIO()
    Image.effect_noise(size, 60).convert("RGB").save(file, kind, **options)
    return file.getvalue()


def proc(pid: int, file: str) -> str:
    return Path(f"/proc/{pid}/{file}").read_text()


async def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + GONE
    while not condition():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


async def stopped_child(decoder: Decoder) -> int:
    """Warm up the decoder, then stop its child, so that the next job never finishes."""
    await decoder.render(picture())
    (pid,) = decoder.children
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_image_decoder_renders_and_crops_in_a_child_process() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            made = await decoder.render(picture(size=(3000, 1500)))
            assert (made.feed.width, made.preview.height) == (2560, 320)
            assert made.feed.data.startswith(b"\xff\xd8\xff")
            cut = await decoder.crop(picture(size=(2000, 1000)), 400, 400)
            assert (cut.picture.width, cut.picture.height) == (400, 400)
            assert len(decoder.children) == 1
            (pid,) = decoder.children
        assert not alive(pid)

    asyncio.run(story())


def test_image_decoder_starts_no_child_before_first_image() -> None:
    script = "import sys, shoal.media.library, shoal.media.decoder; sys.exit('PIL' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)

    async def story() -> None:
        async with Decoder() as decoder:
            assert decoder.children == []

    asyncio.run(story())


def test_image_decoder_errors_keep_their_types_and_child_is_reused() -> None:
    async def story() -> None:
        async with Decoder(UploadLimits(max_pixels=5000)) as decoder:
            with pytest.raises(Unsupported, match="JPEG, PNG"):
                await decoder.render(b"a text named holiday.jpg")
            with pytest.raises(TooLarge, match="100 x 100 pixels"):
                await decoder.render(picture(size=(100, 100)))
            with pytest.raises(InvalidInput, match="empty"):
                await decoder.render(b"")
            before = decoder.children
            with pytest.raises(InvalidInput, match="incomplete or damaged"):
                await decoder.render(picture()[:300])
            assert (await decoder.render(picture())).feed.width == 64
            assert decoder.children == before

    asyncio.run(story())


def test_image_decoder_refuses_100_mb_upload_without_child() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            with pytest.raises(TooLarge, match=r"95.37 MiB is too large: the maximum is 16 MiB"):
                await decoder.render(bytes(100_000_000))
            assert decoder.children == []

    asyncio.run(story())


def test_image_decoder_memory_limit_stops_decompression_bomb() -> None:
    file = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, "PNG")

    async def story() -> None:
        async with Decoder(UploadLimits(max_pixels=500_000_000, memory=300 * MIB)) as decoder:
            with pytest.raises(InvalidInput, match=PAST_LIMITS):
                await decoder.render(file.getvalue())
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


@pytest.mark.parametrize(
    ("kind", "mode", "limits"),
    [
        ("PNG", "RGB", UploadLimits()),
        ("PNG", "RGBA", UploadLimits()),
        ("PNG", "P", UploadLimits()),
        ("WEBP", "RGB", UploadLimits()),
        ("WEBP", "RGBA", UploadLimits()),
        ("WEBP", "RGBA", UploadLimits().keeping_originals()),
        ("AVIF", "RGB", UploadLimits()),
        ("AVIF", "RGBA", UploadLimits()),
        ("AVIF", "RGBA", UploadLimits().keeping_originals()),
    ],
)
def test_image_decoder_largest_allowed_image_fits_memory_limit(kind: str, mode: str, limits: UploadLimits) -> None:
    file = io.BytesIO()
    options: dict[str, Any] = {
        "PNG": {"compress_level": 1},
        "WEBP": {"lossless": True, "method": 0},
        "AVIF": {"speed": 10},
    }[kind]
    image = Image.new(mode, (8000, 5000))
    if mode == "P":
        image.putpalette([0, 0, 0])
        options["transparency"] = b"\x80"
    image.save(file, kind, **options)

    async def story() -> None:
        async with Decoder(limits) as decoder:
            made = await decoder.render(file.getvalue())
            assert made.feed.width == 2560
            assert (made.original.width if made.original else 0) == (8000 if limits.keep_originals else 0)

    asyncio.run(story())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_image_decoder_killed_child_refuses_image_and_is_replaced(
    number: signal.Signals,
) -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            pid = await stopped_child(decoder)
            job = asyncio.create_task(decoder.render(picture()))
            await until(lambda: decoder.busy == 1)
            os.kill(pid, number)
            with contextlib.suppress(ProcessLookupError):  # a killed child may have been collected already
                os.kill(pid, signal.SIGCONT)
            with pytest.raises(InvalidInput, match=PAST_LIMITS):
                await job
            assert (await decoder.render(picture())).feed.width == 64
            assert decoder.children != [pid]

    asyncio.run(story())


def test_image_decoder_timeout_refuses_image_and_kills_child() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            pid = await stopped_child(decoder)
            # The limit is for this picture only: a slow machine takes longer for the others.
            decoder.limits = UploadLimits(seconds=0.5)
            with pytest.raises(InvalidInput, match=PAST_LIMITS):
                await decoder.render(picture())
            decoder.limits = UploadLimits()
            await until(lambda: not alive(pid))
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_image_decoder_cancelled_call_kills_its_child() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            pid = await stopped_child(decoder)
            job = asyncio.create_task(decoder.render(picture()))
            await until(lambda: decoder.busy == 1)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            await until(lambda: not alive(pid))
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_image_decoder_killed_idle_child_is_replaced() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            await decoder.render(picture())
            (child,) = decoder._idle
            os.kill(child.pid, signal.SIGKILL)
            await until(lambda: not child.alive)
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_image_decoder_queue_is_bounded() -> None:
    async def story() -> None:
        async with Decoder(max_waiting=2) as decoder:
            pid = await stopped_child(decoder)
            jobs = [asyncio.create_task(decoder.render(picture())) for _ in range(3)]
            await until(lambda: decoder.waiting == 2)
            with pytest.raises(Unavailable, match="too many pictures"):
                await decoder.render(picture())
            os.kill(pid, signal.SIGCONT)
            assert [made.feed.width for made in await asyncio.gather(*jobs)] == [64] * 3
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_image_decoder_children_work_in_parallel() -> None:
    async def story() -> None:
        async with Decoder(children=2) as decoder:
            await asyncio.gather(*(decoder.render(picture(size=(1500, 1500))) for _ in range(3)))
            assert len(set(decoder.children)) == 2

    asyncio.run(story())


def test_image_decoder_child_is_replaced_after_job_limit() -> None:
    async def story() -> None:
        async with Decoder(jobs_per_child=2) as decoder:
            seen = []
            for _ in range(4):
                await decoder.render(picture())
                seen.append(decoder.children)
            assert seen[0] != []
            assert seen[1] == []
            assert seen[2] not in ([], seen[0])
            assert seen[3] == []

    asyncio.run(story())


def test_image_decoder_idle_child_exits_and_is_restarted_on_demand() -> None:
    async def story() -> None:
        async with Decoder(idle_seconds=0.1) as decoder:
            await decoder.render(picture())
            (pid,) = decoder.children
            await until(lambda: decoder.children == [] and not alive(pid))
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_image_decoder_close_kills_busy_children_and_fails_their_calls() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            pid = await stopped_child(decoder)
            jobs = [asyncio.create_task(decoder.render(picture())) for _ in range(2)]
            await until(lambda: decoder.waiting == 1)
        assert not alive(pid)
        for job in jobs:
            with pytest.raises(Unavailable, match="stopping"):
                await job
        with pytest.raises(Unavailable, match="stopping"):
            await decoder.render(picture())

    asyncio.run(asyncio.wait_for(story(), GONE))


def test_image_decoder_child_has_resource_limits_and_no_server_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")

    async def story() -> None:
        async with Decoder() as decoder:
            await decoder.render(picture())
            (pid,) = decoder.children
            soft = {line[:25].strip(): line[26:].split()[0] for line in proc(pid, "limits").splitlines()}
            assert soft["Max address space"] == str(1024 * MIB)
            assert soft["Max open files"] == "32"
            assert soft["Max core file size"] == soft["Max file size"] == "0"
            assert 20 <= int(soft["Max cpu time"]) <= 25
            assert "very-secret" not in proc(pid, "environ")

    asyncio.run(story())


def test_image_decoder_child_exits_when_server_is_killed() -> None:
    script = (
        "import asyncio, sys\n"
        "from shoal.media.decoder import Decoder\n"
        "async def main():\n"
        "    async with Decoder() as decoder:\n"
        "        await decoder.render(sys.stdin.buffer.read())\n"
        "        print(decoder.children[0], flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(picture())
        server.stdin.close()
        pid = int(server.stdout.readline())
        assert alive(pid)
        server.kill()
    asyncio.run(until(lambda: not alive(pid)))


@pytest.mark.parametrize("script", ["raise SystemExit(1)", "print('nonsense' * 1000)", "import time; time.sleep(60)"])
def test_image_decoder_child_start_failure_is_unavailable(
    script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{script}"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    monkeypatch.setattr(child_module, "START_SECONDS", 1.0)

    async def story() -> None:
        async with Decoder() as decoder:
            with pytest.raises(Unavailable, match="right now"):
                await decoder.render(picture())
            assert decoder.children == []

    asyncio.run(story())


def test_image_decoder_missing_python_executable_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(Unavailable):
        asyncio.run(Child.ready(UploadLimits()))


HEADS = (
    b"",
    b"\xff\xd8\xff\xe0",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"RIFF\x10\x00\x00\x00WEBPVP8 ",
    b"\x00\x00\x00\x18ftypavif",
)
GOOD = tuple(picture(kind, (24, 16)) for kind in ("JPEG", "PNG", "GIF", "WEBP", "AVIF"))


@pytest.fixture(scope="module")
def attempt() -> Iterator[Callable[[bytes], None]]:
    """Render bytes in one long-lived decoder; the only error that passes is `InvalidInput`."""
    with asyncio.Runner() as runner:
        decoder = Decoder(UploadLimits(seconds=5))

        def run(work: Coroutine[Any, Any, Any]) -> Any:
            return runner.run(work)

        def attempt(data: bytes) -> None:
            with suppress(InvalidInput):
                run(decoder.render(data))

        run(decoder.__aenter__())
        yield attempt
        run(decoder.__aexit__(None, None, None))


@settings(deadline=None, max_examples=examples(100, full=200))
@given(head=st.sampled_from(HEADS), rest=st.binary(max_size=400))
def test_image_decoder_refuses_arbitrary_bytes_without_hanging(
    attempt: Callable[[bytes], None], head: bytes, rest: bytes
) -> None:
    attempt(head + rest)


@settings(deadline=None, max_examples=examples(150, full=300))
@given(data=st.data())
def test_image_decoder_survives_damaged_files(attempt: Callable[[bytes], None], data: st.DataObject) -> None:
    file = bytearray(data.draw(st.sampled_from(GOOD)))
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    attempt(bytes(file[: data.draw(st.integers(1, len(file)))]))
    attempt(bytes(file))


def test_image_decoder_queue_is_fair_between_members() -> None:
    async def story() -> None:
        async with Decoder(max_of_one=30) as decoder:
            done: list[str] = []

            async def render(member: str) -> None:
                await decoder.render(picture(), member=member)
                done.append(member)

            await stopped_child(decoder)
            jobs = [asyncio.create_task(render("ann")) for _ in range(25)]
            await asyncio.sleep(0)
            jobs.append(asyncio.create_task(render("ben")))
            await asyncio.sleep(0)
            os.kill(decoder.children[0], signal.SIGCONT)
            await asyncio.gather(*jobs)
            assert done.index("ben") <= 2

    asyncio.run(story())


def test_image_decoder_queue_per_member_is_bounded() -> None:
    async def story() -> None:
        async with Decoder(max_waiting=4, max_of_one=2) as decoder:
            pid = await stopped_child(decoder)
            jobs = [asyncio.create_task(decoder.render(picture(), member="ann")) for _ in range(3)]
            await until(lambda: decoder.waiting == 2)
            with pytest.raises(Unavailable, match="too many pictures"):
                await decoder.render(picture(), member="ann")
            jobs.append(asyncio.create_task(decoder.render(picture(), member="ben")))
            await until(lambda: decoder.waiting == 3)
            jobs[1].cancel()
            os.kill(pid, signal.SIGCONT)
            made = await asyncio.gather(*jobs, return_exceptions=True)
            assert [isinstance(each, asyncio.CancelledError) for each in made] == [False, True, False, False]

    asyncio.run(story())
