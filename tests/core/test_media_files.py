"""The keys of a picture's files: copies, smaller sizes and first frames."""

from __future__ import annotations

import pytest

from shoal.core.media_files import files_now, files_of_member, sizes_of, with_copies, with_sizes
from shoal.core.model import Media, Member

FOLDER = "12/3/99/ann_320_160"


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("7-0a1b2c3d-small_320_160.avif.jpg", {320: "7-0a1b2c3d-small-320.avif", 160: "7-0a1b2c3d-small-160.avif"}),
        ("7-0a1b2c3d_1280.webp.jpg", {1280: "7-0a1b2c3d-1280.webp"}),
        ("7-0a1b2c3d_1280.jpg", {1280: "7-0a1b2c3d-1280.jpg"}),
        ("avatar-0a1b2c3d_128.animated.webp", {128: "avatar-0a1b2c3d-128.webp"}),
        ("7-0a1b2c3d-small.avif.jpg", {}),
        ("7-0a1b2c3d-small-320.avif", {}),
        ("7-0a1b2c3d_x.jpg", {}),
        ("7-0a1b2c3d-original.jpg", {}),
    ],
)
def test_media_key_of_picture_determines_keys_of_its_smaller_sizes(name: str, sizes: dict[int, str]) -> None:
    assert sizes_of(f"{FOLDER}/{name}") == {edge: f"{FOLDER}/{size}" for edge, size in sizes.items()}


def test_media_files_of_picture_include_optional_smaller_sizes() -> None:
    media = Media(id=7, owner_id=1, key="a/7-0_1280.avif.jpg", preview_key="a/7-0-small_320.png")
    assert files_now(media) == {
        "a/7-0_1280.avif.jpg": True,
        "a/7-0_1280.avif": False,
        "a/7-0-1280.avif": False,
        "a/7-0-small_320.png": True,
        "a/7-0-small-320.png": False,
    }


def test_media_files_of_animated_avatar_include_first_frame_and_its_smaller_size() -> None:
    member = Member(id=1, name="ann", avatar="a/avatar-0_128.animated.webp")
    assert set(files_of_member(member)) == {member.avatar, "a/avatar-0_128.webp", "a/avatar-0-128.webp"}
    assert with_sizes(member.avatar, 400) == {400: member.avatar}


def test_picture_size_urls_have_size_as_query_and_are_ordered_smallest_first() -> None:
    url = "https://example.org/media/a/7-0-small_320_160.avif.jpg"
    assert list(with_sizes(url, 640).items()) == [(160, f"{url}?160"), (320, f"{url}?320"), (640, url)]
    assert with_copies("") == ()
