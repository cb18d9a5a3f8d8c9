"""A reading club: Django handles forms and CSRF tokens, Shoal stores the readings.

The whole site is this file; in a project its parts are `settings.py`, `urls.py`, `views.py` and a template, and Django's own
users take the place of the name in the session. Run it with `python examples/club.py runserver --noreload`. All threads share
the network. `guestbook.py` shows several processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from django import forms
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

from shoal import ShoalError, errors
from shoal.sync import Handle, Shoal

PAGE = """<!doctype html>
<html lang="en">
<title>Reading club</title>
<h1><a href="{% url 'home' %}">Reading club</a></h1>
{% if error %}<p role="alert">{{ error }}</p>{% endif %}
<form method="post" action="{% url 'enter' %}">{% csrf_token %}{{ name }} <button>That is me</button></form>
<form method="post" action="{% url 'finish' %}">{% csrf_token %}{{ book }} <button>I finished it</button></form>
<form method="post" action="{% url 'follow' %}">{% csrf_token %}{{ name }} <button>Read with them</button></form>
<ul>
{% for entry in entries %}
  <li><b>{{ entry.author.member.name }}</b>: {{ entry.post.text }}, {{ entry.post.data.stars }} of 5 stars</li>
{% empty %}
  <li>Nothing yet.</li>
{% endfor %}
</ul>
"""

settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        f"{__name__}.Refusals",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("CLUB_SECRET") or os.urandom(32).hex(),
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {"loaders": [("django.template.loaders.locmem.Loader", {"club.html": PAGE})]},
        }
    ],
)
shoal = Shoal.open(os.environ.get("CLUB_STORE", "sqlite:///club.db"))


class Name(forms.Form):
    """The name of a reader."""

    name = forms.CharField(max_length=30)


class Book(forms.Form):
    """A finished book. The stars belong to the club: Shoal stores them as data of the post."""

    title = forms.CharField(max_length=200)
    stars = forms.IntegerField(min_value=1, max_value=5)


class Refusals:
    """Middleware that shows errors of Shoal, whose messages may be shown to any user."""

    def __init__(self, answer: Callable[[HttpRequest], HttpResponse]) -> None:
        self.answer = answer

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.answer(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return a page for an error of Shoal; Django handles other errors."""
        return shown(request, error=error, status=400) if isinstance(error, ShoalError) else None


def reader(request: HttpRequest) -> Handle:
    """Return the current reader. Raises `NotAllowed` without a login."""
    if "name" not in request.session:
        raise errors.NotAllowed("enter your name first")
    return shoal.member(request.session["name"])


def checked(form: forms.Form) -> dict[str, Any]:
    """Return the values of a form. Raises `InvalidInput`."""
    if not form.is_valid():
        raise errors.InvalidInput("; ".join(f"{field}: {' '.join(found)}" for field, found in form.errors.items()))
    values: dict[str, Any] = form.cleaned_data
    return values


def shown(request: HttpRequest, status: int = 200, **values: object) -> HttpResponse:
    """Render the page with its forms."""
    return render(
        request, "club.html", {"name": Name(auto_id=False), "book": Book(auto_id=False), **values}, status=status
    )


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Show the books that the reader and followed members have finished."""
    return shown(request, entries=reader(request).home().entries if "name" in request.session else [])


@require_POST
def enter(request: HttpRequest) -> HttpResponse:
    """Log a reader in; a new name creates a member."""
    name = checked(Name(request.POST))["name"]
    try:
        shoal.member(name)
    except errors.NotFound:
        shoal.register(name)
    request.session["name"] = name
    return redirect("home")


@require_POST
def finish(request: HttpRequest) -> HttpResponse:
    """Post a finished book. It is durable when the response is sent."""
    book = checked(Book(request.POST))
    reader(request).create(book["title"], data={"stars": book["stars"]})
    return redirect("home")


@require_POST
def follow(request: HttpRequest) -> HttpResponse:
    reader(request).follow(checked(Name(request.POST))["name"])
    return redirect("home")


urlpatterns = [
    path("", home, name="home"),
    path("enter", enter, name="enter"),
    path("books", finish, name="finish"),
    path("follow", follow, name="follow"),
]

application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
