"""Invalid, damaged and malicious archives are refused with a clear error, in bounded memory, without writing files."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import tarfile
import time
import tracemalloc
import zipfile
from html import escape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from libipld import encode_dag_cbor

from shoal.admin.archives import entries
from shoal.admin.archives.formats import documents
from shoal.admin.archives.formats.instagram import as_typed
from shoal.admin.archives.formats.plain_text import plain
from shoal.admin.archives.plan import ArchivePlan
from shoal.admin.archives.reader import reader_of
from shoal.admin.archives.records import ArchivedPost, ArchiveReport, Omission
from shoal.admin.imports.records import cut
from shoal.cli.transfer import details
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.handles import read_archive
from shoal.core.text import to_html
from tests.archives import factories
from tests.example_counts import examples

NOW = 2_000_000_000_000


def looked_at(path: Path, folder: Path, most: int = entries.MAX_UNPACKED) -> ArchiveReport:
    with entries.opened(path, folder, most) as found:
        return ArchivePlan(folder).fill(reader_of(found, folder), NOW, lambda _: None)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an archive",
        b"[1, 2, 3]",
        b"[]",
        b'{"a": 1}',
        b"PK\x03\x04 and no more",
        b"\x1f\x8b and no more",
        factories.picture(),
        factories.repository({})[:100],
    ],
)
def test_archive_of_unknown_format_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"unknown archive format|damaged"):
        looked_at(written(tmp_path / "file", data), tmp_path)


def test_archive_zip_without_files_of_supported_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unknown archive format"):
        looked_at(factories.zipped(tmp_path / "a.zip", {"holiday/1.jpg": factories.picture()}), tmp_path)


def test_archive_whose_files_are_all_in_a_subfolder_is_read(tmp_path: Path) -> None:
    files = {
        f"archive-2022/{name}": data
        for name, data in factories.mastodon_files([factories.note(1, "<p>One</p>")]).items()
    }
    assert looked_at(factories.zipped(tmp_path / "a.zip", files), tmp_path).found.posts == 1


@pytest.mark.parametrize("seed", range(examples(10, full=30)))
def test_archive_with_random_damage_is_read_or_raises_invalid_input(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    records = {factories.post_key(n): factories.bluesky_post(n, f"Post {n}") for n in range(20)}
    whole = {
        "zip": factories.zipped(
            tmp_path / "z", factories.mastodon_files([factories.note(1, "<p>One</p>")] * 9)
        ).read_bytes(),
        "tar": factories.tarred(
            tmp_path / "t", factories.mastodon_files([factories.note(1, "<p>One</p>")])
        ).read_bytes(),
        "car": factories.repository(records),
        "json": factories.statuses([factories.status(n, "One") for n in range(9)]).encode(),
    }
    for data in map(bytearray, whole.values()):
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = bytes(data[: chance.randrange(len(data))]) if chance.random() < 0.3 else bytes(data)
        try:
            looked_at(written(tmp_path / "damaged", cut), tmp_path)
        except InvalidInput as error:
            assert error.field == "file"  # noqa: PT017  # other outcomes are allowed, too


def test_archive_paths_outside_archive_are_not_read_or_written(tmp_path: Path) -> None:
    secret = written(tmp_path / "secret.jpg", factories.picture())
    reach = ["../secret.jpg", str(secret), f"media_attachments/../../{secret.name}"]
    activity = factories.note(1, "<p>One</p>", attachment=[factories.document(name) for name in reach])
    files = factories.mastodon_files([activity], {"../escaped.jpg": factories.picture()})
    folder = tmp_path / "work"
    folder.mkdir()
    for path in (factories.zipped(tmp_path / "a.zip", files), factories.tarred(tmp_path / "a.tar.gz", files)):
        report = looked_at(path, folder)
        assert (report.found.photos, [one.count for one in report.omitted]) == (0, [3])
        assert {entry.name for entry in tmp_path.iterdir()} <= {"secret.jpg", "work", "a.zip", "a.tar.gz"}
        assert {entry.name for entry in folder.iterdir()} <= {"posts", "packed.zip"}


def test_archive_tar_symlinks_are_not_followed(tmp_path: Path) -> None:
    secret = written(tmp_path / "secret.json", b'{"orderedItems": []}')
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("outbox.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
    with pytest.raises(InvalidInput, match="unknown archive"):
        looked_at(path, tmp_path)


def test_archive_decompression_bomb_is_refused_at_size_limit(tmp_path: Path) -> None:
    most = 8 << 20
    files = factories.mastodon_files([])
    spaces = '{"orderedItems": [' + " " * (3 << 20)
    bomb = factories.zipped(tmp_path / "a.zip", {**files, "outbox.json": f"{spaces}]}}"})
    assert looked_at(bomb, tmp_path, most).found.posts == 0
    long = factories.zipped(tmp_path / "b.zip", {**files, "outbox.json": spaces + " " * (6 << 20)})
    with pytest.raises(TooLarge, match="an item in a document"):
        looked_at(long, tmp_path, most)
    notes = ",".join(json.dumps(factories.note(1, "<p>" + "a" * (1 << 20) + "</p>")) for _ in range(9))
    much = factories.zipped(tmp_path / "c.zip", {**files, "outbox.json": '{"orderedItems": [' + notes + "]}"})
    with pytest.raises(TooLarge, match="the documents of an archive"):
        looked_at(much, tmp_path, most)
    tar = factories.tarred(tmp_path / "d.tar.gz", {**files, "zeros": b"\0" * (9 << 20)})
    with pytest.raises(TooLarge, match="a tar may contain"):
        looked_at(tar, tmp_path, most)


def test_archive_photo_decompression_bomb_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = factories.zipped(tmp_path / "a.zip", {"photo.jpg": b"\0" * (200 << 20)})
    assert path.stat().st_size < 1 << 20
    with entries.opened(path, tmp_path) as found:
        tracemalloc.start()
        with pytest.raises(TooLarge, match=r"photo\.jpg has more than"):
            found.read("photo.jpg", 16 << 20)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
        tracemalloc.stop()


def test_archive_with_too_many_files_is_refused_by_declared_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MAX_ENTRIES", 20)
    many = {f"{n}.txt": b"" for n in range(21)}
    for path in (factories.zipped(tmp_path / "a.zip", many), factories.tarred(tmp_path / "a.tar.gz", many)):
        with pytest.raises(TooLarge, match="20 files"):
            looked_at(path, tmp_path)
    # A declared central directory of two gigabytes that the file does not contain is not read.
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, 2**31 - 1, 0, 0)
    hole = tmp_path / "hole.zip"
    with hole.open("wb") as file:
        file.write(b"PK")
        file.truncate(2**31 + 10)
        file.seek(0, os.SEEK_END)
        file.write(end)
    with pytest.raises(TooLarge, match="20 files"):
        looked_at(hole, tmp_path)


def test_archive_tar_with_gigabyte_long_name_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 4 << 30
    path = written(tmp_path / "a.tar.gz", gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + b"a" * 4096))
    with pytest.raises(TooLarge):
        looked_at(path, tmp_path)


def test_archive_tar_with_endless_sparse_map_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("photo.jpg")
    header.type = tarfile.GNUTYPE_SPARSE
    first = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    first[482] = 1
    first[148:156] = b"%06o\0 " % tarfile.calc_chksums(first)[0]  # type: ignore[attr-defined]  # missing in its stubs
    more = b"00000000001\x0000000000001\0" * 21 + b"\1" + bytes(7)
    path = written(tmp_path / "a.tar.gz", gzip.compress(bytes(first) + more * 65_536))
    tracemalloc.start()
    with pytest.raises(TooLarge):
        looked_at(path, tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_archive_tar_with_many_global_headers_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for n in range(40):
            said = tarfile.TarInfo.create_pax_global_header({f"key{n}.{key}": "a" * 1_000 for key in range(1_000)})
            archive.fileobj.write(said)
            archive.addfile(tarfile.TarInfo(f"{n}.txt"))
    tracemalloc.start()
    with entries.opened(path, tmp_path) as found:
        assert len(found.names) == 40
    assert tracemalloc.get_traced_memory()[1] < 24 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("name", [b"media/\xff.jpg", b"a" * 70_000])
def test_archive_tar_entry_with_invalid_name_is_skipped(tmp_path: Path, name: bytes) -> None:
    files = factories.mastodon_files(
        [factories.note(1, "<p>One</p>")], {name.decode("utf-8", "surrogateescape"): factories.picture()}
    )
    assert looked_at(factories.tarred(tmp_path / "a.tar.gz", files), tmp_path).found.posts == 1


@pytest.mark.parametrize("size", [b"\xff" * 12, b"\x80" + b"\xff" * 11, b"\x80" + bytes(3) + b"\x7f" + b"\xff" * 7])
def test_archive_tar_with_invalid_entry_size_is_refused(tmp_path: Path, size: bytes) -> None:
    header = bytearray(tarfile.TarInfo("photo.jpg").tobuf())
    header[124:136] = size
    header[148:156] = b"%06o\0 " % tarfile.calc_chksums(header)[0]  # type: ignore[attr-defined]  # missing in its stubs
    for zipped, data in ((True, gzip.compress(bytes(header) * 3)), (False, bytes(header) * 3)):
        path = written(tmp_path / f"{zipped}.tar", data)
        with pytest.raises(InvalidInput):
            looked_at(path, tmp_path)


def test_archive_report_escapes_control_characters(tmp_path: Path) -> None:
    odd = "a\x1b]0;title\x07\ntaken in: 9 posts\u202e"
    files = factories.mastodon_files(
        [factories.announce(1, odd), factories.note(2, "<p>\x1b[2JOne</p>", id=odd, inReplyTo=odd)]
    )
    files["actor.json"] = json.dumps({"id": odd})
    report = looked_at(factories.zipped(tmp_path / "a.zip", files), tmp_path)
    assert report.omitted
    assert all(line.isprintable() for line in details(report))


def test_archive_zip_with_password_is_refused(tmp_path: Path) -> None:
    path = factories.zipped(tmp_path / "a.zip", factories.mastodon_files([factories.note(1, "<p>One</p>")]))
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            data[info.header_offset + 6] |= 1
    at = -1
    while (at := data.find(b"PK\1\2", at + 1)) >= 0:
        data[at + 8] |= 1
    with pytest.raises(InvalidInput, match="password"):
        looked_at(written(path, bytes(data)), tmp_path)


def test_archive_deeply_nested_item_is_omitted(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    note = json.dumps(factories.note(1, "<p>One</p>"))
    outbox = f'{{"orderedItems": [{{"type": "Create", "object": {deep}}}, {note}]}}'
    report = looked_at(
        factories.zipped(tmp_path / "a.zip", factories.mastodon_files([]) | {"outbox.json": outbox}), tmp_path
    )
    assert report.found.posts == 1
    assert [(one.kind, one.reason, one.count) for one in report.omitted] == [("posts", Omission.MALFORMED, 1)]
    with pytest.raises(TooLarge, match="64 levels"):
        looked_at(
            factories.zipped(tmp_path / "a.zip", factories.mastodon_files([]) | {"outbox.json": f'{{"a": {deep}}}'}),
            tmp_path,
        )


def test_bluesky_export_with_list_as_subtree_is_refused(tmp_path: Path) -> None:
    data = factories.repository({}).replace(encode_dag_cbor({"l": None, "e": []}), encode_dag_cbor({"l": [], "e": []}))
    with pytest.raises(InvalidInput, match="damaged"):
        looked_at(written(tmp_path / "repo.car", data), tmp_path)


def test_archive_zip_with_non_utf8_name_is_refused(tmp_path: Path) -> None:
    path = factories.zipped(tmp_path / "a.zip", factories.mastodon_files([]) | {"é.txt": ""})
    data = path.read_bytes().replace("é.txt".encode(), b"\xff\xff.txt")
    with pytest.raises(InvalidInput, match="damaged"):
        looked_at(written(path, data), tmp_path)


def test_archive_zip_with_negative_file_offset_is_refused(tmp_path: Path) -> None:
    path = factories.zipped(tmp_path / "a.zip", factories.mastodon_files([]))
    data = bytearray(path.read_bytes())
    # The declared offset of the central directory is too large, so every file offset is negative.
    end = data.rindex(b"PK\5\6")
    data[end + 16 : end + 20] = struct.pack("<I", len(data) * 2)
    with pytest.raises(InvalidInput, match="damaged"):
        looked_at(written(path, bytes(data)), tmp_path)


def test_archive_zip_with_nameless_entry_is_read(tmp_path: Path) -> None:
    path = factories.zipped(
        tmp_path / "a.zip", factories.mastodon_files([factories.note(1, "<p>One</p>")]) | {"~~~": ""}
    )
    data = path.read_bytes().replace(b"~~~", b"\0~~")
    assert looked_at(written(path, data), tmp_path).found.posts == 1


def test_mastodon_archive_actor_file_with_invalid_utf8_is_refused(tmp_path: Path) -> None:
    files = factories.mastodon_files([]) | {"actor.json": b'{"id": "\xff"}'}
    with pytest.raises(InvalidInput, match=r"actor\.json"):
        looked_at(factories.zipped(tmp_path / "a.zip", files), tmp_path)


def test_bluesky_export_with_cyclic_tree_is_refused(tmp_path: Path) -> None:
    # The left subtree of the root is the root. A block cannot contain its own hash, so its CID is wrong.
    cid = factories.cid_of(b"anything")
    node = encode_dag_cbor({"l": cid, "e": []})
    commit = encode_dag_cbor({"did": factories.DID, "version": 3, "data": cid, "rev": "3j", "prev": None, "sig": b""})
    head = encode_dag_cbor({"version": 1, "roots": [factories.cid_of(commit)]})
    blocks = [(factories.cid_of(commit), commit), (cid, node)]
    data = factories.varint(len(head)) + head + b"".join(factories.varint(len(c) + len(b)) + c + b for c, b in blocks)
    with pytest.raises(InvalidInput, match="damaged"):
        looked_at(written(tmp_path / "repo.car", data), tmp_path)


def test_archive_document_list_yields_items_before_its_end_is_read() -> None:
    class Endless(io.RawIOBase):
        """An endless list: a parser that reads all of it first never yields an item."""

        sent = b"["

        def read(self, size: int = -1, /) -> bytes:
            if not size:
                return b""
            found, self.sent = self.sent, b'{"n": 1},'
            return found

    numbers = documents.items(Endless(), "", dict)
    assert [next(numbers).value for _ in range(1_000)] == [{"n": 1}] * 1_000


_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\x85"), max_size=60)


@given(st.lists(st.lists(_TEXT, min_size=1, max_size=3), max_size=4))
def test_plain_text_of_paragraph_html_round_trips(paragraphs: list[list[str]]) -> None:
    html = "".join(f"<p>{'<br />'.join(escape(line) for line in lines)}</p>" for lines in paragraphs)
    whole = "\n\n".join("\n".join(lines) for lines in paragraphs)
    assert _bare(plain(html)) == _bare(whole)


@given(st.lists(st.sampled_from(["a", "https://example.org/x?y=1&z", "#dawn", "&lt;", "<b>", "é", "🦀"]), max_size=8))
def test_plain_text_of_shoal_html_round_trips(words: list[str]) -> None:
    text = " ".join(words)
    html = to_html(text, mentions={}, tag_url=lambda tag: f"https://shoal.example/tags/{tag}")
    assert _bare(plain(html)) == _bare(text)


def _bare(text: str) -> list[str]:
    return text.split()


@given(st.text())
def test_instagram_mojibake_text_is_decoded(text: str) -> None:
    if text.encode("utf-8", "ignore").decode() == text:
        assert as_typed(factories.mojibake(text)) == text


@given(st.text())
def test_plain_text_of_arbitrary_html_does_not_raise(text: str) -> None:
    assert isinstance(plain(text), str)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archive_zip_entry_with_bzip2_or_lzma_is_refused(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive, archive.open("photo.jpg", "w") as entry:
        for _ in range(64):
            entry.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    with entries.opened(path, tmp_path) as found:
        tracemalloc.start()
        with pytest.raises(InvalidInput, match="with Deflate"):
            found.read("photo.jpg", 16 << 20)
        with pytest.raises(InvalidInput, match="with Deflate"), found.opened("photo.jpg") as file:
            file.read(1)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


def test_archive_zip_photo_larger_than_central_directory_size_limit_is_read(tmp_path: Path) -> None:
    path, photo = tmp_path / "a.zip", os.urandom(20 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("photo.jpg", photo)
    with entries.opened(path, tmp_path) as found:
        assert found.read("photo.jpg", 40 << 20) == photo
        with pytest.raises(TooLarge, match=r"photo\.jpg has more than"):
            found.read("photo.jpg", (20 << 20) - 1)


def test_x_archive_text_with_long_run_of_spaces_is_read_in_linear_time(tmp_path: Path) -> None:
    def read(spaces: int) -> float:
        tweet = factories.tweet(1, "Ebb" + " " * spaces + "flow \nand  ")
        path = factories.zipped(tmp_path / "x.zip", {"data/tweets.js": factories.script("tweets.part0", [tweet])})
        started = time.process_time()
        with entries.opened(path, tmp_path) as found:
            (post,) = reader_of(found, tmp_path).records()
        assert isinstance(post, ArchivedPost)
        assert post.text == "Ebb" + " " * spaces + "flow\nand"
        return time.process_time() - started

    # Quadratic time would grow by 256, to minutes.
    assert read(1_000_000) < 64 * max(read(62_500), 0.01)


def test_bluesky_post_with_many_facets_is_read_in_linear_time(tmp_path: Path) -> None:
    def read(facets: int) -> float:
        feature = {"$type": "app.bsky.richtext.facet#link", "uri": "https://example.org/a"}
        facet = {"index": {"byteStart": -1, "byteEnd": 9}, "features": [feature]}
        post = factories.bluesky_post(1, "ab " * 4 * facets, facets=[facet] * facets)
        path = written(tmp_path / "repo.car", factories.repository({factories.post_key(1): post}))
        started = time.process_time()
        with entries.opened(path, tmp_path) as found:
            records = list(reader_of(found, tmp_path).records())
        assert any(isinstance(record, ArchivedPost) for record in records)
        return time.process_time() - started

    # Quadratic time would grow by 1,024.
    assert read(32_000) < 200 * max(read(1_000), 0.01)


def test_x_archive_posts_matching_start_of_long_notes_are_read_in_linear_time(tmp_path: Path) -> None:
    def read(size: int) -> float:
        tweets = [factories.tweet(n, "a" * 200 + "b") for n in range(size)]
        notes = [{"noteTweet": {"core": {"text": "a" * 200 + "&amp;" * 5 * size}}}] * 10
        files = {
            "tweets": factories.script("tweets.part0", tweets),
            "note-tweet": factories.script("note_tweet.part0", notes),
        }
        path = factories.zipped(tmp_path / "x.zip", {f"data/{name}.js": data for name, data in files.items()})
        started = time.process_time()
        assert looked_at(path, tmp_path).found.posts == size
        return time.process_time() - started

    # Quadratic time would grow by 256.
    assert read(3_200) < 64 * max(read(200), 0.01)


def test_x_archive_text_with_huge_numeric_character_reference_is_read(tmp_path: Path) -> None:
    tweet = factories.tweet(1, "Ebb &#" + "9" * 5_000 + "; flow")
    path = factories.zipped(tmp_path / "x.zip", {"data/tweets.js": factories.script("tweets.part0", [tweet])})
    assert looked_at(path, tmp_path).samples[0].text == "Ebb \ufffd flow"


def test_archive_follow_list_with_many_columns_and_rows_is_read_in_linear_time(tmp_path: Path) -> None:
    def read(size: int) -> float:
        header = "id,name," + ",".join(f"c{n}" for n in range(size))
        profile = '{"id": "1", "name": "ann", "joined": "2024-05-01"}'
        documents = {f"{noun}.json": "[]" for noun in ("posts", "comments", "media")}
        files = {"profile.json": profile, **documents, "follows.csv": header + "\n7,ben" * size}
        path = factories.zipped(tmp_path / "a.zip", files)
        started = time.process_time()
        assert looked_at(path, tmp_path).omitted[0].count == size - 10_000
        return time.process_time() - started

    # Quadratic time would grow by 64, to minutes.
    assert read(160_000) < 32 * max(read(20_000), 0.01)


def test_archive_follow_list_with_one_row_of_millions_of_columns_is_refused() -> None:
    with pytest.raises(TooLarge, match="10000 accounts"):
        read_archive(b"," * (4 << 20))


def _repository_of_node(node_entries: list[dict[str, Any]], record: bytes) -> bytes:
    """Return a repository with a single tree node and one record."""
    node = encode_dag_cbor({"l": None, "e": node_entries})
    data = factories.cid_of(node)
    commit = encode_dag_cbor({"did": factories.DID, "version": 3, "data": data, "rev": "3j", "prev": None, "sig": b""})
    head = encode_dag_cbor({"version": 1, "roots": [factories.cid_of(commit)]})
    blocks = [(factories.cid_of(block), block) for block in (commit, node, record)]
    return factories.varint(len(head)) + head + b"".join(factories.varint(len(c) + len(b)) + c + b for c, b in blocks)


def test_bluesky_export_with_tree_keys_of_growing_length_is_refused(tmp_path: Path) -> None:
    record = encode_dag_cbor({})
    cid = factories.cid_of(record)
    node = [{"p": n, "k": b"a", "v": cid, "t": None} for n in range(50_000)]
    with pytest.raises(InvalidInput, match="damaged"):
        looked_at(written(tmp_path / "repo.car", _repository_of_node(node, record)), tmp_path)


def test_bluesky_export_repeating_a_large_record_too_often_is_refused(tmp_path: Path) -> None:
    record = encode_dag_cbor({"$type": "app.bsky.feed.post", "text": "a" * (1 << 20), "createdAt": "2024-05-01"})
    cid = factories.cid_of(record)
    node = [{"p": 0, "k": f"app.bsky.feed.post/{n:05}".encode(), "v": cid, "t": None} for n in range(20_000)]
    with pytest.raises(TooLarge, match="repeats its records too often"):
        looked_at(written(tmp_path / "repo.car", _repository_of_node(node, record)), tmp_path)


def test_import_text_with_long_words_is_truncated_in_linear_time() -> None:
    def seconds(length: int) -> float:
        text = " ".join(["https://example.org/" + "a" * length] * 30)
        started = time.process_time()
        assert cut(text, 100).endswith("…")
        return time.process_time() - started

    # Quadratic time would grow by 256, to minutes.
    assert seconds(64_000) < 64 * max(seconds(4_000), 0.01)


def test_archived_post_with_megabytes_of_text_is_truncated(tmp_path: Path) -> None:
    activity = factories.note(1, "<p>" + "tide " * 200_000 + "</p>", contentMap={})
    with entries.opened(factories.zipped(tmp_path / "a.zip", factories.mastodon_files([activity])), tmp_path) as found:
        plan = ArchivePlan(tmp_path)
        plan.fill(reader_of(found, tmp_path), NOW, lambda _: None)
    assert [len(post.text) for post in plan.read(plan.order)] == [100_000]
