// Crops and rotates a picture before the upload: removed parts never leave the browser.
import { drawn, moved, ratioed, resized, turned } from "./cropping.js";
import { say } from "./word.js";

const dialog = () => document.querySelector("[data-cropper]");
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const SHOWN = 1200;
let picture, turns, part, ratio, most, done;

async function loaded(source) {
  const blob = typeof source === "string" ? await (await fetch(source)).blob() : source;
  return { bitmap: await createImageBitmap(blob), type: blob.type === "image/png" ? "image/png" : "image/jpeg", name: source.name ?? "picture" };
}

const size = () => turned(picture.bitmap, turns);

function shown() {
  const frame = dialog().querySelector(".window");
  for (const [name, value] of [["left", part.x], ["top", part.y], ["width", part.w], ["height", part.h]]) frame.style[name] = `${100 * value}%`;
}

function redrawn() {
  const [width, height] = size();
  drawn(dialog().querySelector("canvas"), picture.bitmap, turns, Math.min(1, SHOWN / Math.max(width, height)));
  part = ratioed({ x: 0, y: 0, w: 1, h: 1 }, ratio, width / height);
  shown();
}

function built() {
  const box = dialog();
  if (box.ready) return;
  box.ready = true;
  const frame = box.querySelector(".window");
  frame.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    const [dx, dy] = KEYS[event.key].map((one) => one * 0.02);
    const [width, height] = size();
    part = event.shiftKey ? resized(part, "se", dx, dy, ratio, width / height) : moved(part, dx, dy);
    shown();
  });
  frame.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    frame.focus();
    frame.setPointerCapture(event.pointerId);
    const { corner } = event.target.dataset;
    const stage = box.querySelector("canvas").getBoundingClientRect();
    const [width, height] = size();
    const before = part, [x, y] = [event.clientX, event.clientY];
    frame.onpointermove = (now) => {
      const [dx, dy] = [(now.clientX - x) / stage.width, (now.clientY - y) / stage.height];
      part = corner ? resized(before, corner, dx, dy, ratio, width / height) : moved(before, dx, dy);
      shown();
    };
    frame.onlostpointercapture = () => (frame.onpointermove = null);
  });
  box.addEventListener("click", (event) => {
    const { ratio: wanted, turn } = event.target.closest("button")?.dataset ?? {};
    if (wanted !== undefined) {
      ratio = Number(wanted);
      for (const chip of box.querySelectorAll("[data-ratio]")) chip.setAttribute("aria-pressed", chip.dataset.ratio === wanted);
      redrawn();
    } else if (turn) {
      turns = (turns + Number(turn) + 4) % 4;
      redrawn();
    } else if (event.target.closest("[data-close]")) box.close();
    else if (event.target.closest("[data-apply]")) {
      const canvas = document.createElement("canvas");
      drawn(canvas, picture.bitmap, turns, Math.min(1, most / (size()[0] * part.w)), part);
      canvas.toBlob((blob) => (done(blob ? new File([blob], picture.name, { type: picture.type }) : null), box.close()), picture.type, 0.92);
    }
  });
  box.addEventListener("close", () => done(null));
}

// Resolves to the cropped file, or null if unchanged. `fixed`: a fixed aspect ratio; `widest`: maximum width in pixels.
export async function crop(source, fixed = 0, widest = Infinity) {
  built();
  try {
    picture = await loaded(source);
  } catch {
    say(dialog().querySelector("[data-apply]").dataset.failed);
    return null;
  }
  most = widest;
  [turns, ratio] = [0, fixed || Number(dialog().querySelector('[data-ratio][aria-pressed="true"]').dataset.ratio)];
  dialog().querySelector(".chips").hidden = fixed > 0;
  dialog().showModal();
  redrawn();
  dialog().querySelector(".window").focus();
  return new Promise((resolve) => (done = resolve));
}
