"""Pages of the authorize flow as HTML: the login form, the question, the code for an app without an address."""

from __future__ import annotations

from html import escape
from urllib.parse import urlsplit

from starlette.responses import Response

from shoal.api.context import Front
from shoal.api.http.html import sheet
from shoal.api.login.authorize_request import OUT_OF_BAND, AuthorizeRequest
from shoal.api.login.scope_words import in_words
from shoal.core.model import Member

# No `form-action`: Chromium holds it against the address that a form is sent on to, which is the app's.
_POLICY = "default-src 'none'; img-src *; style-src 'self'; base-uri 'none'"
_HEADERS = {"Cache-Control": "no-store"}


def login(front: Front, asked: AuthorizeRequest, form_token: str, told: str, name: str, status: int) -> Response:
    """Return the login form. `name` is the user name that was typed before."""
    title = escape(front.settings.title)
    body = (
        f"{_head(asked)}<h1>Log in to {title}</h1>"
        f"<p>to let <b>{escape(asked.app.name)}</b> into your account.</p>{_told(told)}"
        f'<form method="post">{_form_token(form_token)}'
        '<label for="username">User name or e-mail address</label>'
        f'<input id="username" name="username" value="{escape(name)}" required maxlength="300" autocapitalize="none"'
        f' autocomplete="username" spellcheck="false"{"" if name else " autofocus"}>'
        '<label for="password">Password</label>'
        '<input id="password" name="password" type="password" required maxlength="1024"'
        f' autocomplete="current-password"{" autofocus" if name else ""}>'
        '<div class="choices"><button name="do" value="login">Log in</button>'
        '<button name="do" value="deny" class="quiet" formnovalidate>Cancel</button></div></form>'
    )
    return _card(front, f"Log in to {front.settings.title}", body, status)


def question(
    front: Front, asked: AuthorizeRequest, member: Member, form_token: str, told: str, status: int
) -> Response:
    """May this app come in?"""
    permissions = "".join(f"<li>{escape(words)}</li>" for words in in_words(asked.scopes))
    shown = member.display_name or member.name
    body = (
        f"{_head(asked)}<h1>Let <b>{escape(asked.app.name)}</b> into your account?</h1>"
        f"{_told(told)}"
        f'<p class="you"><img src="{escape(front.at.avatar(member.avatar))}" alt="">'
        f'<span><b>{escape(shown)}</b><br><span class="handle">@{escape(member.name)}@{escape(front.at.domain)}</span>'
        f'</span></p><p>It will be able to</p><ul class="permissions">{permissions}</ul>'
        f'<form method="post">{_form_token(form_token)}'
        '<div class="choices"><button name="do" value="allow">Allow</button>'
        '<button name="do" value="deny" class="quiet">Deny</button></div>'
        f'<p class="fine">{_whither(asked)} A new password ends its access.</p>'
        '<button name="do" value="switch" class="link">Use another account</button></form>'
    )
    return _card(front, f"Let {asked.app.name} in?", body, status)


def code(front: Front, text: str) -> Response:
    """The code, for the person to carry to the app."""
    body = (
        "<h1>Almost done</h1><p>Copy this code into the app. It is good for ten minutes, and once.</p>"
        f'<p><code class="code" id="code">{escape(text)}</code></p>'
        f'<p class="fine">Give it to nobody else: whoever has it may come into your account on '
        f"{escape(front.settings.title)}.</p>"
    )
    return _card(front, "Your code", body, 200)


def refused(front: Front, error: str, description: str) -> Response:
    """Return a page that shows the person the error that an app without an address cannot be told."""
    if error == "access_denied":
        return _card(front, "Denied", "<h1>Denied</h1><p>The app was not let in. You can close this page.</p>", 200)
    body = f'<h1>This did not work</h1><p class="wrong">{escape(description)}</p>'
    return _card(front, "This did not work", body, 400)


def _card(front: Front, title: str, body: str, status: int) -> Response:
    return sheet(
        title,
        f'<section class="card">{body}</section>',
        base=front.at.path,
        policy=_POLICY,
        status=status,
        headers=_HEADERS,
    )


def _head(asked: AuthorizeRequest) -> str:
    letter = next((character for character in asked.app.name.upper() if character.isalnum()), "?")
    site = urlsplit(asked.app.website).netloc
    home = f'<a href="{escape(asked.app.website)}" rel="noreferrer nofollow">{escape(site)}</a>' if site else ""
    return f'<p class="app"><span class="mark" aria-hidden="true">{escape(letter)}</span> {home}</p>'


def _whither(asked: AuthorizeRequest) -> str:
    """Where the browser goes next. An app may call itself what it likes; its address is where the code goes."""
    if asked.redirect_uri == OUT_OF_BAND:
        return "You will be shown a code to type into the app."
    parts = urlsplit(asked.redirect_uri)
    place = parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:"
    return f"You will be sent to <b>{escape(place)}</b>."


def _told(told: str) -> str:
    return f'<p class="wrong" role="alert">{escape(told)}</p>' if told else ""


def _form_token(form_token: str) -> str:
    return f'<input type="hidden" name="form_token" value="{escape(form_token)}">'
