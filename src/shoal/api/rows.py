"""Short forms of `Route`, so that a row of a table is mostly a line: what such rows have in common is said here."""

from __future__ import annotations

from functools import partial

from shoal.api.entities.statuses import Status
from shoal.api.http.calls import Route
from shoal.api.http.pages import PageQuery, StatusesQuery
from shoal.api.listing import One
from shoal.core.model import Role

FORM = 64 * 1024
"""Bytes of a multipart body besides its files."""

route = partial(Route, limit_class="api")
"""For members."""
public = partial(Route, auth="public", limit_class="api")
"""For everybody; nobody asks who it is."""
seen = partial(Route, auth="optional", limit_class="api")
"""For everybody; who has a token may see more."""
staff = partial(Route, limit_class="api", role=Role.MODERATOR)
"""For those who look after the network."""
admin = partial(Route, limit_class="api", role=Role.ADMIN)
"""For admins alone."""
one = partial(Route, limit_class="api", params=One)
"""For members, about one thing."""
page = partial(Route, limit_class="api", params=PageQuery)
"""For members, a page of something of theirs."""

statuses_page = partial(Route, limit_class="api", params=StatusesQuery, answer=list[Status])
"""For members, a page of statuses."""
