"""Report on a network: its most used tags, and member statistics.

    python examples/report.py sqlite:///demo/shoal.db ann bob

Only one process may open an SQLite file, so stop its server first; a PostgreSQL network may keep running.
"""

from __future__ import annotations

import asyncio
import sys

from shoal import Shoal


async def report(url: str, names: list[str]) -> None:
    """Print the ten most used tags, then a line for each member."""
    async with Shoal.open(url) as shoal:
        cloud = await shoal.tags.cloud(limit=10)
        for word in cloud.words:
            print(f"{word.uses:>8}  #{word.form}")
        for name in names:
            member = await shoal.member(name)
            profile, received = await member.profile(), await member.received()
            print(f"{name}: {profile.posts} posts, {profile.followers} followers, {received.likes} likes received")


if __name__ == "__main__":
    asyncio.run(report(sys.argv[1], sys.argv[2:]))
