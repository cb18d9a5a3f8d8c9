"""The content security policy: no form that is refused, error page or step back breaks it, at any width."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Error, Page, expect
from scripts.web_pages import MEMBERS, STRANGERS, Subjects

from tests.web.chromium.screens import Screen, Stage, screen, until
from tests.web.chromium.test_every_page import subjects

__all__ = ["subjects"]

_ACTIONS = """() => [...document.forms].map((form) => [form.method, form.getAttribute("action") ?? ""])"""
_REFUSED = """([method, action]) => {
  const form = [...document.forms].find((one) => one.method === method && (one.getAttribute("action") ?? "") === action);
  if (!form) return false;
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const field of form.elements) {
    if (!field.name || ["hidden", "file", "submit", "button"].includes(field.type)) continue;
    field.removeAttribute("maxlength");
    if (field.tagName === "TEXTAREA") {
      field.style.height = "200px";
      field.value = "long ".repeat(5000);
    } else if (["text", "search", "email", "password", "url"].includes(field.type)) field.value = "y".repeat(3000);
  }
  form.noValidate = true;
  window.answered = false;
  const buttons = [...form.elements].filter((one) => one.tagName === "BUTTON" && one.type === "submit");
  const done = () => requestAnimationFrame(() => (window.answered = true));
  for (const name of ["afterSettle", "responseError"]) addEventListener(`htmx:${name}`, done, { once: true });
  // An empty answer takes something away, after which nothing settles.
  addEventListener("htmx:afterRequest", (event) => event.detail.xhr.responseText || done());
  form.requestSubmit(buttons[0]);
  return true;
}"""
_REFUSAL = re.compile(r"Response Status Error Code 4\d\d ")


def refuse_every_form(ours: Screen, path: str, tried: set[str]) -> None:
    """Send each form of a page that was not tried before, with values that are too long."""
    page = ours.open(path)
    for method, action in page.evaluate(_ACTIONS):
        kind = f"{method} {re.sub(r'[0-9]{5,}', '#', action or path)}"
        if kind in tried or action.endswith(("/logout", "/settings/archive")):
            continue
        tried.add(kind)
        page = ours.open(path)
        # Forms before it may have taken it away.
        if page.evaluate(_REFUSED, [method, action]):
            try:
                settled(page)
            except AssertionError as error:
                raise AssertionError(f"{path}: no answer to the form {kind}") from error


def settled(page: Page) -> None:
    """Wait until the answer to a form is on the page: it replaced a part of the page, or another page has loaded."""
    while True:
        try:
            until(page, "document.readyState === 'complete' && window.answered !== false", 30)
        except Error:
            # The page was replaced while it was asked.
            continue
        return


@pytest.mark.parametrize("width", [390, pytest.param(1_280, marks=pytest.mark.deep)])
def test_refused_form_violates_no_policy(at: Stage, subjects: Subjects, chromium: Browser, width: int) -> None:
    tried: set[str] = set()
    with screen(at, chromium, width, touch=width < 800) as ours:
        for path in STRANGERS.values():
            refuse_every_form(ours, path.format(**subjects._asdict()), tried)
        ours.log_in("hal")
        for path in MEMBERS.values():
            refuse_every_form(ours, path.format(**subjects._asdict()), tried)
        ours.complaints[:] = [one for one in ours.complaints if not _REFUSAL.match(one.what)]
    assert len(tried) > 50


def test_way_back_to_a_page_with_a_resized_field_violates_no_policy(at: Stage, chromium: Browser) -> None:
    at.join("ira")
    with screen(at, chromium) as ours:
        ours.log_in("ira")
        page = ours.open("/compose")
        page.locator("#text").evaluate("(field) => (field.style.height = '300px')")
        page.get_by_role("navigation").get_by_role("link", name="Explore").first.click()
        page.wait_for_url("**/explore")
        page.go_back()
        page.wait_for_url("**/compose")
        expect(page.locator("#text")).to_be_visible()
