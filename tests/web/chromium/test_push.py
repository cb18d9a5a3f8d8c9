"""Push notifications in a browser: the button in the settings, and the notification of the service worker."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from shoal.commands import relationships
from shoal.graph.contract import Cursor
from shoal.graph.schema import PUSHES
from shoal.push import messages
from shoal.push.encryption import new_key
from tests.push.service import App
from tests.web.chromium.browser_sessions import browser, live_server, screen

_SUBSCRIBED = """(keys) => {
  // The push service of the browser vendor cannot be reached here.
  let made = null;
  PushManager.prototype.subscribe = async (options) => {
    window.asked = options;
    made = { toJSON: () => ({ endpoint: "https://push.test/browser", keys }), unsubscribe: async () => ((made = null), true) };
    return made;
  };
  PushManager.prototype.getSubscription = async () => made;
}"""


# Until a notification is displayed, getNotifications() deletes it, as if the member had dismissed it.
_RECORDED = """() => {
  self.displayed = 0;
  self.badges = [];
  const show = registration.showNotification.bind(registration);
  registration.showNotification = (...of) => show(...of).then(() => void displayed++);
  navigator.setAppBadge = async (number) => void badges.push(number);
}"""


def test_web_push_browser_subscribes_shows_message_and_badge_and_unsubscribes() -> None:
    # Chromium's headless shell shows no notifications.
    with browser(whole=True) as whole, live_server(push_key=new_key()) as at, screen(at, whole) as ours:
        ann, ben = at.join("ann"), at.join("ben")
        at.run(relationships.follow(at.network.writes, ben.id, ann.id))
        at.settle()
        page = ours.log_in("ann")
        page.context.grant_permissions(["notifications"], origin=at.url)
        app = App()
        page.add_init_script(f"({_SUBSCRIBED})({json.dumps(app.keys)})")
        page.goto(f"{at.url}/settings/notifications")
        page.get_by_role("button", name="Turn on push notifications").click()
        expect(page.get_by_role("button", name="Turn off push notifications")).to_be_visible()
        key = at.network.server_key
        assert key is not None
        assert page.evaluate("asked.applicationServerKey") == key.public
        (held,) = at.run(at.network.store.assoc_range(ann.id, PUSHES, Cursor(limit=9)))
        found = messages.decode(held.data)
        assert found.endpoint == "https://push.test/browser"
        assert found.sealed == b""

        worker = page.context.new_cdp_session(page)
        seen: list[str] = []
        worker.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda told: seen.extend(one["registrationId"] for one in told["registrations"]),
        )
        worker.send("ServiceWorker.enable")
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        for _ in range(3_000):
            if seen:
                break
            page.wait_for_timeout(20)
        (running,) = page.context.service_workers
        running.evaluate(_RECORDED)
        message = {
            "title": "ben likes your post",
            "body": "Low tide",
            "icon": "/static/x/mark.svg",
            "notification_id": "7",
        }
        worker.send(
            "ServiceWorker.deliverPushMessage",
            {"origin": at.url, "registrationId": seen[-1], "data": json.dumps(message)},
        )
        for _ in range(3_000):
            if running.evaluate("displayed && badges.length"):
                break
            page.wait_for_timeout(20)
        shown = page.evaluate(
            "navigator.serviceWorker.ready.then((here) => here.getNotifications())"
            ".then(([one]) => one && [one.title, one.body, one.tag])"
        )
        assert shown == ["ben likes your post", "Low tide", "7"]
        assert running.evaluate("self.badges") == [1]

        page.get_by_role("button", name="Turn off push notifications").click()
        expect(page.get_by_role("button", name="Turn on push notifications")).to_be_visible()
        assert at.run(at.network.store.assoc_range(ann.id, PUSHES, Cursor(limit=9))) == []
