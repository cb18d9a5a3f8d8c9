"""About: rules, terms of service, privacy policy and contact, as far as the operator has written them."""

from __future__ import annotations

import pytest

from shoal.commands import moderation
from shoal.core.model import Role
from tests.api.in_memory_network import network_fixture
from tests.web.browser import member, visitor

TERMS, PRIVACY = "Post <your own> photos.\n\nSee https://example.org/terms", "Posts are kept until you delete them."


def test_about_page_links_to_terms_and_privacy_policy_of_operator() -> None:
    with network_fixture(terms_of_service=TERMS, privacy_policy=PRIVACY, contact_email="crew@example.org") as here:
        about = visitor(here).open("/about")
        assert about.links("crew@example.org")
        terms = about.follow("Terms of service")
        assert (terms.path, terms.title) == ("/about/terms", "Terms of service · Shoal")
        assert [one.get_text() for one in terms.html.select("main p")] == [
            "Post <your own> photos.",
            "See https://example.org/terms",
        ]
        assert PRIVACY in about.follow("Privacy policy").text
        assert terms.one("main .masthead a")["href"] == "/about"


@pytest.mark.parametrize("path", ["/about/terms", "/about/privacy", "/about/imprint"])
def test_about_document_that_does_not_exist_returns_404_and_is_not_linked(path: str) -> None:
    with network_fixture() as here:
        assert visitor(here).open(path).status == 404
        assert not visitor(here).open("/about").links("Terms of service")


def test_about_page_names_missing_settings_to_admins_only() -> None:
    with network_fixture(rules=("Be kind.",)) as here:
        for name, role in (("ann", Role.NONE), ("mia", Role.MODERATOR), ("boss", Role.ADMIN)):
            here.run(moderation.set_role(here.writes, member(here, name).id, role))
        named = {
            name: [one.text for one in visitor(here, name).open("/about").html.select("main .notice code")]
            for name in ("", "ann", "mia", "boss")
        }
        assert named == {
            "": [],
            "ann": [],
            "mia": [],
            "boss": ["contact_account", "contact_email", "terms_of_service", "privacy_policy"],
        }


@pytest.mark.parametrize(
    ("rules", "terms", "label"),
    [
        (("Be kind.",), "", "I agree to the rules."),
        ((), TERMS, "I agree to the terms of service."),
        (("Be kind.",), TERMS, "I agree to the rules and the terms of service."),
        ((), "", None),
    ],
)
def test_signup_form_asks_for_agreement_only_to_existing_documents(
    rules: tuple[str, ...], terms: str, label: str | None
) -> None:
    with network_fixture(rules=rules, terms_of_service=terms, privacy_policy=PRIVACY) as here:
        page = visitor(here).open("/signup")
        labels = [one.get_text(strip=True) for one in page.html.select("label.check")]
        assert labels == ([label] if label else [])
        assert [link["href"] for link in page.html.select("main form a[target=_blank]")] == [
            *(["/about/terms"] if terms else []),
            "/about/privacy",
        ]
        if label:
            refused = page.press(
                "Sign up", username="ann", email="ann@example.org", password="low tide at dawn", agreement=[]
            )
            expected = "agree to the rules" if rules else "agree to the terms of service"
            assert (refused.status, expected in refused.one("#agreement-wrong").text) == (422, True)
