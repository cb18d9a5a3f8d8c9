"""Dimensions: what there is most of in a period, in order."""

from __future__ import annotations

import platform
from collections import Counter
from importlib.metadata import version
from typing import Literal

from shoal.api.admin.statistics_subjects import FigureQuestion
from shoal.api.context import Front
from shoal.api.entities.statistics import Dimension, DimensionValue
from shoal.api.instance.about import LANGUAGES
from shoal.core.model import App
from shoal.ops.statistics.figures import by_day, summed

DimensionKey = Literal[
    "languages",
    "sources",
    "servers",
    "space_usage",
    "software_versions",
    "tag_servers",
    "tag_languages",
    "instance_accounts",
    "instance_languages",
]

_NAMES = {language.code: language.name for language in LANGUAGES}


async def ranked(question: FigureQuestion, key: DimensionKey, limit: int) -> Dimension:
    """One dimension, its first rows. Raises `InvalidInput` where what it is about is missing."""
    return Dimension(key, (await _rows(question, key, limit))[:limit])


async def _rows(question: FigureQuestion, key: DimensionKey, limit: int) -> list[DimensionValue]:
    front, figures, tags, period, subjects = question
    match key:
        case "languages":
            return _languages(summed(figures.languages, period))
        case "sources":
            return await _apps(front, Counter(dict(summed(figures.apps, period).most_common(limit))))
        case "servers":
            return _here(front, sum(by_day(figures.posts, period)))
        case "space_usage":
            return [_space("media", "Media", figures.media_bytes)]
        case "software_versions":
            return [
                _row("shoal", "Shoal", version("shoal")),
                _row("python", "Python", platform.python_version()),
            ]
        case "tag_servers":
            return _here(front, len(await tags.of(subjects.tag(key), period)))
        case "tag_languages":
            found = await tags.of(subjects.tag(key), period)
            return _languages(Counter(use.language for use in found if use.language))
        case "instance_accounts" | "instance_languages":
            # Nobody is from elsewhere.
            subjects.check_elsewhere(key, front)
            return []


def _languages(posts: Counter[str]) -> list[DimensionValue]:
    return [_row(code, _NAMES.get(code, code), str(number)) for code, number in posts.most_common()]


async def _apps(front: Front, posts: Counter[int]) -> list[DimensionValue]:
    """Apps by their names; one that was deleted has none any more."""
    apps = await front.graph.obj_get([id_ for id_ in posts if id_])

    def name(id_: int) -> str:
        if not id_:
            return "No app"
        return app.name if isinstance(app := apps.get(id_), App) else "A deleted app"

    return [_row(str(id_), name(id_), str(number)) for id_, number in posts.most_common()]


def _here(front: Front, number: int) -> list[DimensionValue]:
    """Name this server, the only one that has any."""
    return [_row(front.at.netloc, front.at.netloc, str(number))] if number else []


def _space(key: str, name: str, size: int) -> DimensionValue:
    return DimensionValue(key=key, human_key=name, value=str(size), unit="bytes", human_value=_human(size))


def _human(size: int) -> str:
    amount, units = float(size), ["Bytes", "KB", "MB", "GB", "TB", "PB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.3g} {units[0]}" if amount < 1000 else f"{amount:.0f} {units[0]}"


def _row(key: str, name: str, value: str) -> DimensionValue:
    return DimensionValue(key=key, human_key=name, value=value)
