// Full-window photo viewer: arrow keys, swipe, zoom by click or pinch, the photo's text below it. Esc and Back close it.
let dialog, shown, photos, place;

function built() {
  dialog = document.createElement("dialog");
  dialog.className = "viewer";
  dialog.innerHTML = `<button class="close" value="close"></button><button class="step back"></button>
    <figure><img alt=""><figcaption></figcaption></figure><button class="step forth"></button><p class="count" aria-live="polite"></p>`;
  document.body.append(dialog);
  shown = dialog.querySelector("img");
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.querySelector(".back").addEventListener("click", () => step(-1));
  dialog.querySelector(".forth").addEventListener("click", () => step(1));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => photos[place]?.focus());
  dialog.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key in steps) step(document.dir === "rtl" ? -steps[event.key] : steps[event.key]);
    if (event.key === "+" || event.key === "-" || event.key === " ") zoom(event);
  });
  shown.addEventListener("click", zoom);
  let from = null;
  shown.addEventListener("pointerdown", (event) => (from = event.isPrimary ? event.clientX : null));
  shown.addEventListener("pointerup", (event) => {
    if (from === null || dialog.classList.contains("zoomed")) return;
    const moved = event.clientX - from;
    if (Math.abs(moved) > 60) step(moved < 0 ? 1 : -1);
  });
}

function zoom(event) {
  event.preventDefault();
  dialog.classList.toggle("zoomed");
}

function step(by) {
  const next = place + by;
  if (next >= 0 && next < photos.length) show(next);
}

function show(next) {
  place = next;
  const link = photos[place];
  const small = link.querySelector("img");
  dialog.classList.remove("zoomed");
  shown.src = small.currentSrc;
  shown.width = small.width;
  shown.height = small.height;
  shown.alt = small.alt;
  dialog.querySelector("figcaption").textContent = link.parentElement.querySelector(".described p")?.textContent ?? "";
  dialog.querySelector(".count").textContent = photos.length > 1 ? `${place + 1} / ${photos.length}` : "";
  dialog.querySelector(".back").hidden = place === 0;
  dialog.querySelector(".forth").hidden = place === photos.length - 1;
  const large = new Image();
  large.src = link.dataset.original || link.dataset.large;
  large.decode().then(() => photos[place] === link && (shown.src = large.src), () => {});
}

export default function viewer(group) {
  group.addEventListener("click", (event) => {
    const link = event.target.closest("a.photo");
    if (!link?.querySelector("img") || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (!dialog) built();
    const words = document.querySelector("[data-viewer-words]")?.dataset.viewerWords.split("|") ?? ["Close", "Previous", "Next"];
    for (const [n, button] of [".close", ".back", ".forth"].entries()) dialog.querySelector(button).setAttribute("aria-label", words[n]);
    photos = [...group.querySelectorAll("a.photo")];
    show(photos.indexOf(link));
    dialog.showModal();
  });
}
