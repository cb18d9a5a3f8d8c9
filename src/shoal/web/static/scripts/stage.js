// The content of the photo viewer: first the photo of the page, then the post from the server, and its large photos.
import { say } from "./word.js";

function framed(link) {
  const figure = document.createElement("figure");
  figure.className = [...link.classList].find((name) => /^r\d/.test(name)) ?? "";
  const small = link.querySelector("img");
  if (!small) return figure;
  const image = figure.appendChild(new Image());
  image.width = small.getAttribute("width");
  image.height = small.getAttribute("height");
  image.alt = small.alt;
  image.draggable = false;
  Object.assign(image.dataset, { preview: small.getAttribute("src"), srcset: small.srcset, original: link.dataset.original ?? "" });
  image.src = small.currentSrc || small.src;
  return figure;
}

// Shows a photo of the page; unless it is shown alone, the words next to it follow.
export function preview(shown, link, alone) {
  const stage = document.createElement("div");
  stage.className = "stage";
  stage.tabIndex = -1;
  stage.append(framed(link));
  const words = document.createElement("div");
  words.className = "words";
  words.setAttribute("aria-busy", "true");
  shown.replaceChildren(stage, ...(alone ? [] : [words]));
}

export function sharpen(shown) {
  for (const image of shown.querySelectorAll(".stage img")) {
    const large = new Image();
    large.sizes = `${image.clientWidth || innerWidth}px`;
    large.srcset = image.dataset.srcset;
    large.decode().then(() => image.isConnected && (image.src = large.currentSrc), () => {});
  }
}

// Shows the post at a path, unless the viewer has gone on by the time the server answers.
export async function fill(shown, path, isCurrent) {
  const answer = await fetch(path, { headers: { "HX-Request": "true" } }).catch(() => null);
  const html = answer?.status === 200 ? await answer.text() : "";
  if (!isCurrent()) return false;
  if (!html) {
    say(document.getElementById("word-area").dataset.lost);
    return false;
  }
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const image = shown.querySelector(".stage img");
  const same = image && [...holder.content.querySelectorAll(".stage img")].find((one) => one.getAttribute("src") === image.dataset.preview);
  if (same) {
    // The photo stays as it is, so that nothing flickers.
    Object.assign(image.dataset, same.dataset);
    same.closest("details.cover")?.setAttribute("open", "");
    same.replaceWith(image);
  }
  shown.replaceChildren(holder.content);
  htmx.process(shown);
  document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: shown } }));
  if (same && image.parentElement.previousElementSibling) image.scrollIntoView({ block: "center" });
  sharpen(shown);
  return true;
}

// The page below the viewer may contain the same posts, and an id occurs once in a document.
export function yieldIds(shown) {
  for (const one of shown?.querySelectorAll("article[id], form.actions[id]") ?? []) {
    one.dataset.id = one.id;
    one.removeAttribute("id");
  }
}

// Shows in the page what was changed in the viewer.
export function carry(shown) {
  const form = shown.querySelector(".words > .post form.actions");
  const old = form && document.querySelector(`#main form#${form.dataset.id}`);
  if (!old) return;
  const copy = form.cloneNode(true);
  copy.id = form.dataset.id;
  copy.classList.remove("htmx-request");
  old.replaceWith(copy);
  htmx.process(copy);
  document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: copy } }));
}
