// Keyboard shortcuts; the page /keys lists them. They are disabled while typing.
const PLACES = {
  h: "/",
  e: "/explore",
  n: "/notifications",
  m: "/conversations",
  s: "/saved",
  y: "/for-you",
  f: "/liked",
  l: "/lists",
  r: "/requests",
};
let going = false;

const articles = () => [...document.querySelectorAll("main article")];
const here = () => document.activeElement?.closest("article") ?? document.querySelector("article.here");

function step(by) {
  const all = articles();
  const next = all[Math.min(all.length - 1, Math.max(0, all.indexOf(here()) + by))];
  if (!next) return;
  document.querySelector("article.here")?.classList.remove("here");
  next.classList.add("here");
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "start" });
}

const press = (selector) => here()?.querySelector(selector)?.click();
const follow = (...rels) => document.querySelector(`.masthead [rel=${rels[document.dir === "rtl" ? 1 : 0]}]`)?.click();

// The comment form of the page, unless a comment is selected.
const form = () => !here()?.closest(".comment-at") && document.querySelector("#comments textarea");

const comment = () => (form() ? form().focus() : press(".actions :is(.comment, .answer-link)"));
const like = () => press(".actions .like");

const ACTS = {
  // f and r are the keys of Mastodon.
  j: () => step(1),
  k: () => step(-1),
  l: like,
  f: like,
  b: () => press(".actions .save"),
  s: () => press(".actions .share"),
  c: comment,
  r: comment,
  x: () => press(":is(.spoiler, .fold, .cover) > summary"),
  o: () => press(".byline .at a"),
  p: () => press("a.photo"),
  ArrowLeft: () => follow("prev", "next"),
  ArrowRight: () => follow("next", "prev"),
  ".": () => document.querySelector(".fresh button")?.click(),
};

export default function keys(body) {
  const base = body.dataset.base;
  const visit = (path) => location.assign(base + path);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const { key } = event;
    if (going) {
      going = false;
      if (key in PLACES) visit(PLACES[key]);
    } else if (key === "g") going = true;
    else if (key === "n") visit("/compose");
    else if (key === "?") visit("/keys");
    else if (key === "/") {
      const search = document.querySelector('input[type="search"]');
      if (search?.checkVisibility()) search.focus();
      else visit("/search");
    } else if (key in ACTS) ACTS[key]();
    else return;
    event.preventDefault();
  });
}
