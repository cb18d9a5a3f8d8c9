"""Mail delivery to a real SMTP server, with and without TLS and a login, or to a folder."""

from __future__ import annotations

import email
import email.policy
import socket
from pathlib import Path

import pytest

from shoal.app.mail_and_push import mailer_of, open_mail, sender_of
from shoal.core.errors import InvalidInput, Unavailable
from shoal.mail.mailers import FolderMailer, Letter, NotNow, SmtpMailer, Undeliverable, smtp_server
from shoal.settings import load
from tests.async_runner import in_loop
from tests.engines.certificates import SelfSigned, self_signed
from tests.engines.smtp import post_office

LETTER = Letter("ann@example.org", "Grüße vom Meer", "Hallo Ann\n", "<p>Hallo Ann</p>")
SENDER = "Shoal <post@example.org>"
LOGIN = ("shoal", "s3a")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> SelfSigned:
    """A self-signed certificate for `localhost` and its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@in_loop
async def test_smtp_mail_is_delivered_with_subject_text_and_html() -> None:
    with post_office() as office:
        await SmtpMailer(office.url, SENDER).send(LETTER)
    (mail,) = office.mails
    assert (mail.sender, mail.to, mail.subject) == ("post@example.org", "ann@example.org", "Grüße vom Meer")
    assert (mail.text, mail.html.strip(), mail.encrypted) == ("Hallo Ann\n", "<p>Hallo Ann</p>", False)


# The server library warns although the connection uses implicit TLS.
@pytest.mark.filterwarnings("ignore:Requiring AUTH:UserWarning")
@pytest.mark.parametrize("wrapped", [False, True])
@in_loop
async def test_smtp_mail_over_tls_with_login_is_delivered(certificate: tuple[Path, Path], wrapped: bool) -> None:
    with post_office(certificate=certificate, wrapped=wrapped, login=LOGIN) as office:
        trusting = f"{office.url}?ca={certificate[0]}"
        await SmtpMailer(trusting, SENDER).send(LETTER)
        assert [mail.encrypted for mail in office.mails] == [True]
        # With an untrusted certificate or a wrong password, the mail is retried later.
        with pytest.raises(Unavailable, match="is unreachable"):
            await SmtpMailer(office.url, SENDER).send(LETTER)
        with pytest.raises(Unavailable, match="rejected the user or password"):
            await SmtpMailer(trusting.replace("s3a", "sea"), SENDER).send(LETTER)
        assert len(office.mails) == 1


@in_loop
async def test_smtp_login_is_not_sent_without_required_tls() -> None:
    with post_office() as office:
        with pytest.raises(Unavailable):
            await SmtpMailer(f"{office.url}?tls=required".replace("//", "//shoal:s3a@"), SENDER).send(LETTER)
        assert office.mails == []


@in_loop
async def test_smtp_permanent_and_temporary_failures_are_distinguished() -> None:
    with post_office() as office:
        mailer = SmtpMailer(office.url, SENDER)
        for refuses, fails, wrong in (
            ("550 no such mailbox", "", Undeliverable),
            ("450 mailbox busy", "", NotNow),
            ("", "554 looks like junk", Undeliverable),
            ("", "451 try later", NotNow),
        ):
            office.refuses, office.fails = refuses, fails
            with pytest.raises(wrong, match=refuses or fails):
                await mailer.send(LETTER)
    with pytest.raises(Unavailable, match="is unreachable"):
        await mailer.send(LETTER)


@in_loop
async def test_smtp_non_ascii_addresses_are_delivered_or_refused() -> None:
    with post_office() as office:
        mailer = SmtpMailer(office.url, SENDER)
        for address in ("ann@bücher.example", "jürgen@bücher.example"):
            await mailer.send(LETTER._replace(to=address))
        assert [mail.to for mail in office.mails] == ["ann@xn--bcher-kva.example", "jürgen@xn--bcher-kva.example"]
    with post_office(in_ascii=True) as office:
        mailer = SmtpMailer(office.url, SENDER)
        await mailer.send(LETTER._replace(to="ann@bücher.example"))
        with pytest.raises(Undeliverable, match="non-ASCII"):
            await mailer.send(LETTER._replace(to="jürgen@bücher.example"))
        assert len(office.mails) == 1


@in_loop
async def test_smtp_unresponsive_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.mail.mailers._SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unavailable, match="is unreachable"):
        await SmtpMailer(f"smtp://127.0.0.1:{silent.getsockname()[1]}", SENDER).send(LETTER)


@in_loop
async def test_mail_folder_stores_files_readable_by_owner_only(tmp_path: Path) -> None:
    mailer = FolderMailer(tmp_path / "mail", SENDER)
    await mailer.send(LETTER)
    await mailer.send(LETTER._replace(to="../../ben@example.org"))
    first, second = sorted((tmp_path / "mail").iterdir())
    assert (first.name, second.name) == ("0001-ann@example.org.eml", "0002-.._.._ben@example.org.eml")
    assert first.stat().st_mode & 0o777 == 0o600
    assert email.message_from_bytes(first.read_bytes(), policy=email.policy.default)["Subject"] == LETTER.subject
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot write mail to"):
        await FolderMailer(tmp_path / "file", SENDER).send(LETTER)


@pytest.mark.parametrize(
    ("url", "wants"),
    [
        ("smtp://mail.example.org", ("mail.example.org", 25, "", "", False, None, "")),
        ("smtp://a%40b:c%3A@mail.example.org", ("mail.example.org", 587, "a@b", "c:", False, True, "")),
        ("smtps://a:b@mail.example.org", ("mail.example.org", 465, "a", "b", True, False, "")),
        ("smtp://a:b@localhost:1025", ("localhost", 1025, "a", "b", False, None, "")),
        ("smtp://mail.example.org?tls=never&ca=/x.pem", ("mail.example.org", 25, "", "", False, False, "/x.pem")),
    ],
)
def test_smtp_url_is_parsed_into_host_login_and_tls(url: str, wants: tuple[object, ...]) -> None:
    assert tuple(smtp_server(url)) == wants


@pytest.mark.parametrize(
    "url",
    [
        "http://mail.example.org",
        "smtp://",
        "smtp://mail.example.org:notaport",
        "smtp://mail.example.org/box",
        "smtp://mail.example.org?tls=maybe",
        "smtp://mail.example.org?color=red",
        "smtp://user:secret@mail.example.org?tls=never",
    ],
)
def test_smtp_url_that_is_invalid_is_refused_without_showing_password(url: str) -> None:
    with pytest.raises(InvalidInput, match="mail: ") as refused:
        smtp_server(url)
    assert "secret" not in str(refused.value)


def test_mail_settings_select_mailer_and_sender(tmp_path: Path) -> None:
    assert open_mail(load({})) is None
    assert isinstance(mailer_of(load({}, mail=f"file://{tmp_path}")), FolderMailer)
    assert (
        sender_of(load({}, title="Sea & Co", base_url="https://sea.example.org"))
        == "Sea & Co <no-reply@sea.example.org>"
    )
    assert sender_of(load({}, mail_from="Ann <post@sea.example.org>")) == "Ann <post@sea.example.org>"
    assert sender_of(load({}, title="Sea\nBcc: x@example.org", base_url="https://sea.example.org")).count("\n") == 0
    for wrong in ({"mail": "file://relative/path"}, {"mail": "smtp://x", "mail_from": "nobody"}):
        with pytest.raises(InvalidInput):
            open_mail(load({}, **wrong))
