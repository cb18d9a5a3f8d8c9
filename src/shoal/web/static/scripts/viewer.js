// Full-window viewer: the posts of a grid or feed one after the other, with their author, buttons and comments; on the page of a
// post, its photos one after the other. Arrow keys and swipes go to the next one; Esc and Back return to the page.
import { glide, mark } from "./glide.js";
import { lightbox, number } from "./lightbox.js";
import { ALONE, enter, loadMore, onReturn, pathIn, postsIn } from "./series.js";
import { carry, fill, preview, sharpen, yieldIds } from "./stage.js";
import { look } from "./zoom.js";

let dialog, shown, root, opened, leaving;
// The post in the viewer; empty while it is closed.
let path = "", ready = Promise.resolve();
const part = (selector) => dialog.querySelector(selector);
// The page itself shows the rest of these posts, so the viewer shows only their photos.
const isAlone = () => root.matches(ALONE);
const posts = () => postsIn(root);

function numbered() {
  yieldIds(shown);
  if (dialog?.open) number(dialog, [...posts().keys()], path);
}

async function show(link) {
  const asked = path;
  preview(shown, link, isAlone());
  numbered();
  await ready;
  if (isAlone()) return sharpen(shown);
  if (!(await fill(shown, asked, () => asked === path && dialog.open))) return;
  document.title = part(".stage").dataset.title;
  dialog.setAttribute("aria-label", part("article").getAttribute("aria-label"));
  numbered();
}

function step(by) {
  const all = [...posts()];
  const at = all.findIndex(([one]) => one === path);
  if (at < 0 || !all[at + by]) return;
  carry(shown);
  look(shown, 0);
  const [next, link] = all[at + by];
  path = next;
  history.replaceState({ viewer: path }, "", isAlone() ? location.href : path);
  show(link);
  if (at + by > all.length - 4) loadMore();
}

function open(link, push) {
  onReturn(() => path, shut, open);
  leaving = false;
  root = (!link.closest(".photo-rows") && link.closest(`${ALONE}, .feed`)) || document.getElementById("main");
  path = pathIn(root, link);
  opened = { path, title: document.title };
  if (push) enter(path, isAlone() ? location.href : path);
  mark(link.querySelector("img"));
  ready = glide(() => {
    ({ dialog, shown } = lightbox(step, leave));
    dialog.classList.toggle("alone", isAlone());
    dialog.showModal();
    show(link);
    part(".stage").focus();
    mark(part(".stage img"));
  }).updateCallbackDone;
}

function leave() {
  if (path && !leaving) history.back();
  leaving = true;
}

async function shut() {
  await ready;
  const [link, far] = [posts().get(path), path !== opened.path];
  carry(shown);
  look(shown, 0);
  mark(part(".stage img"));
  path = "";
  document.title = opened.title;
  const moved = glide(() => {
    dialog.before(document.getElementById("word-area"));
    dialog.close();
    dialog.remove();
    link?.focus({ preventScroll: true });
    if (far) link?.scrollIntoView({ block: "nearest" });
    mark(link?.querySelector("img"));
  });
  moved.finished.finally(() => mark(null));
}
document.addEventListener("htmx:load", numbered);

export default function viewer(group) {
  const click = (event) => {
    const link = event.target.closest("a.photo");
    if (!link || path || event.metaKey || event.ctrlKey || event.shiftKey) return;
    // Before htmx, which would load the page of the post.
    event.preventDefault();
    event.stopPropagation();
    open(link, true);
  };
  group.addEventListener("click", click, true);
}
