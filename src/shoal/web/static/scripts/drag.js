// Reorders the items of a list by dragging them: a mouse anywhere, a finger by a handle, so that it can scroll the page elsewhere.
const FAR = 6;

// `isHeld` tells whether a mouse may drag an item, and `done` runs after a drag. The list holds the pointer, because an item loses it
// when it is moved.
export function draggable(list, isHeld, done) {
  list.addEventListener("pointerdown", (event) => {
    const item = [...list.children].find((one) => one.contains(event.target));
    if (!item || event.button || event.target.closest("button, summary")) return;
    if (!event.target.closest("[data-grip]") && !(event.pointerType === "mouse" && isHeld(item))) return;
    event.preventDefault();
    const from = [event.clientX, event.clientY];
    let dragged = false;
    const over = (now) => {
      dragged ||= Math.hypot(now.clientX - from[0], now.clientY - from[1]) > FAR;
      if (!dragged) return;
      list.setPointerCapture(event.pointerId);
      item.classList.add("dragged");
      const at = document.elementFromPoint(now.clientX, now.clientY);
      const other = [...list.children].find((one) => one !== item && one.contains(at));
      if (!other) return;
      if (item.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING) other.after(item);
      else other.before(item);
    };
    const listening = new AbortController();
    const end = () => {
      listening.abort();
      item.classList.remove("dragged");
      if (!dragged) return;
      // The click that follows a drag opens nothing.
      const ignore = (click) => (click.preventDefault(), click.stopPropagation());
      list.addEventListener("click", ignore, { capture: true, once: true });
      // A busy browser runs the timeout after the next click.
      const forget = () => list.removeEventListener("click", ignore, { capture: true });
      setTimeout(forget);
      addEventListener("pointerdown", forget, { capture: true, once: true });
      done();
    };
    addEventListener("pointermove", over, listening);
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, end, listening);
  });
}
