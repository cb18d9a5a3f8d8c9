"""Decoding in children: what a bad picture or a killed process does, and what is left afterwards."""

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
from tests.examples import examples
from tests.serving import alive

PAST_LIMITS = "could not be decoded within the limits: at most 16 MiB, .* million pixels, .* seconds and .* of memory"
GONE = 10.0
"""Seconds within which a process that must end has ended, on a busy machine."""


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
    """Warm the decoder up, then freeze its child, so that the next job is in the middle of being done for ever."""
    await decoder.render(picture())
    (pid,) = decoder.children
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_a_picture_is_rendered_and_cropped_in_a_child() -> None:
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


def test_no_child_runs_before_the_first_picture_and_the_server_never_loads_pillow() -> None:
    script = "import sys, shoal.media.library, shoal.media.decoder; sys.exit('PIL' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)

    async def story() -> None:
        async with Decoder() as decoder:
            assert decoder.children == []

    asyncio.run(story())


def test_errors_come_back_in_their_kinds_and_the_child_goes_on() -> None:
    async def story() -> None:
        async with Decoder(UploadLimits(max_pixels=5000)) as decoder:
            with pytest.raises(Unsupported, match="JPEG, PNG"):
                await decoder.render(b"a text named holiday.jpg")
            with pytest.raises(TooLarge, match="100 x 100 pixels"):
                await decoder.render(picture(size=(100, 100)))
            with pytest.raises(InvalidInput, match="empty"):
                await decoder.render(b"")
            before = decoder.children
            with pytest.raises(InvalidInput, match="cut short or damaged"):
                await decoder.render(picture()[:300])
            assert (await decoder.render(picture())).feed.width == 64
            assert decoder.children == before

    asyncio.run(story())


def test_an_upload_of_100_mb_is_refused_without_a_child() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            with pytest.raises(TooLarge, match=r"95.37 MiB is too large: at most 16 MiB"):
                await decoder.render(bytes(100_000_000))
            assert decoder.children == []

    asyncio.run(story())


def test_the_memory_limit_stops_a_bomb_that_the_pixel_limit_let_through() -> None:
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
def test_the_largest_picture_that_is_allowed_fits_into_the_memory_that_is_allowed(
    kind: str, mode: str, limits: UploadLimits
) -> None:
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
def test_a_child_that_is_killed_in_the_middle_refuses_the_picture_and_the_next_one_works(
    number: signal.Signals,
) -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            pid = await stopped_child(decoder)
            job = asyncio.create_task(decoder.render(picture()))
            await asyncio.sleep(0.05)
            os.kill(pid, number)
            with contextlib.suppress(ProcessLookupError):  # a killed child may have been collected already
                os.kill(pid, signal.SIGCONT)
            with pytest.raises(InvalidInput, match=PAST_LIMITS):
                await job
            assert (await decoder.render(picture())).feed.width == 64
            assert decoder.children != [pid]

    asyncio.run(story())


def test_a_picture_that_takes_too_long_is_refused_and_its_child_killed() -> None:
    async def story() -> None:
        async with Decoder(UploadLimits(seconds=0.5)) as decoder:
            pid = await stopped_child(decoder)
            with pytest.raises(InvalidInput, match=PAST_LIMITS):
                await decoder.render(picture())
            await until(lambda: not alive(pid))
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_a_caller_that_goes_away_takes_its_child_with_it() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            pid = await stopped_child(decoder)
            job = asyncio.create_task(decoder.render(picture()))
            await asyncio.sleep(0.05)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            await until(lambda: not alive(pid))
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_a_child_that_was_killed_while_idle_is_no_picture_s_fault() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            await decoder.render(picture())
            (pid,) = decoder.children
            os.kill(pid, signal.SIGKILL)
            await until(lambda: not alive(pid))
            await asyncio.sleep(0.1)
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_callers_queue_up_to_a_maximum() -> None:
    async def story() -> None:
        async with Decoder(max_waiting=2) as decoder:
            pid = await stopped_child(decoder)
            jobs = [asyncio.create_task(decoder.render(picture())) for _ in range(3)]
            await asyncio.sleep(0.05)
            with pytest.raises(Unavailable, match="too many pictures"):
                await decoder.render(picture())
            os.kill(pid, signal.SIGCONT)
            assert [made.feed.width for made in await asyncio.gather(*jobs)] == [64] * 3
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_two_children_work_side_by_side() -> None:
    async def story() -> None:
        async with Decoder(children=2) as decoder:
            await asyncio.gather(*(decoder.render(picture(size=(1500, 1500))) for _ in range(3)))
            assert len(set(decoder.children)) == 2

    asyncio.run(story())


def test_a_child_is_replaced_after_its_number_of_jobs() -> None:
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


def test_an_idle_child_ends_after_a_while_and_another_comes_when_needed() -> None:
    async def story() -> None:
        async with Decoder(idle_seconds=0.1) as decoder:
            await decoder.render(picture())
            (pid,) = decoder.children
            await until(lambda: decoder.children == [] and not alive(pid))
            assert (await decoder.render(picture())).feed.width == 64

    asyncio.run(story())


def test_leaving_the_decoder_ends_busy_children_and_tells_their_callers() -> None:
    async def story() -> None:
        async with Decoder() as decoder:
            pid = await stopped_child(decoder)
            jobs = [asyncio.create_task(decoder.render(picture())) for _ in range(2)]
            await asyncio.sleep(0.05)
        assert not alive(pid)
        for job in jobs:
            with pytest.raises(Unavailable, match="stopping"):
                await job
        with pytest.raises(Unavailable, match="stopping"):
            await decoder.render(picture())

    asyncio.run(asyncio.wait_for(story(), GONE))


def test_a_child_has_limits_and_none_of_the_server_s_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_child_ends_when_its_server_is_killed() -> None:
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
def test_a_child_that_does_not_start_is_no_picture_s_fault(
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


def test_a_python_that_is_not_there_is_no_picture_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_any_bytes_are_refused_and_never_hang(attempt: Callable[[bytes], None], head: bytes, rest: bytes) -> None:
    attempt(head + rest)


@settings(deadline=None, max_examples=examples(150, full=300))
@given(data=st.data())
def test_any_damage_to_a_good_file_is_survived(attempt: Callable[[bytes], None], data: st.DataObject) -> None:
    file = bytearray(data.draw(st.sampled_from(GOOD)))
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    attempt(bytes(file[: data.draw(st.integers(1, len(file)))]))
    attempt(bytes(file))


def test_the_picture_of_one_member_does_not_wait_for_all_of_another_s() -> None:
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


def test_one_member_cannot_take_the_whole_queue() -> None:
    async def story() -> None:
        async with Decoder(max_waiting=4, max_of_one=2) as decoder:
            pid = await stopped_child(decoder)
            jobs = [asyncio.create_task(decoder.render(picture(), member="ann")) for _ in range(3)]
            await asyncio.sleep(0.05)
            with pytest.raises(Unavailable, match="too many pictures"):
                await decoder.render(picture(), member="ann")
            jobs.append(asyncio.create_task(decoder.render(picture(), member="ben")))
            await asyncio.sleep(0.05)
            jobs[1].cancel()
            os.kill(pid, signal.SIGCONT)
            made = await asyncio.gather(*jobs, return_exceptions=True)
            assert [isinstance(each, asyncio.CancelledError) for each in made] == [False, True, False, False]

    asyncio.run(story())
