// The window of the photo viewer: its buttons, keys and gestures.
import { look, zoomable } from "./zoom.js";

function button(name, icons, label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = name;
  made.setAttribute("aria-label", label);
  made.title = label;
  const sheet = document.getElementById("word-area").dataset.icons;
  made.innerHTML = icons.map((icon) => `<svg class="icon" aria-hidden="true"><use href="${sheet}#${icon}"/></svg>`).join("");
  made.addEventListener("click", act);
  return made;
}

const forward = () => (document.dir === "rtl" ? -1 : 1);

function pressed(event, dialog, shown, step) {
  if (event.key === "Escape") {
    // A menu closes before the viewer does.
    if (dialog.querySelector(".button-popover")) event.preventDefault();
    return;
  }
  if (event.target.closest("input, textarea, select, audio, video") || event.ctrlKey || event.metaKey || event.altKey) return;
  const acts = {
    ArrowLeft: () => step(-forward()),
    ArrowRight: () => step(forward()),
    "+": () => look(shown, 1.5),
    "=": () => look(shown, 1.5),
    "-": () => look(shown, 1 / 1.5),
    0: () => look(shown, 0),
    l: () => dialog.querySelector(".words .actions .like")?.click(),
    c: () => dialog.querySelector(".words textarea")?.focus(),
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
}

// Adds the window to the page. `step` goes to another post, and `leave` closes the window.
export function lightbox(step, leave) {
  const messages = document.getElementById("word-area");
  const [close, back, forth, zoom] = messages.dataset.viewerWords.split("|");
  const dialog = document.createElement("dialog");
  dialog.className = "viewer";
  const shown = document.createElement("div");
  shown.className = "shown";
  const count = document.createElement("p");
  count.className = "count";
  count.setAttribute("aria-live", "polite");
  dialog.append(
    button("close", ["x"], close, leave),
    count,
    button("step back", ["chevron-left"], back, () => step(-1)),
    button("step forth", ["chevron-right"], forth, () => step(1)),
    button("zoom", ["zoom-in", "zoom-out"], zoom, () => look(shown)),
    shown,
  );
  dialog.addEventListener("cancel", (event) => (event.preventDefault(), leave()));
  // Browsers may ignore that the second Esc in a row was prevented.
  dialog.addEventListener("close", () => dialog.isConnected && leave());
  dialog.addEventListener("keydown", (event) => pressed(event, dialog, shown, step));
  zoomable(shown, { step: (by) => step(by * forward()), leave });
  document.body.append(dialog);
  // A modal dialog covers messages outside of it.
  dialog.append(messages);
  return { dialog, shown };
}

// Shows which of all posts is open.
export function number(dialog, all, path) {
  const part = (selector) => dialog.querySelector(selector);
  const [at, total] = [all.indexOf(path), all.length];
  const text = total > 1 ? `${at + 1} / ${total}` : "";
  if (part(".count").textContent !== text) part(".count").textContent = text;
  part(".back").hidden = at < 1;
  part(".forth").hidden = at < 0 || at === total - 1;
  if (!dialog.contains(document.activeElement)) part(".stage").focus();
}
