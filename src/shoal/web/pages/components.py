"""Every part of a page in all its states, for those who work on them: `/dev/components`, with the setting `development`."""

from __future__ import annotations

from starlette.responses import Response

from shoal.core.visibility import STRANGER, Relation
from shoal.queries.hydration import Profile
from shoal.web import rows
from shoal.web.rendering import icon_names, page
from shoal.web.samples import samples
from shoal.web.views.people import person_of
from shoal.web.views.posts import post_of
from shoal.web.visit import Visit

_RELATIONS = {
    "a stranger": STRANGER,
    "followed": Relation(following=True),
    "asked": Relation(requested=True),
    "a follower": Relation(followed_by=True),
    "blocked": Relation(blocking=True),
}


async def show(visit: Visit, _params: None) -> Response:
    """All components."""
    entries = list(samples(visit.now_ms))
    author = entries[0][1].author.member
    people = [
        (name, person_of(visit, Profile(author, 1_204, 88, 311), relation)) for name, relation in _RELATIONS.items()
    ]
    return await page(
        visit,
        "components",
        title="Components",
        posts=[(name, post_of(visit, entry)) for name, entry in entries],
        people=people,
        icons=sorted(icon_names()),
    )


ROUTES = (rows.page("/dev/components", show),)
