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

// A form is sent once, however often its button is pressed before the response. Likes may be toggled at once.
// A button with its own action loads a page, without htmx.
document.addEventListener(
  "submit",
  (event) => {
    if (event.submitter?.hasAttribute("formaction")) event.stopPropagation();
    if (!event.target.matches(".htmx-request:not([data-behavior~=act])")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);
async function lost() {
  const { say } = await import("./word.js");
  say(document.getElementById("word-area").dataset.lost);
}
document.addEventListener("htmx:sendError", lost);
// An error shows its message or its page, except the page of a proxy.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (!detail.isError) return;
  detail.shouldSwap = /id="main"|#word-area/.test(detail.serverResponse);
  if (!detail.shouldSwap) lost();
});
// A page snapshot is restored as HTML, whose inline styles (set by scripts or a resized text field) the content security policy blocks.
// Scripts start again and make their elements again.
document.addEventListener("htmx:beforeHistorySave", () => {
  for (const element of document.querySelectorAll("[data-made]")) element.remove();
  for (const element of document.querySelectorAll("[style]")) element.removeAttribute("style");
});
// A swap that removes the focused element moves the focus: to the new element at the same position of a changed part, or to the
// content of a new page.
const focusable = (within) =>
  [...within.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].filter((one) => one.checkVisibility());
let focused = null;
document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
  const { parentElement: parent, nextElementSibling: next } = target;
  const at = focusable(target).indexOf(document.activeElement);
  focused = document.activeElement === document.body ? null : { target, parent, next, at };
});
// htmx settles nothing if a swap only removes an element.
document.addEventListener("htmx:beforeCleanupElement", ({ target }) => {
  if (target === focused?.target) queueMicrotask(refocus);
});
document.addEventListener("htmx:afterSettle", refocus);
function refocus() {
  if (!focused || document.activeElement !== document.body) return;
  const { target, parent, next, at } = focused;
  const part = target.isConnected ? target : next?.isConnected ? next.previousElementSibling : parent.lastElementChild;
  const places = at >= 0 && part?.isConnected && part.id !== "main" ? focusable(part) : [];
  (places[Math.min(at, places.length - 1)] ?? document.getElementById("main")).focus({ preventScroll: true });
  focused = null;
}
document.addEventListener("htmx:load", (event) => look(event.detail.elt));
look(document.documentElement);
