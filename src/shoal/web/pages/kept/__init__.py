"""Pages of things a member keeps: saved and liked posts, lists."""

from __future__ import annotations

from shoal.web.pages.kept import lists, saved

ROUTES = (*saved.ROUTES, *lists.ROUTES)
