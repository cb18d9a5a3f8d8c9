"""A swap shelf: Flask shows what neighbours give away, Shoal keeps the feed in a file beside it.

A signed cookie says who is there; a real shelf would ask for a password first. Run it with `flask --app examples/swap run`. All
threads of one process share the network. `guestbook.py` shows how several processes do.
"""

from __future__ import annotations

import os

from flask import Flask, redirect, render_template_string, request, session, url_for
from werkzeug.wrappers import Response

from shoal import ShoalError, errors
from shoal.sync import Handle, Shoal, Visitor

STATUSES = {errors.NotFound: 404, errors.NotAllowed: 403, errors.InvalidInput: 422, errors.Unavailable: 503}
"""Every other error that Shoal raises on purpose is a 400."""

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
app.config["SESSION_COOKIE_SAMESITE"] = "Lax"  # a form on another site is sent without the cookie
shoal = Shoal.open(os.environ.get("SWAP_STORE", "sqlite:///swap.db"))


def viewer() -> Handle | Visitor:
    """Return the member who is there, or a visitor, who sees what is public."""
    return shoal.member(session["name"]) if "name" in session else shoal.visitor


def member() -> Handle:
    """Return the member who is there. Raises `NotAllowed` for a visitor."""
    if isinstance(who := viewer(), Handle):
        return who
    raise errors.NotAllowed("say who you are first")


@app.errorhandler(ShoalError)
def refuse(error: ShoalError) -> tuple[str, int]:
    """Show an error of Shoal, whose message may be shown to anybody."""
    status = next((code for kind, code in STATUSES.items() if isinstance(error, kind)), 400)
    return render_template_string(PAGE, error=error, entries=[]), status


@app.get("/")
def shelf() -> str:
    """Show the newest offers of everybody."""
    return render_template_string(PAGE, entries=viewer().public().entries)


@app.get("/tags/<tag>")
def tagged(tag: str) -> str:
    """Show the newest offers under a tag."""
    return render_template_string(PAGE, entries=viewer().tagged(tag).entries)


@app.post("/enter")
def enter() -> Response:
    """Let a neighbour in; whoever comes for the first time becomes a member."""
    name = request.form["name"]
    try:
        shoal.member(name)
    except errors.NotFound:
        shoal.register(name)
    session["name"] = name
    return redirect(url_for("shelf"), 303)


@app.post("/offers")
def offer() -> Response:
    """Put something on the shelf. It is on disk when this is answered."""
    member().create(request.form["text"])
    return redirect(url_for("shelf"), 303)


@app.post("/offers/<int:offer_id>/want")
def want(offer_id: int) -> Response:
    """Want an offer: its owner sees by whom."""
    member().like(offer_id)
    return redirect(url_for("shelf"), 303)
