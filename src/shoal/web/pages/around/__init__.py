"""Pages around a post: who likes it, all comments, why it stands where it does, code to embed it, a report."""

from __future__ import annotations

from shoal.web.pages.around import comments, embed, likes, report, why

ROUTES = (*likes.ROUTES, *comments.ROUTES, *why.ROUTES, *embed.ROUTES, *report.ROUTES)
