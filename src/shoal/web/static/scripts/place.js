// A world map drawn locally: a click sets the place, the wheel and buttons zoom, and dragging moves it.
import { say } from "./word.js";

const WHOLE = { x: -18000, y: -9000, width: 36000 };
// The width of the smallest map, and of the map of a town, in hundredths of a degree.
const [NEAREST, REGION] = [200, 1200];

export default function place(details) {
  const map = details.querySelector("[data-world]");
  const [svg, here] = ["svg", ".here"].map((one) => map.querySelector(one));
  // The text is the name of a town, or the coordinates themselves if the server knows no town there.
  const [text, coordinates] = ["place", "coordinates"].map((name) => details.querySelector(`#${name}`));
  const view = { ...WHOLE };
  // The place in the units of the map.
  const pin = () => {
    const [lat, lon] = coordinates.value.split(",").map(parseFloat);
    return Number.isFinite(lat) && Number.isFinite(lon) ? [100 * lon, -100 * lat] : null;
  };
  const show = () => {
    view.width = Math.min(WHOLE.width, Math.max(NEAREST, view.width));
    view.x = Math.min(18000 - view.width, Math.max(-18000, view.x));
    view.y = Math.min(9000 - view.width / 2, Math.max(-9000, view.y));
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.width / 2}`);
    here.toggleAttribute("hidden", !pin());
    here.setAttribute("transform", `translate(${pin() ?? "0,0"})`);
    here.firstElementChild.setAttribute("r", view.width / 90);
  };
  const center = () => {
    if (pin()) Object.assign(view, { x: pin()[0] - REGION / 2, y: pin()[1] - REGION / 4, width: REGION });
    show();
  };
  const zoom = (by, x = view.x + view.width / 2, y = view.y + view.width / 4) => {
    const width = Math.min(WHOLE.width, Math.max(NEAREST, view.width / by));
    const ratio = width / view.width;
    Object.assign(view, { x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio, width });
    show();
  };
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    return [view.x + ((event.clientX - box.left) / box.width) * view.width, view.y + ((event.clientY - box.top) / box.height) * (view.width / 2)];
  };
  // Stores the draft. The event is not one of the field, so that nothing is suggested.
  const keep = () => details.dispatchEvent(new Event("input", { bubbles: true }));
  const set = async (lat, lon) => {
    const chosen = lat === "" ? "" : `${lat}, ${lon}`;
    text.value = coordinates.value = chosen;
    show();
    if (chosen && text.dataset.offers) {
      const answer = await fetch(`${text.dataset.offers}?q=${encodeURIComponent(chosen)}`, { headers: { "HX-Request": "true" } }).catch(() => null);
      const offers = document.createElement("template");
      if (answer?.ok) offers.innerHTML = await answer.text();
      const town = offers.content.querySelector("[data-typed]");
      if (town && coordinates.value === chosen) text.value = town.dataset.typed;
    }
    keep();
  };
  let from = null;
  svg.addEventListener("pointerdown", (event) => {
    from = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false };
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    const scale = view.width / svg.getBoundingClientRect().width;
    const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
    from.moved ||= Math.hypot(dx, dy) > 5;
    if (from.moved) Object.assign(view, { x: from.view.x - dx * scale, y: from.view.y - dy * scale }), show();
  });
  svg.addEventListener("pointerup", (event) => {
    if (from && !from.moved) {
      const [x, y] = at(event);
      const digits = view.width > 9000 ? 1 : view.width > 1500 ? 2 : 3;
      set((-y / 100).toFixed(digits), (x / 100).toFixed(digits));
    }
    from = null;
  });
  svg.addEventListener("wheel", (event) => (event.preventDefault(), zoom(event.deltaY < 0 ? 1.25 : 0.8, ...at(event))), { passive: false });
  for (const button of map.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(Number(button.dataset.zoom), ...(pin() ?? [])));
  }
  const locate = map.querySelector("[data-locate]");
  locate.addEventListener("click", () =>
    navigator.geolocation.getCurrentPosition(({ coords }) => set(coords.latitude.toFixed(4), coords.longitude.toFixed(4)), () => say(locate.dataset.denied)),
  );
  map.querySelector("[data-clear]").addEventListener("click", () => set("", ""));
  const typed = () => {
    coordinates.value = /^[\s\d.,;+-]+$/.test(text.value) ? text.value : (text.dataset.at ?? "");
    center();
  };
  text.addEventListener("input", () => (delete text.dataset.at, typed()));
  text.addEventListener("change", () => (typed(), keep()));
  const open = () => {
    const land = map.querySelector("[data-land]");
    if (details.open && !land.hasAttribute("href")) land.setAttribute("href", land.dataset.land);
    center();
  };
  details.addEventListener("toggle", open);
  map.hidden = false;
  open();
}
