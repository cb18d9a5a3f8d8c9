// Keeps the files of the web app, a page for when there is no network, and the newest home that was read.
const FILES = "files-{version}";
const PAGES = "pages";
const OFFLINE = "{base}/offline";
const HOMES = ["{base}/", "{base}"];

addEventListener("install", (event) => {
  event.waitUntil(caches.open(FILES).then((cache) => cache.add(new Request(OFFLINE, { cache: "reload" }))).then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  const old = (names) => names.filter((name) => name !== FILES && name !== PAGES);
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

async function page(request) {
  const home = HOMES.includes(new URL(request.url).pathname);
  try {
    const answer = await fetch(request);
    if (home && answer.ok) (await caches.open(PAGES)).put(HOMES[0], answer.clone());
    return answer;
  } catch {
    return (home && (await caches.match(HOMES[0]))) || caches.match(OFFLINE);
  }
}

addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (origin !== location.origin || request.method !== "GET") return;
  if (pathname.startsWith("{base}/static/")) event.respondWith(kept(request));
  else if (request.mode === "navigate") event.respondWith(page(request));
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
