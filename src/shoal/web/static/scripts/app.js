// Starts the behaviours of a page: each is a module that is fetched when something on the page has `data-behaviour="its-name"`.
const started = new WeakMap();

async function start(element) {
  for (const name of element.dataset.behaviour.split(" ")) {
    const names = started.get(element) ?? started.set(element, new Set()).get(element);
    if (names.has(name)) continue;
    names.add(name);
    try {
      (await import(`./${name}.js`)).default(element);
    } catch (error) {
      // A page that is left while it loads gets no more files; it works without them.
      names.delete(name);
      if (!(error instanceof TypeError)) throw error;
      return;
    }
  }
  // Whoever drives a browser sees by this that the element does what it can.
  element.dataset.started = "";
}

function look(within) {
  if (within.matches?.("[data-behaviour]")) start(within);
  for (const element of within.querySelectorAll?.("[data-behaviour]") ?? []) start(element);
}

// A page that changes again while it glides skips the rest: no error, but htmx leaves it unheard, and browsers would report one.
const glide = document.startViewTransition?.bind(document);
if (glide) {
  document.startViewTransition = (change) => {
    const transition = glide(change);
    transition.ready.catch((error) => {
      if (error.name !== "AbortError") throw error;
    });
    return transition;
  };
}

// A form is sent once, however often its button is pressed until there is an answer. Likes may be changed at once.
document.addEventListener(
  "submit",
  (event) => {
    if (!event.target.matches(".htmx-request:not([data-behaviour~=act])")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);
document.addEventListener("htmx:sendError", async () => {
  const { say } = await import("./word.js");
  say(document.getElementById("words").dataset.lost);
});
// A snapshot of the page is restored as HTML, in which the policy blocks styles that scripts or a resized text field have set.
document.addEventListener("htmx:beforeHistorySave", () => {
  for (const element of document.querySelectorAll("[style]")) element.removeAttribute("style");
});
document.addEventListener("htmx:load", (event) => look(event.detail.elt));
look(document.documentElement);
