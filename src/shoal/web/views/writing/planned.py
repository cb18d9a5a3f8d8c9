"""Posts that wait for their moment, as their list shows them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.commands.posts import Draft
from shoal.core.model import Media, ScheduledPost
from shoal.web.views.errors.complaints import complaint
from shoal.web.views.errors.refusals import bare, sentence
from shoal.web.views.posts import Photo, photo_of
from shoal.web.views.writing.sheet import local_time, visibility_words
from shoal.web.visit import Visit
from shoal.words.languages import When


class Planned(msgspec.Struct, frozen=True):
    """A post that waits."""

    id: int
    when: When
    at: str
    """Its moment in UTC, as a field takes it."""
    text: str
    spoiler: str
    photos: tuple[Photo, ...]
    audience: str
    options: tuple[str, ...]
    refused: str
    """Why it could not be published; empty if it was not refused."""
    wrong: str
    again: str
    """Where it is written again."""


def refusal_of(visit: Visit, plan: ScheduledPost) -> str:
    """Return why a scheduled post could not be published; empty if it was not refused."""
    field = plan.refused.partition(" ")[0].rstrip(":")
    text = bare(plan.refused, field if field in Draft.__struct_fields__ else "")
    return sentence(complaint(visit.words, text)) if text else ""


def planned_of(visit: Visit, plan: ScheduledPost, draft: Draft, media: Mapping[int, Media], wrong: str = "") -> Planned:
    """Return a post that waits."""
    return Planned(
        id=plan.id,
        when=visit.when(plan.at),
        at=local_time(plan.at, "UTC"),
        text=draft.text,
        spoiler=draft.spoiler,
        photos=tuple(photo_of(visit, media[id_]) for id_ in draft.media if id_ in media),
        audience=visibility_words(visit.words)[draft.visibility][0],
        options=draft.poll.options if draft.poll else (),
        refused=refusal_of(visit, plan),
        wrong=wrong,
        again=visit.url("/compose", scheduled=plan.id),
    )
