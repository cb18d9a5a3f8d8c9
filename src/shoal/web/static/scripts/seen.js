// Reports posts that were visible for a moment to the server, which ranks them lower afterwards.
import { token } from "./token.js";

const MOMENT = 1200;
const EVERY = 6000;

export default function seen(list) {
  const timers = new Map();
  let waiting = new Set();
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) timers.set(target, setTimeout(() => (waiting.add(target.dataset.post), watcher.unobserve(target)), MOMENT));
        else clearTimeout(timers.get(target));
      }
    },
    { threshold: 0.6 },
  );
  const watch = (within) => within.querySelectorAll?.("article[data-post]").forEach((article) => watcher.observe(article));
  watch(list);
  list.addEventListener("htmx:load", (event) => watch(event.target));
  const tell = () => {
    if (!waiting.size) return;
    const body = new URLSearchParams([...waiting].map((id) => ["ids[]", id]));
    waiting = new Set();
    fetch(list.dataset.seen, { method: "POST", body, headers: { "X-Form-Token": token(), "HX-Request": "true" }, keepalive: true });
  };
  const timer = setInterval(() => (list.isConnected ? tell() : (tell(), clearInterval(timer))), EVERY);
  addEventListener("pagehide", tell);
}
