"""Look-alikes of removed pictures: copies in another size and quality match, other photos do not."""

from __future__ import annotations

import io
from importlib.resources import files
from itertools import permutations

import pytest
from PIL import Image

from shoal.core.blurhash import distance
from shoal.core.moderation_rules import PictureIndex
from shoal.media.render import _blurhash

PHOTOS = sorted(path.name for path in files("shoal_demo.photos").iterdir() if path.name.endswith(".webp"))[::3]


def shown(image: Image.Image) -> str:
    """Return the blurhash as the server computes it, from a preview."""
    preview = image.copy()
    preview.thumbnail((640, 640))
    return _blurhash(preview)


@pytest.fixture(scope="module")
def photos() -> dict[str, Image.Image]:
    return {name: Image.open(str(files("shoal_demo.photos") / name)).convert("RGB") for name in PHOTOS}


def copied(image: Image.Image, edge: int, quality: int) -> Image.Image:
    small = image.copy()
    small.thumbnail((edge, edge))
    made = io.BytesIO()
    small.save(made, "JPEG", quality=quality)
    return Image.open(made).convert("RGB")


def test_smaller_and_compressed_copies_of_photos_are_the_same_picture(photos: dict[str, Image.Image]) -> None:
    found = [PictureIndex((shown(photo),)).has(shown(copied(photo, 400, 60)), "same") for photo in photos.values()]
    # A photo of an evening sky has too little detail to be compared.
    assert found.count(False) <= 1


def test_photos_cropped_slightly_are_similar_pictures(photos: dict[str, Image.Image]) -> None:
    def cropped(photo: Image.Image) -> Image.Image:
        width, height = photo.size
        return photo.crop((width // 50, height // 50, width - width // 50, height - height // 50))

    found = [PictureIndex((shown(photo),)).has(shown(cropped(photo)), "similar") for photo in photos.values()]
    assert found.count(False) <= 1


def test_different_photos_are_not_similar_pictures(photos: dict[str, Image.Image]) -> None:
    hashes = [shown(photo) for photo in photos.values()]
    assert not any(PictureIndex((one,)).has(other, "similar") for one, other in permutations(hashes, 2))
    assert all(distance(one, one) == 0 for one in hashes)
