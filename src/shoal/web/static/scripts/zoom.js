// Zoom of the photos in the viewer by double tap, pinch and keys, and swipes to the next post.
const MOST = 6;
const DOUBLE = 2.5;
const TAP_MS = 350;
const FAR = 50;
const states = new WeakMap();
const state = (image) => states.get(image) ?? states.set(image, { scale: 1, x: 0, y: 0 }).get(image);

function move(image, { scale, x, y }) {
  const frame = image.parentElement;
  const bound = (value, size, room) => Math.max(-Math.max(0, (size * scale - room) / 2), Math.min(Math.max(0, (size * scale - room) / 2), value));
  scale = Math.max(1, Math.min(MOST, scale));
  const now = { scale, x: bound(x, image.offsetWidth, frame.clientWidth), y: bound(y, image.offsetHeight, frame.clientHeight) };
  states.set(image, now);
  image.style.transform = scale > 1 ? `translate(${now.x}px, ${now.y}px) scale(${scale})` : "";
  frame.classList.toggle("zoomed", scale > 1);
  image.closest("dialog")?.querySelector(".zoom")?.setAttribute("aria-pressed", scale > 1);
  if (scale > 1 && image.dataset.original) {
    const original = new Image();
    original.src = image.dataset.original;
    image.dataset.original = "";
    original.decode().then(() => image.isConnected && (image.src = original.src), () => {});
  }
}

// Changes the scale by a factor, so that a point of the window stays where it is.
function zoom(image, factor, point) {
  const now = state(image);
  const scale = Math.max(1, Math.min(MOST, now.scale * factor));
  const box = image.parentElement.getBoundingClientRect();
  const [px, py] = point ? [point.x - box.left - box.width / 2, point.y - box.top - box.height / 2] : [0, 0];
  const by = scale / now.scale;
  move(image, { scale, x: px - (px - now.x) * by, y: py - (py - now.y) * by });
}

const toggle = (image, point) => (state(image).scale > 1 ? move(image, { scale: 1, x: 0, y: 0 }) : zoom(image, DOUBLE, point));

// Zooms the photo in the middle of the viewer by a factor; 0 resets the zoom, and no factor switches it on or off.
export function look(shown, factor) {
  const middle = innerHeight / 2;
  const distance = (image) => Math.abs((image.getBoundingClientRect().top + image.getBoundingClientRect().bottom) / 2 - middle);
  const [image] = [...shown.querySelectorAll(".stage img")].filter((one) => one.checkVisibility()).sort((one, other) => distance(one) - distance(other));
  if (!image) return;
  if (factor === undefined) toggle(image);
  else zoom(image, factor);
}

export function zoomable(shown, { step, leave }) {
  const points = new Map();
  let image, start, apart, tapped = 0, moved = false;
  const at = (event) => ({ x: event.clientX, y: event.clientY });
  const spread = () => {
    const [one, other] = [...points.values()];
    return { length: Math.hypot(one.x - other.x, one.y - other.y), x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 };
  };
  const end = () => {
    points.clear();
    start = apart = null;
    shown.querySelector(".stage")?.style.removeProperty("translate");
  };
  shown.addEventListener("pointerdown", (event) => {
    const frame = event.target.closest(".stage figure");
    if (!frame || event.button || event.target.closest("video, audio, .described")) return;
    image = frame.querySelector("img");
    points.set(event.pointerId, at(event));
    if (points.size === 1) (start = at(event)), (moved = false);
    if (points.size === 2 && image) apart = spread();
    frame.setPointerCapture(event.pointerId);
  });
  shown.addEventListener("pointermove", (event) => {
    const last = points.get(event.pointerId);
    if (!last) return;
    points.set(event.pointerId, at(event));
    if (Math.hypot(event.clientX - start.x, event.clientY - start.y) > 10) moved = true;
    if (apart && points.size === 2) {
      const now = spread();
      zoom(image, now.length / apart.length, now);
      apart = now;
    } else if (image && state(image).scale > 1) {
      const { scale, x, y } = state(image);
      move(image, { scale, x: x + event.clientX - last.x, y: y + event.clientY - last.y });
    } else if (moved && !apart) shown.querySelector(".stage").style.translate = `${event.clientX - start.x}px 0`;
  });
  shown.addEventListener("pointerup", (event) => {
    if (!points.has(event.pointerId)) return;
    const [across, down] = [event.clientX - start.x, event.clientY - start.y];
    const alone = points.size === 1 && !apart;
    points.delete(event.pointerId);
    if (points.size) return;
    end();
    if (!alone) return;
    if (!moved) {
      const again = event.timeStamp - tapped < TAP_MS;
      tapped = again ? 0 : event.timeStamp;
      if (again && image) toggle(image, at(event));
    } else if (!(image && state(image).scale > 1) && Math.abs(across) > FAR && Math.abs(across) > 1.5 * Math.abs(down)) step(across < 0 ? 1 : -1);
  });
  shown.addEventListener("pointercancel", end);
  shown.addEventListener("click", (event) => event.target.matches(".stage") && leave());
}
