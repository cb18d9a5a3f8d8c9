"""Cells of the globe by which posts are found near a place: hexagons of H3, in three sizes.

A post stands in the one cell of each size that has its place. A disk is covered with cells of the finest size that needs at
most `MOST` of them anywhere on the globe: poles and the date line are no edges there. Cells reach beyond the disk, so what they
lead to is compared with the disk itself (`Disk.has`).

    size   area of a cell   covers disks of up to
    6      36 km2           11 km
    4      1,770 km2        77 km
    2      86,800 km2       500 km
"""

from __future__ import annotations

import importlib
from functools import cache, lru_cache
from typing import Any

from shoal.core.places import Disk, Place, distance_km

MOST = 40
"""The most cells that cover a disk."""
_REACH_KM = {6: 11.0, 4: 77.0, 2: 500.0}
"""The sizes (resolutions of H3), and the largest radius for which each is used."""
_MARGIN = 1.02
"""Allowance for edges of cells that are no great circles. The smallest cells are a thousand times as wide as a rounding error."""


def cells_of(place: Place) -> tuple[str, ...]:
    """Return the cells that a place lies in, the smallest first."""
    h3 = _h3()
    return tuple(h3.latlng_to_cell(place.latitude, place.longitude, size) for size in _REACH_KM)


@lru_cache(maxsize=1_024)
def cover(disk: Disk) -> tuple[str, ...]:
    """Return at most `MOST` cells of one size that together have every place of a disk."""
    h3 = _h3()
    size = next(size for size, reach in _REACH_KM.items() if disk.radius_km <= reach)
    start = h3.latlng_to_cell(disk.latitude, disk.longitude, size)
    # Cells that meet the disk are neighbours of each other, so from its middle all of them are reached.
    found, seen, frontier = [start], {start}, [start]
    while frontier:
        beside = {cell for each in frontier for cell in h3.grid_disk(each, 1)} - seen
        frontier = [cell for cell in beside if _meets(h3, cell, disk)]
        seen |= beside
        found += frontier
    return tuple(found)


def _meets(h3: Any, cell: str, disk: Disk) -> bool:
    """Whether a cell may have places of the disk: whether the circle around the cell does."""
    centre = h3.cell_to_latlng(cell)
    width = max(distance_km(*centre, *corner) for corner in h3.cell_to_boundary(cell))
    apart = distance_km(disk.latitude, disk.longitude, *centre)
    return apart <= (disk.radius_km + width) * _MARGIN


@cache
def _h3() -> Any:
    """Return the library. It is loaded when the first place comes, so that a start without any is not slower."""
    return importlib.import_module("h3")
