"""Mail templates in each language, as text and as HTML, with escaped user input."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup

from shoal.core.email import EMAIL_TOKEN_MS, MailKind
from shoal.i18n import LANGUAGES
from shoal.mail.mailers import message_of
from shoal.mail.messages import About, Stationery, trial, write

AT = 1_790_000_000_000
SHOAL = Stationery("The Shoal", "https://shoal.example.org")


def about(kind: MailKind, **more: str) -> About:
    return About(kind, "ann@example.org", "ann", AT, **{"proof": "PROOF", "address": "new@example.org", **more})


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", MailKind)
def test_mail_template_contains_member_server_and_link_in_text_and_html(kind: MailKind, language: str) -> None:
    letter = write(SHOAL, about(kind, place="192.0.2.7"), language)
    page = BeautifulSoup(letter.html, "lxml")
    (link,) = (str(a["href"]) for a in page.find_all("a"))
    assert link.startswith("https://shoal.example.org/")
    assert link.endswith("/PROOF") is (kind in EMAIL_TOKEN_MS)
    assert link in letter.text.splitlines()
    assert page.html is not None
    assert page.html["lang"] == language
    for said in (letter.text, page.get_text(" ")):
        assert "@ann" in said
        assert "The Shoal" in said
        assert "%(" not in said
    assert "\n\n\n" not in letter.text
    assert (letter.subject == write(SHOAL, about(kind), "en").subject) is (language == "en")


def test_mail_template_for_language_without_catalog_is_english() -> None:
    assert write(SHOAL, about(MailKind.RESET), "xx") == write(SHOAL, about(MailKind.RESET), "en")


def test_mail_template_escapes_markup_in_site_title() -> None:
    evil = Stationery("<script>alert(1)</script>", "https://shoal.example.org")
    letter = write(evil, about(MailKind.RESET), "en")
    assert "<script>" not in letter.html
    assert "<script>" in letter.text


def test_mail_message_has_text_and_html_parts_and_rejects_header_injection() -> None:
    letter = trial(SHOAL, "ann@example.org", "de")
    message = message_of(letter, "Shoal <post@example.org>")
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert str(message["Message-ID"]).endswith("@example.org>")
    assert message["Auto-Submitted"] == "auto-generated"
    with pytest.raises(ValueError, match="linefeed"):
        message_of(letter._replace(subject="A\nBcc: all@example.org"), "post@example.org")
