// The posts with photos that the viewer goes through, and the history of the browser while it does.
export const ALONE = ".the-post, .comments, .messages";
export const pathOf = (link) => link.pathname.replace(/\/photos\/\d+$/, "");

export const photosOf = (root, path) => [...root.querySelectorAll("a.photo")].filter((link) => pathOf(link) === path);

// The posts in an element by their paths, in the order of the page: of each, the link of the first visible photo.
export function postsIn(root) {
  const found = new Map();
  for (const link of root.querySelectorAll("a.photo")) if (!found.has(pathOf(link)) && link.checkVisibility()) found.set(pathOf(link), link);
  return found;
}

// Loads the next page of the grid or feed, as a reader who scrolls there does.
export function loadMore() {
  const more = document.querySelector("#main .next-page a[hx-get]");
  if (!more || more.dataset.asked) return;
  more.dataset.asked = "";
  more.click();
}

// Takes over from the handler of htmx, which would load the page again.
export function onReturn(isOpen, shut, open) {
  const others = window.onpopstate;
  window.onpopstate = (event) => {
    const asked = event.state?.viewer;
    if (isOpen()) return shut();
    if (!asked) return others?.call(window, event);
    const link = [...document.querySelectorAll("main a.photo")].find((one) => pathOf(one) === asked);
    if (link) open(link, false);
    else location.reload();
  };
}
