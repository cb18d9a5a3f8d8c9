// The posts with photos that the viewer goes through, and the history of the browser while it does.
export const ALONE = ".the-post, .comments, .messages";
export const pathOf = (link) => link.pathname.replace(/\/photos\/\d+$/, "");

// The posts in an element by their paths, in the order of the page: of each, the link of the first visible photo.
// An album, and a post on its own page, have an entry for each photo: the path of the second ends with #2.
export function postsIn(root) {
  const found = new Map();
  for (const link of root.querySelectorAll("a.photo")) {
    let path = pathOf(link);
    if (link.closest(`.photo-rows, ${ALONE}`)) for (let n = 2; found.has(path); n++) path = `${pathOf(link)}#${n}`;
    if (!found.has(path) && link.checkVisibility()) found.set(path, link);
  }
  return found;
}

export const pathIn = (root, link) => [...postsIn(root)].find(([, one]) => one === link)?.[0] ?? pathOf(link);

// Loads the next page of the grid or feed, as a reader who scrolls there does.
export function loadMore() {
  const more = document.querySelector("#main .next-page a[hx-get]");
  if (!more || more.dataset.asked) return;
  more.dataset.asked = "";
  more.click();
}

// Adds the viewer to the history. A link in it may load another page; on the way back, the browser then loads the page of the post
// instead of this one, and htmx reloads a page whose entry is marked as its own.
export function enter(path, address) {
  history.replaceState({ htmx: true }, "");
  history.pushState({ viewer: path }, "", address);
}

let hears = false;
// Takes over from the handler of htmx, which would load the page again.
export function onReturn(isOpen, shut, open) {
  if (hears) return;
  hears = true;
  const others = window.onpopstate;
  window.onpopstate = (event) => {
    const asked = event.state?.viewer;
    if (isOpen()) return shut();
    if (!asked) return others?.call(window, event);
    const link = postsIn(document.getElementById("main")).get(asked);
    if (link) open(link, false);
    else location.reload();
  };
}
