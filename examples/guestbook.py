"""A guest book in Django: Django handles requests, Shoal stores the entries in a file shared by all workers of gunicorn.

    gunicorn -w 4 guestbook

The book has its own users. Here a header names the current user; a real book would read `request.user`. One worker opens the
file and the others call it; if it exits, another takes over. A browser that repeats a post sends its `Idempotency-Key` again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

from shoal import ShoalError, errors, http_status
from shoal.sync import Handle, Shoal

shoal = Shoal.open(os.environ.get("GUESTBOOK_STORE", "sqlite:///guestbook.db"), shared=True)
"""Opens the file at the first call in each worker, because this module may be loaded before the workers are forked."""


def reader(request: HttpRequest) -> Handle:
    """Return the current member; a new name creates a member."""
    name = request.headers.get("X-User", "")
    try:
        return shoal.member(name)
    except errors.NotFound:
        try:
            return shoal.register(name)
        except errors.Taken:
            return shoal.member(name)


@require_POST
def write(request: HttpRequest) -> JsonResponse:
    """Write an entry. It is durable when the response is sent."""
    post = reader(request).create(json.loads(request.body)["text"], request=request.headers.get("Idempotency-Key", ""))
    return JsonResponse({"id": str(post.id)}, status=201)


@require_GET
def home(request: HttpRequest) -> JsonResponse:
    """Return the newest entries by the reader and by followed members."""
    page = reader(request).home()
    entries = [{"id": str(one.id), "author": one.author.member.name, "text": one.post.text} for one in page.entries]
    return JsonResponse({"entries": entries})


@require_POST
def follow(request: HttpRequest, name: str) -> HttpResponse:
    reader(request).follow(name)
    return HttpResponse(status=204)


class Refusals:
    """Middleware that returns errors of Shoal, whose messages may be shown to any user."""

    def __init__(self, answer: Callable[[HttpRequest], HttpResponse]) -> None:
        self._answer = answer

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Handle a request, and add the worker's name to the response."""
        response = self._answer(request)
        response.headers["X-Worker"] = str(os.getpid())
        return response

    def process_exception(self, _request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return a response for an error of Shoal; Django handles other errors."""
        if not isinstance(error, ShoalError):
            return None
        return JsonResponse({"error": str(error)}, status=http_status(error))


urlpatterns = [path("entries", write), path("home", home), path("follow/<str:name>", follow)]

settings.configure(
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("GUESTBOOK_SECRET", "for trying out"),
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=[f"{__name__}.Refusals"],
)
application = get_wsgi_application()
