"""A Flask site with its own users and sessions: its log-in is enough, because Shoal runs in the site and asks for none.

    flask --app examples/flask_site run

The member of a user has the name of the site and the user's id as external id, and is created on first use. `swap.py` shows more
of the library.
"""

from __future__ import annotations

import os
import sqlite3

from flask import Flask, redirect, render_template_string, request, session
from werkzeug.security import check_password_hash, generate_password_hash
from werkzeug.wrappers import Response

from shoal import ShoalError, errors, http_status
from shoal.sync import Handle, Shoal

SITE = "https://site.example"
PAGE = """<!doctype html>
<html lang="en">
<title>Garden club</title>
<h1>Garden club</h1>
{% if error %}<p role="alert">{{ error }}</p>{% endif %}
{% if session.user %}
  <form method="post" action="/posts"><label>News <input name="text" required></label> <button>Post</button></form>
  <form method="post" action="/follow"><label>Name <input name="name" required></label> <button>Follow</button></form>
  <form method="post" action="/logout"><button>Log out {{ session.user[1] }}</button></form>
{% else %}
  <form method="post" action="/login">
    <label>Name <input name="name" required></label> <label>Password <input name="password" type="password" required></label>
    <button>Log in</button> <button formaction="/signup">Sign up</button>
  </form>
{% endif %}
<ul>{% for entry in entries %}<li><b>{{ entry.author.member.display_name }}</b>: {{ entry.post.text }}</li>{% endfor %}</ul>
"""

app = Flask(__name__)
# Without this secret, a restart logs all users out.
app.secret_key = os.environ.get("SITE_SECRET") or os.urandom(32)
app.config["SESSION_COOKIE_SAMESITE"] = "Lax"  # A form on another site is sent without the cookie.
shoal = Shoal.open("sqlite:///feed.db")
users = sqlite3.connect("site.db", check_same_thread=False, isolation_level=None)
users.execute(
    "CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, password TEXT NOT NULL)"
)
NO_PASSWORD = generate_password_hash(os.urandom(32).hex())


def member() -> Handle:
    """Return the member of the logged-in user of the site. Raises `NotAllowed` without one."""
    if "user" not in session:
        raise errors.NotAllowed("log in first")
    id_, name = session["user"]
    return shoal.external_ids.upsert(SITE, str(id_), user_name=name, display_name=name)


@app.errorhandler(ShoalError)
def refuse(error: ShoalError) -> tuple[str, int]:
    return render_template_string(PAGE, error=error, entries=[]), http_status(error)


@app.get("/")
def feed() -> str:
    """Show the posts by the user and by followed members."""
    return render_template_string(PAGE, entries=member().home().entries if "user" in session else [])


@app.post("/signup")
def sign_up() -> Response:
    name, hashed = request.form["name"], generate_password_hash(request.form["password"])
    try:
        ((id_,),) = users.execute("INSERT INTO users (name, password) VALUES (?, ?) RETURNING id", (name, hashed))
    except sqlite3.IntegrityError:
        raise errors.Taken("this name is taken") from None
    session["user"] = id_, name
    return redirect("/", 303)


@app.post("/login")
def log_in() -> Response:
    name = request.form["name"]
    found = users.execute("SELECT id, password FROM users WHERE name = ?", (name,)).fetchone() or (0, NO_PASSWORD)
    if not check_password_hash(found[1], request.form["password"]):
        raise errors.NotAllowed("the name or the password is wrong")
    session["user"] = found[0], name
    return redirect("/", 303)


@app.post("/logout")
def log_out() -> Response:
    session.clear()
    return redirect("/", 303)


@app.post("/posts")
def post() -> Response:
    member().create(request.form["text"])
    return redirect("/", 303)


@app.post("/follow")
def follow() -> Response:
    member().follow(request.form["name"])
    return redirect("/", 303)
