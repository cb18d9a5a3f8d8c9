"""Every page of settings."""

from __future__ import annotations

from shoal.http.routes import Route
from shoal.settings import Settings
from shoal.web.pages.settings import (
    account,
    appearance,
    archive,
    contacts,
    email,
    feedback,
    filters,
    importing,
    invitations,
    notices,
    overview,
    passkeys,
    password,
    people,
    posting,
    privacy,
    profile,
    ranking,
    second_factor,
    sessions,
)


def routes(settings: Settings) -> tuple[Route, ...]:
    """Return the rows. The settings say how large a picture may be."""
    return (
        *overview.ROUTES,
        *profile.routes(settings),
        *privacy.ROUTES,
        *posting.ROUTES,
        *ranking.ROUTES,
        *feedback.ROUTES,
        *filters.ROUTES,
        *people.ROUTES,
        *notices.ROUTES,
        *appearance.ROUTES,
        *password.ROUTES,
        *email.ROUTES,
        *passkeys.ROUTES,
        *second_factor.ROUTES,
        *sessions.ROUTES,
        *contacts.ROUTES,
        *invitations.ROUTES,
        *importing.routes(settings),
        *archive.ROUTES,
        *account.ROUTES,
    )
