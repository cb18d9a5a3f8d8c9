// Opens a picture's fields by a click, then sets its focal point by one; equivalent to the sliders.
export default function focus(card) {
  const [across, down] = ["across", "down"].map((name) => card.querySelector(`[name="pictures[][${name}]"]`));
  const [editor, details] = [".edit", ".focal"].map((name) => card.querySelector(name));
  const point = document.createElement("span");
  point.className = "point";
  const frame = () => card.querySelector("[data-focus]");
  const show = () => {
    const box = frame();
    if (!box) return;
    if (details.open) box.append(point);
    else point.remove();
    point.style.left = `${across.value}%`;
    point.style.top = `${down.value}%`;
    const image = box.querySelector("img");
    if (editor.open) image.sizes = "340px";
    // The tile of the closed card is cropped like a thumbnail.
    image.style.objectPosition = `${across.value}% ${down.value}%`;
  };
  card.addEventListener("click", (event) => {
    const box = frame();
    if (!box?.contains(event.target)) return;
    if (!editor.open) return void (editor.open = true);
    const at = box.getBoundingClientRect();
    details.open = true;
    across.value = Math.round((100 * (event.clientX - at.left)) / at.width);
    down.value = Math.round((100 * (event.clientY - at.top)) / at.height);
    across.dispatchEvent(new Event("input", { bubbles: true }));
  });
  for (const one of [across, down]) one.addEventListener("input", show);
  details.addEventListener("toggle", show);
  editor.addEventListener("toggle", show);
  card.addEventListener("htmx:load", show);
  show();
}
