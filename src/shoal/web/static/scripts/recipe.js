// Sliders of a recipe show their value while they move, and posts of the preview move to their new positions.
const NUMBERS = new Intl.NumberFormat(document.documentElement.lang);
const MILLISECONDS = 180;

function say(input) {
  const output = document.querySelector(`output[for="${input.id}"]`);
  if (!output) return;
  const percent = output.dataset.unit === "%";
  output.textContent = NUMBERS.format(percent ? Math.round(input.value * 100) : input.value).replace("-", "\u2212") + (percent ? " %" : "");
  output.classList.toggle("below", input.value < 0);
}

function places(list) {
  return new Map([...list.querySelectorAll("li[id]")].map((card) => [card.id, card.getBoundingClientRect()]));
}

function glide(list, before) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches || document.documentElement.classList.contains("look-still")) return;
  for (const card of list.querySelectorAll("li[id]")) {
    const was = before.get(card.id);
    const is = card.getBoundingClientRect();
    if (!was) card.animate([{ opacity: 0 }, { opacity: 1 }], MILLISECONDS);
    else if (was.top !== is.top || was.left !== is.left)
      card.animate([{ transform: `translate(${was.left - is.left}px, ${was.top - is.top}px)` }, { transform: "none" }], { duration: MILLISECONDS, easing: "ease-out" });
  }
}

export default function recipe(page) {
  const list = page.querySelector("#preview");
  let before = new Map();
  page.addEventListener("input", (event) => say(event.target));
  list.addEventListener("htmx:beforeSwap", () => (before = places(list)));
  list.addEventListener("htmx:afterSwap", () => glide(list, before));
}
