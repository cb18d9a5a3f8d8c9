"""The content security policy is not violated by refused forms, error pages or back navigation, at any width."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from scripts.web_pages import MEMBERS, STRANGERS, Subjects
from tests.web.chromium.browser_sessions import LiveServer, Screen, screen, until

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
  // An empty response removes an element, and no settle event follows.
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
        # An earlier form may have removed it.
        if page.evaluate(_REFUSED, [method, action]):
            try:
                settled(page)
            except AssertionError as error:
                raise AssertionError(f"{path}: no answer to the form {kind}") from error


def settled(page: Page) -> None:
    """Wait until the response to a form has replaced a part of the page, or another page has loaded."""
    for _ in range(100):
        try:
            until(page, "document.readyState === 'complete' && window.answered !== false")
        except Error:
            # The page was replaced during the evaluation.
            continue
        return
    raise AssertionError(f"{page.url} does not stop replacing itself")


@pytest.mark.parametrize("width", [390, pytest.param(1_280, marks=pytest.mark.deep)])
def test_content_security_policy_is_not_violated_by_refused_forms(
    at: LiveServer, subjects: Subjects, chromium: Browser, width: int
) -> None:
    tried: set[str] = set()
    with screen(at, chromium, width, touch=width < 800) as ours:
        for path in STRANGERS.values():
            refuse_every_form(ours, path.format(**subjects._asdict()), tried)
        ours.log_in("hal")
        for path in MEMBERS.values():
            refuse_every_form(ours, path.format(**subjects._asdict()), tried)
        ours.complaints[:] = [one for one in ours.complaints if not _REFUSAL.match(one.what)]
    assert len(tried) > 50


def test_content_security_policy_is_not_violated_by_restored_page_with_resized_field(
    at: LiveServer, chromium: Browser
) -> None:
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
