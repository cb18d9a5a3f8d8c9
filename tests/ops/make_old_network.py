"""Creates `data/old-network.tar.xz`: a small network as stored on 2026-11-22, before media referred to their posts.

Run it with the code of that day (commit da94c40); today's code would store the current format:

    PYTHONPATH=<checkout of da94c40>/src python tests/ops/make_old_network.py tests/ops/data/old-network.tar.xz
"""

from __future__ import annotations

import asyncio
import io
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image, ImageDraw

from shoal import Shoal
from shoal.commands import media, members, polls, posts
from shoal.commands.members import ProfileChange
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.library import Handle

PASSWORD = "correct horse battery"
NAMES = ("ann", "ben", "cyd", "dan")


def picture(number: int) -> bytes:
    """Return a small picture that is different for each number."""
    drawn = Image.new("RGB", (96, 72), (20 * number % 256, 120, 200))
    ImageDraw.Draw(drawn).ellipse((8, 8, 40 + number, 60), fill=(240, 30 * number % 256, 40))
    file = io.BytesIO()
    drawn.save(file, "PNG")
    return file.getvalue()


async def fill(shoal: Shoal) -> None:
    """Create the members and perform all their actions."""
    ann, ben, cyd, dan = [
        await shoal.register(name, PASSWORD, email=f"{name}@example.org", display_name=name.title()) for name in NAMES
    ]
    for follower, followed in ((ben, ann), (cyd, ann), (cyd, ben), (ann, ben), (dan, cyd)):
        await follower.follow(followed)
    await dan.follow_tag("dawn")
    await _faces(shoal, ann, ben)
    shown = await _pictures(shoal, ann, ben)
    await _talk(shoal, ann, ben, cyd, dan, shown)
    await shoal.settle()


async def _faces(shoal: Shoal, ann: Handle, ben: Handle) -> None:
    """Set two avatars in turn, a header, and two avatars concurrently, one of which stays behind as a file."""
    await ann.update_profile(avatar=picture(1))
    await ann.update_profile(avatar=picture(2), header=picture(3))
    writes = shoal.network.writes
    await asyncio.gather(*[members.update_profile(writes, ben.id, ProfileChange(avatar=picture(n))) for n in (4, 5)])


async def _pictures(shoal: Shoal, ann: Handle, ben: Handle) -> int:
    """Upload attached, removed, deleted, discarded and never attached pictures; return the id of the post that shows two."""
    writes = shoal.network.writes
    mountain, boat, net, rope = [await ann.upload(picture(n), description=f"picture {n}") for n in (6, 7, 8, 9)]
    shown = await ann.create("Two pictures at #dawn", media=[mountain, boat])
    edited = await ann.create("Before the edit", media=[net, rope])
    await posts.update(writes, ann.id, edited.id, Draft(text="After the edit #sea", media=[rope.id]))
    gone = [await ben.upload(picture(n)) for n in (10, 11)]
    deleted = await ben.create("To be deleted", media=gone)
    await ben.delete(deleted)
    await ben.upload(picture(12), description="never came to a post")
    both = await ben.upload(picture(13))
    twice = [await ben.create(f"The same picture, {n}", media=[both]) for n in (1, 2)]
    await ben.delete(twice[0])
    discarded = await ben.upload(picture(14))
    await media.discard(writes, ben.id, discarded.id)  # type: ignore[attr-defined]  # exists at commit da94c40
    return shown.id


async def _talk(shoal: Shoal, ann: Handle, ben: Handle, cyd: Handle, dan: Handle, shown: int) -> None:
    writes = shoal.network.writes
    for member in (ben, cyd, dan):
        await member.like(shown)
    await ben.share(shown)
    await cyd.bookmark(shown)
    reply = await ben.comment(shown, "Where is that?")
    await ann.comment(reply, "In the north.")
    await ben.comment(shown, "@ann tell nobody", visibility="direct")
    await cyd.comment(shown, "@ann nor me", visibility="direct")
    await cyd.comment(shown, "For those who follow me", visibility="followers")
    talk = await ann.create("@ben a word, please", visibility="direct")
    await ben.comment(talk, "@ann at once")
    asked = await cyd.create("Quiet today #sea")
    await cyd.unlike(asked)
    question = Draft(text="Tea or coffee? #dawn", poll=PollDraft(options=("tea", "coffee"), seconds=3_600))
    poll = await posts.create(writes, cyd.id, question)
    await polls.vote(writes, ann.id, poll.poll_id, [0])
    await polls.vote(writes, dan.id, poll.poll_id, [1])
    await shoal.hide(await dan.create("Hidden by moderation #dawn"))


async def store_in(folder: Path) -> None:
    """Create the network in a folder."""
    async with Shoal.open(f"sqlite:///{folder}/shoal.db") as shoal:
        await fill(shoal)


def main(target: Path) -> None:
    """Create the network and pack its files."""
    with TemporaryDirectory() as folder:
        asyncio.run(store_in(Path(folder)))
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for path in sorted(Path(folder).iterdir()):
                if path.suffix not in {".db-lock", ".sock"}:
                    archive.add(path, path.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
