"""Photo grids: full rows at every width, authors spread out, near-duplicates apart."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from shoal.web.photo_grid import GridPhoto, alike, in_rows, spread
from shoal.web.photo_rows import WIDTHS, ratio_class, ratio_of, row_ends, rows_height
from shoal.web.view_models import Face, Photo

COFFEE = "LGHCM[xu~qxu4n%M%MWB%MofxuWB"
COFFEE_AGAIN = "LGHCM[xu~qxu4n%M%MWB%MofxuWC"
SEA = "LJIOhSIVWCM{~qRjxuof9FM{RjWB"
RATIOS = st.lists(st.sampled_from([0.5, 0.65, 0.75, 1, 1.35, 1.5, 1.8, 2.5]), max_size=40)


def photo(author: int, ratio: float = 1.5, blurhash: str = "") -> GridPhoto:
    shown = Photo(
        author, "image", "/small.jpg", "/large.jpg", "", 3, 2, "", ratio_class(ratio), "f22", "#808080", blurhash
    )
    return GridPhoto(shown, "/@ann/1", Face(author, "ann", "Ann", "/@ann", "/ann.jpg"))


def rows_of(ratios: list[float], ends: frozenset[int]) -> list[list[float]]:
    rows: list[list[float]] = [[]]
    for n, ratio in enumerate(ratios):
        rows[-1].append(ratio)
        if n in ends:
            rows.append([])
    return rows


@given(RATIOS, st.sampled_from([width.target for width in WIDTHS]))
def test_photo_grid_rows_of_any_photos_have_half_to_twice_the_target_width(ratios: list[float], target: float) -> None:
    rows = rows_of(ratios, row_ends(tuple(ratios), target))
    assert [ratio for row in rows for ratio in row] == ratios
    if sum(ratios) >= target:
        assert all(target / 2 <= sum(row) <= target * 2 for row in rows)


def test_photo_grid_with_one_photo_more_than_fits_in_rows_leaves_no_orphan() -> None:
    ratios = [1.5] * 13
    for target in (4.5, 6.0):
        lengths = [len(row) for row in rows_of(ratios, row_ends(tuple(ratios), target))]
        assert max(lengths) - min(lengths) <= 1


def test_photo_grid_with_few_photos_fills_the_row_with_empty_items() -> None:
    grid = in_rows([photo(1, 1.0)])
    for width in WIDTHS:
        fillers = [filler.split() for filler in grid.fillers]
        ratios = [ratio_of(ratio) for css_class, ratio in fillers if css_class == width.css_class]
        assert abs(1 + sum(ratios) - width.target) < 0.2
    assert not in_rows([photo(1) for _ in range(12)]).fillers


@given(st.lists(st.integers(1, 8), max_size=40))
def test_photo_grid_reordered_by_author_keeps_every_photo(authors: list[int]) -> None:
    shown = [one.author.id for one in spread([photo(author) for author in authors])]
    assert sorted(shown) == sorted(authors)


def test_photo_grid_of_many_authors_shows_at_most_two_photos_per_author_on_a_screen() -> None:
    shown = [one.author.id for one in spread([photo(1) for _ in range(6)] + [photo(n) for n in range(2, 30)])]
    assert all(shown[at : at + 9].count(1) <= 2 for at in range(len(shown) - 9))


def test_photo_grid_of_one_author_shows_every_photo_in_given_order() -> None:
    photos = [photo(1, ratio) for ratio in (1.0, 1.5, 0.75)]
    assert spread(photos) == photos


def test_photo_grid_separates_near_duplicates() -> None:
    shown = spread([photo(1, 1, COFFEE), photo(2, 1, COFFEE_AGAIN), *(photo(n, 1, SEA) for n in (3,))])
    assert [one.author.id for one in shown] == [1, 3, 2]
    assert alike(COFFEE, COFFEE_AGAIN)
    assert not alike(COFFEE, SEA)
    assert not alike("", "")


@given(RATIOS.filter(bool), st.integers(220, 1_400))
@example([1.5] * 10, 459)
@example([1.5] * 10, 460)
@example([1.5] * 10, 1_140)
def test_photo_grid_height_computed_for_a_width_equals_height_of_its_rows(ratios: list[float], width: int) -> None:
    edges = {"in-xs": 460, "in-s": 700, "in-m": 920, "in-l": 1_140, "in-xl": 10_000}
    css_class = next(name for name, edge in edges.items() if width < edge)
    target = next(found.target for found in WIDTHS if found.css_class == css_class)
    rows = rows_of(ratios, row_ends(tuple(ratios), target))
    assert abs(rows_height(ratios, width, 3) - sum(width / sum(row) + 3 for row in rows)) < 0.01
