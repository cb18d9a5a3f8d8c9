"""Pages of a member's inbox: notifications, requests to follow, direct conversations."""

from __future__ import annotations

from shoal.web.pages.inbox import conversations, follow_requests, notifications

ROUTES = (*notifications.ROUTES, *follow_requests.ROUTES, *conversations.ROUTES)
