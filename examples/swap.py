"""A swap page: Flask shows offers of neighbors, Shoal stores the feed in a file.

A signed cookie identifies the user; a real page would ask for a password first. Run it with `flask --app examples/swap run`.
All threads share the network. `guestbook.py` shows several processes.
"""

from __future__ import annotations

import os

from flask import Flask, redirect, render_template_string, request, session, url_for
from werkzeug.wrappers import Response

from shoal import ShoalError, errors, http_status
from shoal.sync import Handle, Shoal, Visitor

PAGE = """<!doctype html>
<html lang="en">
<title>Swap shelf</title>
<h1><a href="{{ url_for('shelf') }}">Swap shelf</a></h1>
{% if error %}<p role="alert">{{ error }}</p>{% endif %}
{% if session.name %}
  <form method="post" action="{{ url_for('offer') }}">
    <label>I give away <input name="text" required placeholder="two chairs #furniture"></label> <button>Offer</button>
  </form>
{% else %}
  <form method="post" action="{{ url_for('enter') }}"><label>I am <input name="name" required></label> <button>Enter</button></form>
{% endif %}
<ul>
{% for entry in entries %}
  <li>
    <b>{{ entry.author.member.name }}</b>: {{ entry.post.text }}
    {% for tag in entry.post.tags %}<a href="{{ url_for('tagged', tag=tag) }}">more {{ tag }}</a> {% endfor %}
    <form method="post" action="{{ url_for('want', offer_id=entry.post.id) }}"><button>{{ entry.likes }} want it</button></form>
  </li>
{% else %}
  <li>Nothing yet.</li>
{% endfor %}
</ul>
"""

app = Flask(__name__)
app.secret_key = os.environ.get("SWAP_SECRET") or os.urandom(32)
app.config["SESSION_COOKIE_SAMESITE"] = "Lax"  # A form on another site is sent without the cookie.
shoal = Shoal.open(os.environ.get("SWAP_STORE", "sqlite:///swap.db"))


def viewer() -> Handle | Visitor:
    """Return the current member, or an anonymous viewer, who sees public posts."""
    return shoal.member(session["name"]) if "name" in session else shoal.visitor


def member() -> Handle:
    """Return the current member. Raises `NotAllowed` without a login."""
    if isinstance(who := viewer(), Handle):
        return who
    raise errors.NotAllowed("enter your name first")


@app.errorhandler(ShoalError)
def refuse(error: ShoalError) -> tuple[str, int]:
    """Show an error of Shoal, whose message may be shown to any user."""
    return render_template_string(PAGE, error=error, entries=[]), http_status(error)


@app.get("/")
def shelf() -> str:
    """Show the newest offers of all members."""
    return render_template_string(PAGE, entries=viewer().public().entries)


@app.get("/tags/<tag>")
def tagged(tag: str) -> str:
    """Show the newest offers under a tag."""
    return render_template_string(PAGE, entries=viewer().tagged(tag).entries)


@app.post("/enter")
def enter() -> Response:
    """Log a member in; a new name creates a member."""
    name = request.form["name"]
    try:
        shoal.member(name)
    except errors.NotFound:
        shoal.register(name)
    session["name"] = name
    return redirect(url_for("shelf"), 303)


@app.post("/offers")
def offer() -> Response:
    """Post an offer. It is durable when the response is sent."""
    member().create(request.form["text"])
    return redirect(url_for("shelf"), 303)


@app.post("/offers/<int:offer_id>/want")
def want(offer_id: int) -> Response:
    """Like an offer to request it; its owner sees the request."""
    member().like(offer_id)
    return redirect(url_for("shelf"), 303)
