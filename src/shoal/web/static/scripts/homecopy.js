// Stores the posts of Home on this device, for worker.js to show offline. Logging out deletes the copy, and so does a later page
// that is for a visitor or another member.
const HOME = "home", POSTS = 20, PICTURES = 5, EDGE = 640, PAUSE = 1000, AGE = 3 * 86_400_000;
const drawn = new WeakMap();
// The member of this page, until they log out or another tab shows a page for another viewer.
let over = false;
document.addEventListener("forget-drafts", () => (over = true));
const viewers = window.BroadcastChannel && new BroadcastChannel("viewer");
viewers?.addEventListener("message", ({ data }) => (over ||= data !== viewer()));
const viewer = () => document.getElementById("navigation").dataset.viewer;

// The photo as loaded, small, in a URL.
function small(image) {
  if (!drawn.has(image)) {
    const canvas = document.createElement("canvas");
    const scale = Math.min(1, EDGE / image.naturalWidth);
    canvas.width = image.naturalWidth * scale;
    canvas.height = image.naturalHeight * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    drawn.set(image, canvas.toDataURL("image/jpeg", 0.7));
  }
  return drawn.get(image);
}

function copied(article) {
  const copy = article.cloneNode(true);
  const loaded = [...article.querySelectorAll("img")].map((one, n) => n < PICTURES && one.complete && one.naturalWidth && small(one));
  copy.querySelectorAll("img").forEach((one, n) => (loaded[n] ? (one.src = loaded[n]) : one.remove()));
  // The quoted parent of a reply may be for fewer people than the reply.
  copy.querySelectorAll("form, video, audio, canvas, q.answered").forEach((one) => one.remove());
  for (const one of copy.querySelectorAll("a, img, [style]")) for (const name of ["href", "srcset", "style"]) one.removeAttribute(name);
  copy.querySelectorAll("time").forEach((one) => (one.textContent = new Date(one.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })));
  return copy.outerHTML;
}

async function keep(feed, path) {
  // Without posts for followers: their authors can withdraw them from a reader, but not from a device without a connection.
  const articles = [...feed.querySelectorAll(":scope > article:not([data-limited])")].slice(0, POSTS);
  const headers = { at: feed.dataset.at, viewer: viewer() };
  await (await caches.open(HOME)).put(path, new Response(articles.map(copied).join(""), { headers }));
}

export default async function homecopy(element) {
  if (!window.caches) return;
  const path = `${document.body.dataset.base}/offline/posts`;
  if (element.id === "navigation") {
    viewers?.postMessage(viewer());
    const { headers } = (await caches.match(path, { cacheName: HOME })) ?? {};
    if (headers && (headers.get("viewer") !== element.dataset.viewer || Date.now() - headers.get("at") > AGE)) caches.delete(HOME);
  } else if (!element.dataset.at) {
    // A page of the history has the time already: it may be older than the copy.
    element.dataset.at = Date.now();
    let timer = 0;
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(() => over || !element.isConnected || keep(element, path), PAUSE);
    };
    element.addEventListener("load", later, true);
    later();
  }
}
