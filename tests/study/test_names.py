"""Name sources of the placement study: packed batches, files of several formats, generated names, a live network."""

from __future__ import annotations

import asyncio
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Shoal
from shoal.app.network import open_network
from shoal.core.errors import InvalidInput
from shoal.core.model import Visibility
from shoal.settings import Settings
from shoal_study import names as files
from shoal_study import names as generated
from shoal_study.names import (
    MOST_BYTES,
    SHORT_BYTES,
    FileOptions,
    NameBatch,
    batch_of,
    batches_of,
    file_batches,
    generated_batches,
    network_batches,
)
from tests.async_runner import in_loop

line_names = st.text(st.characters(exclude_characters="\0\n\r\t ", exclude_categories=("Cs", "Cc", "Z")), max_size=90)


def untold(_done: int, _total: int) -> None:
    """Ignore progress."""


def read(path: Path, column: str = "", weight: str = "") -> list[NameBatch]:
    return list(file_batches(path, FileOptions(column, weight), 0, untold))


def names_of(batches: list[NameBatch]) -> list[str]:
    """Return the names in the order of the list, independent of their batches."""
    pairs = [
        (int(at), name.decode()) for batch in batches for at, name in zip(batch.ordinals, batch.encoded(), strict=True)
    ]
    assert [at for at, _ in sorted(pairs)] == list(range(len(pairs)))
    return [name for _, name in sorted(pairs)]


@given(st.lists(line_names, max_size=20))
def test_placement_study_name_batch_returns_lower_cased_names(names: list[str]) -> None:
    batch = batch_of(names)
    assert [name.decode() for name in batch.encoded()] == [name.lower() for name in names]
    assert batch.lengths.tolist() == [len(name.lower().encode()) for name in names]


def test_placement_study_name_batch_packs_four_bytes_per_word_in_little_endian_order() -> None:
    assert batch_of(["ann", "frunk"]).words.T.tolist() == [[0x006E6E61, 0], [0x6E757266, 0x6B]]


@given(st.lists(line_names, max_size=30))
def test_placement_study_name_lines_become_names_and_empty_lines_are_skipped(names: list[str]) -> None:
    lines = "".join(name.lower() + "\n" for name in names).encode()
    assert names_of(list(batches_of(lines, 0))) == [name.lower() for name in names if name]


def test_placement_study_name_batches_separate_long_names_from_single_block_names() -> None:
    names = ["a" * SHORT_BYTES, "b" * (SHORT_BYTES + 1), "c"]
    batches = list(batches_of("\n".join([*names, ""]).encode(), 0))
    assert [batch.ordinals.tolist() for batch in batches] == [[0, 2], [1]]
    assert names_of(batches) == names


@pytest.mark.parametrize(
    ("lines", "words"),
    [(b"ann\n" + b"x" * (MOST_BYTES + 1) + b"\n", "name number 2 has 1,025 bytes"), (b"ann\n\0\n", "zero bytes")],
)
def test_placement_study_name_line_too_long_or_with_zero_byte_is_refused(lines: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        list(batches_of(lines, 0))


@pytest.mark.parametrize("zipped", [False, True])
def test_placement_study_name_file_plain_or_gzip_has_one_name_per_line(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "names.txt"
    text = "Ann\r\n  bob \n\nÉMILE\n" + "z" * 70 + b"\nlast".decode()
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    assert names_of(read(path)) == ["ann", "bob", "émile", "z" * 70, "last"]


def test_placement_study_name_file_is_read_in_pieces_without_splitting_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PIECE", 64)
    path = tmp_path / "names"
    names = [f"name{number}" for number in range(500)]
    path.write_text("\n".join(names))
    batches = read(path)
    assert len(batches) > 50
    assert names_of(batches) == names


def test_placement_study_name_file_from_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Typed:
        buffer = io.BytesIO(gzip.compress(b"ann\nbob\n"))

    monkeypatch.setattr("sys.stdin", Typed)
    assert names_of(read(Path("-"))) == ["ann", "bob"]


def test_placement_study_name_csv_column_and_weights_are_read(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('id,name,posts\n1,Ann,3\n2,"b,ob",0.5\n3,,9\n4,Cyd,0\n')
    batches = read(path, weight="posts")
    assert names_of(batches) == ["ann", "b,ob", "cyd"]
    assert [batch.activity.tolist() for batch in batches if batch.activity is not None] == [[3.0, 0.5, 0.0]]
    assert names_of(read(path, column="id")) == ["1", "2", "3", "4"]


def test_placement_study_name_csv_with_single_column_needs_no_column_option(tmp_path: Path) -> None:
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfwhoever\nann\nbob\n"))
    assert names_of(read(path)) == ["ann", "bob"]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"who,what\nann,1\n", ("", ""), "choose one of the columns with --column: who, what"),
        (b"name,what\nann,1\n", ("nick", ""), "no column 'nick'"),
        (b"name,what\nann,1\n", ("", "posts"), "no column 'posts'"),
        (b"name,posts\nann,1\nbob,many\n", ("", "posts"), "row 3: 'many' is not a weight"),
        (b"name,posts\nann,-1\n", ("", "posts"), "is not a weight"),
        (b"name,posts\nann,inf\n", ("", "posts"), "is not a weight"),
        (b"", ("", ""), "with --column: none"),
        (b"name\n\xff\n", ("", ""), "not UTF-8"),
        # An import of archives in the same process raises the limit of the csv module.
        (b'name\n"' + b"x" * 140_000, ("", ""), "field larger|a name has at most"),
    ],
)
def test_placement_study_name_csv_unreadable_is_refused_with_reason(
    tmp_path: Path, content: bytes, options: tuple[str, str], words: str
) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=words):
        read(path, *options)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"ann\nbob\n\xff\xfe\n", "near line 3: not UTF-8"),
        (gzip.compress(b"ann\n" * 1000, mtime=0)[:40], "damaged gzip"),
        (b"\x1f\x8bno gzip at all", "damaged gzip"),
        (b"x" * (3 << 20), "no line breaks found"),
        (b"ann\nb\0b\n", "zero bytes"),
    ],
)
def test_placement_study_name_file_invalid_is_refused_with_reason(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=words):
        read(path)


def test_placement_study_generated_names_are_unique_and_deterministic_per_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "_NAMES_PER_BATCH", 700)
    told: list[tuple[int, int]] = []
    names = names_of(list(generated_batches(12_345, 7, lambda done, total: told.append((done, total)))))
    assert len(set(names)) == len(names) == 12_345
    assert names == names_of(list(generated_batches(12_345, 7, untold)))
    assert names != names_of(list(generated_batches(12_345, 8, untold)))
    assert told[-1] == (12_345, 12_345)
    assert all(name.isascii() and name.islower() for name in names)


@in_loop
async def test_member_names_of_network_are_returned_in_join_order_with_post_counts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shoal.db"
    async with Shoal.open(url) as network:
        people = []
        for name in ("cyd", "ann", "bob"):
            people.append(await network.register(name))
            # Members who join within one millisecond have no defined order.
            await asyncio.sleep(0.002)
        for number in range(3):
            await people[1].create(f"a post, {number}", visibility=Visibility.PUBLIC)
        await network.settle()
    async with open_network(Settings(store=url), read_only=True) as opened:
        plain = [batch async for batch in network_batches(opened.store, 0, untold, by_posts=False)]
        posting = [batch async for batch in network_batches(opened.store, 0, untold, by_posts=True)]
    assert names_of(plain) == ["cyd", "ann", "bob"]
    assert plain[0].activity is None
    assert posting[0].activity is not None
    assert np.array_equal(posting[0].activity, [0, 3, 0])
