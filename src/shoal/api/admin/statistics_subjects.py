"""Subjects of the figures for admins: a period, and a tag or a server."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from shoal.api.context import Front
from shoal.core.errors import InvalidInput
from shoal.core.text import check_tag
from shoal.graph.schema import tag_id
from shoal.ops.statistics.figures import Figures, Period
from shoal.ops.statistics.tags import TagUseReader

_Text = Annotated[str, Meta(min_length=1, max_length=400)]
_Moment = Annotated[str, Meta(max_length=100)]
_MAX_ID = 2**63


class OfTag(msgspec.Struct, frozen=True):
    """A tag by its id, or by its name."""

    id: _Text


class OfServer(msgspec.Struct, frozen=True):
    """Another server."""

    domain: _Text


class StatisticsPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """A period in days (UTC), both ends included; by default the 30 days that end today."""

    start_at: _Moment = ""
    end_at: _Moment = ""


class Subjects(StatisticsPeriod, frozen=True, kw_only=True):
    """A period, and what the figures of tags and of other servers are about, by the key of the figure."""

    tag_servers: OfTag | None = None
    instance_accounts: OfServer | None = None

    def of_tags(self) -> dict[str, OfTag | None]:
        """The tags that were named, by the key of the figure."""
        return {"tag_servers": self.tag_servers}

    def of_servers(self) -> dict[str, OfServer | None]:
        """The servers that were named, by the key of the figure."""
        return {"instance_accounts": self.instance_accounts}

    def tag(self, key: str) -> int:
        """The id of the tag that a figure is about. Raises `InvalidInput` where none is named."""
        asked = self.of_tags()[key]
        if asked is None:
            raise InvalidInput(f"{key}: the id of a tag is missing", field=key)
        if asked.id.isascii() and asked.id.isdecimal():
            return -min(int(asked.id), _MAX_ID)
        return tag_id(check_tag(asked.id))

    def check_elsewhere(self, key: str, front: Front) -> None:
        """Check that a server is named, and not this one, of which the other keys tell. Raises `InvalidInput`."""
        asked = self.of_servers()[key]
        if asked is None:
            raise InvalidInput(f"{key}: the domain of a server is missing", field=key)
        if asked.domain.lower() == front.at.netloc.lower():
            raise InvalidInput(f"{key}: this is the server itself, which the other keys are about", field=key)


class FigureQuestion(NamedTuple):
    """Figures that are asked for, with the sources they are read from."""

    front: Front
    figures: Figures
    tags: TagUseReader
    period: Period
    subjects: Subjects
