// Caches the files of the web app and an offline page. Members' pages are never stored on the device.
const FILES = "files-{version}";
const OFFLINE = "{base}/offline";

addEventListener("install", (event) => {
  // Without cookies: stored responses must not reveal who was logged in.
  const offline = new Request(OFFLINE, { cache: "reload", credentials: "omit" });
  event.waitUntil(caches.open(FILES).then((cache) => cache.add(offline)).then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  const old = (names) => names.filter((name) => name !== FILES);
  event.waitUntil(caches.keys().then((names) => Promise.all(old(names).map((name) => caches.delete(name)))).then(() => clients.claim()));
});

async function kept(request) {
  const cache = await caches.open(FILES);
  const found = await cache.match(request);
  if (found) return found;
  const answer = await fetch(request);
  if (answer.ok) cache.put(request, answer.clone());
  return answer;
}

addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (origin !== location.origin || request.method !== "GET") return;
  if (pathname.startsWith("{base}/static/")) event.respondWith(kept(request));
  else if (request.mode === "navigate") event.respondWith(fetch(request).catch(() => caches.match(OFFLINE)));
});

addEventListener("push", (event) => {
  const { title, body, icon, notification_id: tag } = event.data.json();
  event.waitUntil(registration.showNotification(title, { body, icon, tag, badge: icon }));
});

addEventListener("notificationclick", (event) => {
  event.notification.close();
  const open = async () => {
    const [there] = await clients.matchAll({ type: "window" });
    return there ? (await there.navigate("{base}/notifications")).focus() : clients.openWindow("{base}/notifications");
  };
  event.waitUntil(open());
});
