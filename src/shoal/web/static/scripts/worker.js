// Caches the files of the web app and its offline pages, and shows the copy of Home that homecopy.js stores.
const FILES = "files-{version}", HOME = "home", DAYS = 3;
const [OFFLINE, FRAME, POSTS] = ["", "/home", "/posts"].map((name) => `{base}/offline${name}`);
const ASSETS = ["styles/app.css", "icons.svg"].map((name) => `{base}/static/{version}/${name}`);

addEventListener("install", (event) => {
  // Without cookies: stored responses must not reveal who was logged in.
  const pages = [OFFLINE, FRAME].map((path) => new Request(path, { cache: "reload", credentials: "omit" }));
  event.waitUntil(caches.open(FILES).then((cache) => cache.addAll([...pages, ...ASSETS])).then(() => skipWaiting()));
});

addEventListener("activate", (event) => {
  const old = (names) => names.filter((name) => name !== FILES && name !== HOME);
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

async function offline(pathname) {
  const copy = pathname === "{base}/" && (await caches.match(POSTS, { cacheName: HOME }));
  const at = copy && new Date(Number(copy.headers.get("at")));
  if (!copy || Date.now() - at > DAYS * 86_400_000) {
    if (copy) await caches.delete(HOME);
    return caches.match(OFFLINE);
  }
  const frame = await caches.match(FRAME);
  const values = { at: at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }), posts: await copy.text() };
  const html = (await frame.text()).replace(/\{(at|posts)\}/g, (_, name) => values[name]);
  return new Response(html, { headers: ["content-type", "content-security-policy"].map((name) => [name, frame.headers.get(name)]) });
}

addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (origin !== location.origin) return;
  // The forms to log in and to log out. No form is answered here, so a share arrives as the browser sent it.
  if (request.method === "POST" && pathname.startsWith("{base}/log")) event.waitUntil(caches.delete(HOME));
  if (request.method !== "GET") return;
  if (pathname.startsWith("{base}/static/")) event.respondWith(kept(request));
  else if (request.mode === "navigate") event.respondWith(fetch(request).catch(() => offline(pathname)));
});

async function count() {
  const answer = await fetch("{base}/notifications/unread");
  // A closed network sends visitors to the log-in page.
  const unread = answer.redirected ? 0 : (await answer.json()).unread;
  if (unread !== null) await navigator.setAppBadge?.(unread);
}

addEventListener("push", (event) => {
  const { title, body, icon, notification_id: tag } = event.data.json();
  event.waitUntil(Promise.allSettled([registration.showNotification(title, { body, icon, tag, badge: icon }), count()]));
});

addEventListener("notificationclick", (event) => {
  event.notification.close();
  const open = async () => {
    const [there] = await clients.matchAll({ type: "window" });
    return there ? (await there.navigate("{base}/notifications")).focus() : clients.openWindow("{base}/notifications");
  };
  event.waitUntil(open());
});
