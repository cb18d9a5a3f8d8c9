"""Search: the real posts, repeated with new ids, indexed in memory, SQLite and PostgreSQL, and queried for their words.

Rows are computed before the clock starts, except for their own figure, and written 500 at a time, like a server under load.
Queries are random words of the posts, so common words are more frequent, alone and in pairs, for the newest 20 matches.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import msgspec

from benchmarks.measure import REAL_DATA, Report, parser, spread, workplace
from benchmarks.postgres_commits import server
from shoal.core.ids import EPOCH_MS, compose
from shoal.core.model import Member, Post
from shoal.core.text import canonical_tag
from shoal.core.tokenizer import clause_of
from shoal.search.contract import Ask, IndexChange, MemberRow, PostRow, SearchIndex
from shoal.search.indexing import member_row, post_row
from shoal.search.memory import MemoryIndex
from shoal.search.postgres import PostgresIndex
from shoal.search.sqlite import SqliteIndex

_BATCH = 500
_PAGE = 20


class Photo(msgspec.Struct):
    user_id: int
    name: str | None = None
    description: str | None = None
    tags: list[str] = []


def real_posts(data: Path, count: int) -> list[Post]:
    """Return `count` posts with the texts of the real ones, repeated as necessary."""
    with gzip.open(data / "posts" / "photos_cc0_pdm.jsonl.gz") as lines:
        photos = [msgspec.json.decode(line, type=Photo) for line in lines]
    return [_post(number, photo) for number, photo in zip(range(count), itertools.cycle(photos), strict=False)]


def _post(number: int, photo: Photo) -> Post:
    tags = [name for tag in photo.tags if (name := canonical_tag(tag.replace(" ", "")))]
    text = f"{photo.name or ''}\n{(photo.description or '')[:2_000]}\n{' '.join('#' + tag for tag in tags)}"
    return Post(id=compose(EPOCH_MS + number, 1), author_id=1 + photo.user_id % 10_000, text=text, tags=tuple(tags))


def made_up_posts(count: int) -> list[Post]:
    """Return posts of forty words each with a power law, for use without the real ones."""
    random = Random(5)
    words = [f"word{number}" for number in range(20_000)]
    weights = list(itertools.accumulate(1 / (number + 1) for number in range(len(words))))
    return [
        Post(
            id=compose(EPOCH_MS + number, 1),
            author_id=random.randrange(1, 600),
            text=" ".join(random.choices(words, cum_weights=weights, k=40)),
        )
        for number in range(count)
    ]


def questions(posts: Sequence[Post], count: int) -> list[Ask]:
    """Return random words of these posts: one, or two of a single post."""
    random = Random(7)
    asked: list[Ask] = []
    while len(asked) < count:
        words = random.choice(posts).text.split()
        chosen = random.sample(words, min(len(words), 1 + len(asked) % 2))
        if clauses := tuple(clause for word in chosen if (clause := clause_of(word))):
            asked.append(Ask(every=clauses))
    return asked


async def measure(
    name: str,
    index: SearchIndex,
    posts: Sequence[PostRow],
    members: Sequence[MemberRow],
    asked: Sequence[Ask],
    report: Report,
) -> list[list[int]]:
    """Fill this index and query it; return the results."""
    await index.write(IndexChange(members=members))
    began = time.perf_counter()
    for start in range(0, len(posts), _BATCH):
        await index.write(IndexChange(posts=posts[start : start + _BATCH]))
    report.add(f"{name}: posts written", len(posts) / (time.perf_counter() - began), "posts/s")
    took: list[float] = []
    found: list[list[int]] = []
    for ask in asked:
        began = time.perf_counter()
        found.append(await index.posts(ask, _PAGE))
        took.append((time.perf_counter() - began) * 1000)
    report.add(f"{name}: a query, median", spread(took).median, "ms")
    report.add(f"{name}: a query, p99", spread(took).p99, "ms")
    report.add(f"{name}: posts found by a query, mean", sum(map(len, found)) / len(asked))
    return found


async def _all(folder: Path, posts: Sequence[Post], asked: Sequence[Ask], report: Report) -> None:
    began = time.perf_counter()
    rows = [post_row(post) for post in posts]
    report.add("rows computed from posts, one core", len(rows) / (time.perf_counter() - began), "posts/s")
    people = [member_row(Member(id=id_, name=f"member_{id_}")) for id_ in sorted({post.author_id for post in posts})]
    found = await measure("memory", MemoryIndex(), rows, people, asked, report)
    async with AsyncExitStack() as stack:
        path = folder / "shoal.db.search"
        index: SearchIndex = await SqliteIndex.open(path)
        stack.push_async_callback(index.close)
        same = _same(found, await measure("SQLite", index, rows, people, asked, report))
        report.check("questions to which SQLite answers as memory does", same, len(asked))
        size = sum(file.stat().st_size for file in folder.glob("shoal.db.search*"))  # noqa: ASYNC240  # three files
        report.add("SQLite: a post", size / len(rows), "bytes")
    with server() as program:
        index = await PostgresIndex.open(program.url)
        same = _same(found, await measure("PostgreSQL", index, rows, people, asked, report))
        report.check("questions to which PostgreSQL answers as memory does", same, len(asked))
        await index.close()


def _same(ours: Sequence[list[int]], theirs: Sequence[list[int]]) -> int:
    return sum(one == other for one, other in zip(ours, theirs, strict=True))


def main() -> None:
    options = parser(
        __doc__,
        quick={"posts": 20_000, "questions": 400},
        smallest={"posts": 600, "questions": 20, "made_up": True},
    )
    options.add_argument("--posts", type=int, default=200_000, help="number of posts in the index")
    options.add_argument("--questions", type=int, default=2_000, help="number of search queries")
    options.add_argument(
        "--made-up", action="store_true", help="use posts of random words even if the real posts are installed"
    )
    chosen = options.parse_args()
    report = Report("search", chosen.size)
    real = REAL_DATA.exists() and not chosen.made_up
    with workplace(None) as folder:
        posts = real_posts(REAL_DATA, chosen.posts) if real else made_up_posts(chosen.posts)
        asyncio.run(_all(folder, posts, questions(posts, chosen.questions), report))
    report.show()


if __name__ == "__main__":
    main()
