"""Pages that lead to what one does not know yet: search, tags, what is nearby, people."""

from __future__ import annotations

from shoal.web.pages.discover import nearby, people, search, tags

ROUTES = (*search.ROUTES, *tags.ROUTES, *nearby.ROUTES, *people.ROUTES)
