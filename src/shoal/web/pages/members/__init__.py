"""Pages of a member beside their profile: connections, places, albums, what one can do about them."""

from __future__ import annotations

from shoal.web.pages.members import album_editing, albums, connections, more, places

ROUTES = (*connections.ROUTES, *places.ROUTES, *albums.ROUTES, *album_editing.ROUTES, *more.ROUTES)
