// Starts the behaviors of a page: each is a module, fetched when an element has `data-behavior="its-name"`.
const started = new WeakMap();

async function start(element) {
  for (const name of element.dataset.behavior.split(" ")) {
    const names = started.get(element) ?? started.set(element, new Set()).get(element);
    if (names.has(name)) continue;
    names.add(name);
    try {
      (await import(`./${name}.js`)).default(element);
    } catch (error) {
      // A page that is left while it loads fetches no more files; it works without them.
      names.delete(name);
      if (!(error instanceof TypeError)) throw error;
      return;
    }
  }
  // Tells browser tests that the element is ready.
  element.dataset.started = "";
}

function look(within) {
  if (within.matches?.("[data-behavior]")) start(within);
  for (const element of within.querySelectorAll?.("[data-behavior]") ?? []) start(element);
}

// A change during a view transition skips the rest of it. htmx does not handle that rejection, and browsers would report an error.
// With reduced motion, there are no transitions.
const glide = document.startViewTransition?.bind(document);
const isStill = () => document.documentElement.classList.contains("look-still") || matchMedia("(prefers-reduced-motion: reduce)").matches;
if (glide) {
  document.startViewTransition = (change) => {
    if (isStill()) {
      const done = Promise.resolve(change());
      return { updateCallbackDone: done, ready: done, finished: done };
    }
    const transition = glide(change);
    transition.ready.catch((error) => {
      if (error.name !== "AbortError") throw error;
    });
    return transition;
  };
}

// A form is sent once, however often its button is pressed before the response. Likes may be toggled at once.
document.addEventListener(
  "submit",
  (event) => {
    if (!event.target.matches(".htmx-request:not([data-behavior~=act])")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);
document.addEventListener("htmx:sendError", async () => {
  const { say } = await import("./word.js");
  say(document.getElementById("words").dataset.lost);
});
// A page snapshot is restored as HTML, whose inline styles (set by scripts or a resized text field) the content security policy blocks.
document.addEventListener("htmx:beforeHistorySave", () => {
  for (const element of document.querySelectorAll("[style]")) element.removeAttribute("style");
});
document.addEventListener("htmx:load", (event) => look(event.detail.elt));
look(document.documentElement);
