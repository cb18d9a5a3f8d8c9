"""Search in 26,293 real posts in twenty scripts: the results of an index equal those of a full scan."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any
from unicodedata import normalize

import msgspec
import pytest

from shoal.core.ids import EPOCH_MS, compose
from shoal.core.model import Post
from shoal.core.tokenizer import clause_of
from shoal.search.contract import Ask, IndexChange
from shoal.search.indexing import post_row
from shoal.search.memory import MemoryIndex
from shoal.search.sqlite import SqliteIndex
from tests.async_runner import run
from tests.real_data import real_data

_FILE = "posts/photos_cc0_pdm.jsonl.gz"
_BATCH = 2_000

IN_WORDS = ("sunset", "golden hour", "шторм", "Новороссийск", "море", "قطة", "דוגמנית", "আমার", "Ngọc", "ελλάδα", "wat")
"""Queries in scripts with spaces, which match whole words."""
IN_PARTS = ("東京", "夜景", "光", "桜", "さくら", "ゴールデン", "궁", "서울", "วัด", "ไทย")
"""Queries in scripts without spaces, which match any part."""


@pytest.fixture(scope="module")
def posts() -> list[Post]:
    with gzip.open(real_data(_FILE) / _FILE) as lines:
        photos: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
    return [
        Post(
            id=compose(EPOCH_MS + number, 1),
            author_id=1,
            text=f"{photo['name'] or ''}\n{photo['description'] or ''}\n{', '.join(photo['tags'])}",
        )
        for number, photo in enumerate(photos)
    ]


def _bare(text: str) -> str:
    """Remove accents and case, independently of the index."""
    apart = normalize("NFKD", text.casefold())
    return normalize("NFC", "".join(one for one in apart if not 0x300 <= ord(one) <= 0x36F))


def _looked_through(posts: list[Post]) -> dict[str, list[int]]:
    bare = [(post.id, _bare(post.text)) for post in reversed(posts)]
    found: dict[str, list[int]] = {}
    for query in IN_PARTS:
        found[query] = [id_ for id_, text in bare if _bare(query) in text]
    for query in IN_WORDS:
        words = r"[\W_]+".join(map(re.escape, _bare(query).split()))
        whole = re.compile(rf"(?<![^\W_])(?<![\u0900-\u0dff]){words}(?![^\W_])(?![\u0900-\u0dff])")
        found[query] = [id_ for id_, text in bare if whole.search(text)]
    return found


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_search_index_with_real_posts_matches_full_scan_in_every_script(
    posts: list[Post], kind: str, tmp_path: Path
) -> None:
    async def searched() -> dict[str, list[int]]:
        index = MemoryIndex() if kind == "memory" else await SqliteIndex.open(tmp_path / "real.search")
        for start in range(0, len(posts), _BATCH):
            await index.write(IndexChange(posts=[post_row(post) for post in posts[start : start + _BATCH]]))
        answer: dict[str, list[int]] = {}
        for query in (*IN_PARTS, *IN_WORDS):
            clause = clause_of(query)
            assert clause is not None
            answer[query] = await index.posts(Ask(every=(clause,)), len(posts))
        await index.close()
        return answer

    found, expected = run(searched()), _looked_through(posts)
    assert found == expected
    # Most queries have results.
    assert sum(1 for ids in expected.values() if ids) >= 15
