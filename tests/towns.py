"""A small gazetteer for tests. Without the fixture `towns`, no test in this process knows the name of a town."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from shoal import gazetteer
from shoal.gazetteer import Gazetteer, OtherNames, Record

real = gazetteer.installed
needs_data = pytest.mark.skipif(
    find_spec(gazetteer.PACKAGE) is None and not os.environ.get("CI"), reason=f"{gazetteer.PACKAGE} is not installed"
)
"""Marks a test that needs the real data. In CI, where they are installed, it fails without them."""

_TOWNS = """
    Berlin,DE,16,52.52437,13.41053,3426354
    Mitte,DE,16,52.52003,13.40489,102338
    Potsdam,DE,11,52.39886,13.06566,182112
    Bielefeld,DE,07,52.03333,8.53333,331906
    Halle,DE,14,51.48158,11.97947,234107
    Halle,DE,07,52.06007,8.36083,21633
    Palermo,IT,15,38.1166,13.3636,648260
    Palma,ES,07,39.56939,2.65024,415940
    Vienna,AT,09,48.20849,16.37208,1691468
    Delhi,IN,07,28.65195,77.23149,10927986
    Kochi,IN,13,9.93988,76.26022,604696
    Leh,IN,ladakh,34.16504,77.58402,27513
    Lahore,PK,04,31.558,74.35071,6310888
    Portland,US,OR,45.52345,-122.67621,652503
    Portland,US,ME,43.65737,-70.2589,68408
    Frankfurt (Oder),DE,11,52.34714,14.55062,51691
    Suva,FJ,01,-18.14161,178.44149,77366
    Bridlington,GB,ENG,54.08306,-0.19192,35369
    Zürich,CH,ZH,47.36667,8.55,341730
"""
_OTHER = {"Vienna": ("Wien", "Vindobona", "LOWW"), "Delhi": ("दिल्ली",), "Leh": ("Laddakh",), "Zürich": ("Zurigo",)}


def small() -> Gazetteer:
    rows = [line.strip().split(",") for line in _TOWNS.strip().splitlines()]
    records = [
        Record(number, name, country, region, float(n), float(e), int(p))
        for number, (name, country, region, n, e, p) in enumerate(rows)
    ]
    others = {town.geonameid: OtherNames(_OTHER[town.name]) for town in records if town.name in _OTHER}
    return Gazetteer(records, {"OR": "Oregon", "ME": "Maine"}, lambda: others)
