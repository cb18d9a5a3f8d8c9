"""The lists that `make check` shows of what keeps a stranger out: each finds its fault, and no reason outlives what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import house

ROOT = Path(__file__).parents[1]


def written(root: Path, files: dict[str, str]) -> house.Parsed:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return house.modules(root)


def test_a_folder_of_thirty_modules_is_a_room_and_one_of_more_is_listed(tmp_path: Path) -> None:
    full = {f"src/shoal/full/m{n}.py": "" for n in range(30)}
    over = {f"src/shoal/over/m{n}.py": "" for n in range(31)}
    assert list(house.large_folders(written(tmp_path, full | over))) == [("src/shoal/over", "31 modules")]


def test_a_name_of_two_public_classes_is_listed(tmp_path: Path) -> None:
    parsed = written(
        tmp_path,
        {
            "src/shoal/a.py": "class Place: ...\nclass _Job: ...\nclass Poll: ...\nclass Said: ...",
            "src/shoal/b.py": "\nclass Place: ...\nclass _Job: ...",
            "src/shoal/api/entities/c.py": "class Poll: ...",
            "src/shoal/streaming/updates.py": "class Said: ...",
            "src/shoal/sync/c.py": "class Place: ...",
        },
    )
    assert list(house.shared_names(parsed)) == [("Place", "src/shoal/a.py:1, src/shoal/b.py:2")]


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("What comes of it.", True),
        ("Whoever asks.", True),
        ("The same in blue.", True),
        ("That which is.", True),
        ("Whatever the size, one page.", False),
        ("Offers a page.", False),
        ("The sameness of two pages.", False),
        ("Return a page. What is left out is counted.", False),
    ],
)
def test_a_docstring_that_needs_another_sentence_is_listed(tmp_path: Path, text: str, listed: bool) -> None:
    parsed = written(
        tmp_path,
        {
            "src/a.py": f'"""{text}\n\nMore."""',
            "src/b.py": f'def f() -> None:\n    """{text}"""',
            "src/c.py": f'class C:\n    a: int\n    """\n    {text}\n    """',
        },
    )
    places = ["src/a.py:1", "src/b.py:2", "src/c.py:3"]
    assert list(house.dependent_openings(parsed)) == ([(place, text) for place in places] if listed else [])


def test_every_reason_is_of_something_there_is() -> None:
    parsed = house.modules(ROOT)
    assert house.FOLDERS.keys() <= {name for name, _ in house.large_folders(parsed)}
    assert house.CLASSES.keys() <= {name for name, _ in house.shared_names(parsed)}
