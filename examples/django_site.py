"""A Django site with Django's users and sessions: its log-in is enough, because Shoal runs in the site and asks for none.

    python examples/django_site.py migrate
    python examples/django_site.py runserver --noreload

The member of a user has the name of the site and the user's id as external id, and is created on first use. In a project, the parts
of this file are `settings.py`, `urls.py`, `views.py` and templates. `club.py` shows more of the library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

from shoal import ShoalError, http_status
from shoal.sync import Handle, Shoal

SITE = "https://site.example"
BASE = """<!doctype html>
<html lang="en">
<title>Choir</title>
<h1>Choir</h1>
{% if error %}<p role="alert">{{ error }}</p>{% endif %}
"""
FORM = (
    BASE
    + """<form method="post">{% csrf_token %}{{ form.as_p }}<button>{{ title|default:"Log in" }}</button></form>
<a href="{% url 'signup' %}">Sign up</a>
"""
)
FEED = (
    BASE
    + """<form method="post" action="{% url 'post' %}">{% csrf_token %}
  <label>News <input name="text" required></label> <button>Post</button></form>
<form method="post" action="{% url 'follow' %}">{% csrf_token %}
  <label>Name <input name="name" required></label> <button>Follow</button></form>
<form method="post" action="{% url 'logout' %}">{% csrf_token %}<button>Log out {{ user.username }}</button></form>
<ul>{% for entry in entries %}<li><b>{{ entry.author.member.display_name }}</b>: {{ entry.post.text }}</li>{% endfor %}</ul>
"""
)

settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    LOGIN_REDIRECT_URL="feed",
    LOGIN_URL="login",
    LOGOUT_REDIRECT_URL="login",
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        f"{__name__}.Refusals",
    ],
    ROOT_URLCONF=__name__,
    # Without this secret, a restart logs all users out.
    SECRET_KEY=os.environ.get("SITE_SECRET") or os.urandom(32).hex(),
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                ],
                "loaders": [
                    ("django.template.loaders.locmem.Loader", {"registration/login.html": FORM, "feed.html": FEED})
                ],
            },
        }
    ],
)
django.setup()

# These modules need the settings.
from django.contrib.auth import login  # noqa: E402
from django.contrib.auth.decorators import login_required  # noqa: E402
from django.contrib.auth.forms import UserCreationForm  # noqa: E402
from django.contrib.auth.views import LoginView, LogoutView  # noqa: E402

shoal = Shoal.open("sqlite:///feed.db")


class Refusals:
    """Middleware that shows errors of Shoal, whose messages may be shown to any user."""

    def __init__(self, answer: Callable[[HttpRequest], HttpResponse]) -> None:
        self.answer = answer

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.answer(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return a page for an error of Shoal; Django handles other errors."""
        if not isinstance(error, ShoalError):
            return None
        return render(request, "feed.html", {"error": error}, status=http_status(error))


def member(request: HttpRequest) -> Handle:
    """Return the member of the logged-in user of the site."""
    name = request.user.get_username()
    return shoal.external_ids.upsert(SITE, str(request.user.pk), user_name=name, display_name=name)


def sign_up(request: HttpRequest) -> HttpResponse:
    form = UserCreationForm(request.POST or None)
    if not form.is_valid():
        return render(request, "registration/login.html", {"form": form, "title": "Sign up"})
    login(request, form.save())
    return redirect("feed")


@require_GET
@login_required
def feed(request: HttpRequest) -> HttpResponse:
    """Show the posts by the user and by followed members."""
    return render(request, "feed.html", {"entries": member(request).home().entries})


@require_POST
@login_required
def post(request: HttpRequest) -> HttpResponse:
    member(request).create(request.POST["text"])
    return redirect("feed")


@require_POST
@login_required
def follow(request: HttpRequest) -> HttpResponse:
    member(request).follow(request.POST["name"])
    return redirect("feed")


urlpatterns = [
    path("", feed, name="feed"),
    path("signup", sign_up, name="signup"),
    path("posts", post, name="post"),
    path("follow", follow, name="follow"),
    path("login", LoginView.as_view(), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
]

application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
