"""Geographic places: coordinates, their stored precision, search disks, and the H3 cells that index posts.

A post is in one cell of each of three sizes. A search disk is covered by cells of one size: the smallest of which at most `MOST`
are needed anywhere on the globe. Cells extend beyond the disk, so compare candidates with the disk itself (`Disk.has`).

    size   area of a cell   covers disks of up to
    6      36 km2           11 km
    4      1,770 km2        77 km
    2      86,800 km2       500 km
"""

from __future__ import annotations

import importlib
import math
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple

from shoal.core.errors import InvalidInput

_EARTH_KM = 6371.0088
"""The mean radius of the earth (IUGG)."""
MIN_RADIUS_KM = 0.1
MAX_RADIUS_KM = 500.0
DEFAULT_RADIUS_KM = 10.0


class Place(NamedTuple):
    """Coordinates in degrees: latitude -90..90, longitude -180..180."""

    latitude: float
    longitude: float


class PlacePrecision(StrEnum):
    """The precision with which the places of a member's new posts are stored."""

    EXACT = "exact"
    M100 = "100m"
    KM = "1km"
    KM10 = "10km"
    CITY = "city"
    """The coordinates of the town (`gazetteer.Gazetteer.town_near`); 10 km where no town is known."""
    NONE = "none"


_STEPS = {
    PlacePrecision.M100: 0.001,
    PlacePrecision.KM: 0.01,
    PlacePrecision.KM10: 0.1,
    PlacePrecision.CITY: 0.1,
}
"""The grid steps in degrees of latitude: 0.01 degrees are 1.1 km everywhere."""


class Location(NamedTuple):
    """The country, and optionally the town, where a member says that they live."""

    country: str
    """Two-letter code (ISO 3166-1)."""
    town: str = ""
    place: Place | None = None
    """The coordinates of the town."""


class Disk(NamedTuple):
    """A circle on the map: all places within `radius_km` of a place (great-circle distance). Create it with `disk`."""

    latitude: float
    longitude: float
    radius_km: float

    def has(self, place: Place | None) -> bool:
        return place is not None and distance_km(self.latitude, self.longitude, *place) <= self.radius_km


def disk(latitude: float, longitude: float, radius_km: float = DEFAULT_RADIUS_KM) -> Disk:
    """Return a circle on the map, with the radius in km.

    Raises `InvalidInput` for invalid coordinates, and for a radius outside 0.1 to 500 km.
    """
    center = checked_place((latitude, longitude))
    if not MIN_RADIUS_KM <= radius_km <= MAX_RADIUS_KM:
        raise InvalidInput(f"radius_km: must be {MIN_RADIUS_KM:g} to {MAX_RADIUS_KM:g} kilometers", field="radius_km")
    return Disk(*center, float(radius_km))


def checked_place(place: tuple[float, float]) -> Place:
    """Return the `Place` of a pair of coordinates. Raises `InvalidInput` if they are out of range."""
    latitude, longitude = place
    if not (math.isfinite(latitude) and math.isfinite(longitude) and abs(latitude) <= 90 and abs(longitude) <= 180):
        raise InvalidInput("place: latitude is -90 to 90 and longitude -180 to 180 degrees", field="place")
    return Place(float(latitude), float(longitude))


def rounded(place: Place | None, precision: PlacePrecision) -> Place | None:
    """Return the place as stored: the nearest point of a grid as wide as the precision; None for `NONE`.

    Steps of longitude grow towards the poles, where degrees are narrow, so that the grid is equally wide everywhere:

        1km    47.3769, 8.5417  ->  47.38, 8.536265       steps of 0.01 and 0.01477 degrees
        1km    78.2232, 15.6267 ->  78.22, 15.626616      steps of 0.01 and 0.04899 degrees

    A whole number of steps covers the circle of latitude, so rounding is idempotent.
    """
    if place is None or precision is PlacePrecision.NONE:
        return None
    if precision is PlacePrecision.EXACT:
        return place
    step = _STEPS[precision]
    # Adding zero turns -0.0 into 0.0.
    latitude = round(round(place.latitude / step) * step, 6) + 0.0
    steps = max(1, int(360 * math.cos(math.radians(latitude)) / step))
    longitude = round(place.longitude * steps / 360) * 360 / steps
    if abs(longitude) > 180:
        longitude -= math.copysign(360, longitude)
    return Place(latitude, round(longitude, 6) + 0.0)


def distance_km(latitude: float, longitude: float, other_latitude: float, other_longitude: float) -> float:
    north, other_north = math.radians(latitude), math.radians(other_latitude)
    by_latitude = math.sin((other_north - north) / 2) ** 2
    by_longitude = math.sin(math.radians(other_longitude - longitude) / 2) ** 2
    chord = by_latitude + math.cos(north) * math.cos(other_north) * by_longitude
    return 2 * _EARTH_KM * math.asin(math.sqrt(min(1.0, chord)))


MOST = 40
_REACH_KM = {6: 11.0, 4: 77.0, 2: 500.0}
"""The cell sizes (resolutions of H3), and the largest radius for which each is used."""
_MARGIN = 1.02
"""Tolerance factor, because cell edges are not great circles. Rounding errors are far smaller than this tolerance."""


def cells_of(place: Place) -> tuple[str, ...]:
    """Return the map cells (H3) that contain a place, smallest first."""
    h3 = _h3()
    return tuple(h3.latlng_to_cell(place.latitude, place.longitude, size) for size in _REACH_KM)


@lru_cache(maxsize=1_024)
def cover(disk: Disk) -> tuple[str, ...]:
    """Return at most `MOST` map cells (H3) of equal size that together cover a circle."""
    h3 = _h3()
    size = next(size for size, reach in _REACH_KM.items() if disk.radius_km <= reach)
    start = h3.latlng_to_cell(disk.latitude, disk.longitude, size)
    # Cells that intersect the disk are connected, so all are reached from its center.
    found, seen, frontier = [start], {start}, [start]
    while frontier:
        adjacent = {cell for each in frontier for cell in h3.grid_disk(each, 1)} - seen
        frontier = [cell for cell in adjacent if _meets(h3, cell, disk)]
        seen |= adjacent
        found += frontier
    return tuple(found)


def _meets(h3: Any, cell: str, disk: Disk) -> bool:
    """Return whether a map cell may intersect a circle: whether the circle around the cell does."""
    center = h3.cell_to_latlng(cell)
    width = max(distance_km(*center, *corner) for corner in h3.cell_to_boundary(cell))
    apart = distance_km(disk.latitude, disk.longitude, *center)
    return apart <= (disk.radius_km + width) * _MARGIN


@cache
def _h3() -> Any:
    """Return the H3 library, imported on first use to keep startup fast."""
    return importlib.import_module("h3")
