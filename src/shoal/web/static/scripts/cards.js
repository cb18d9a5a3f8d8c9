// The cards of the pictures in a form: their order, and the buttons that depend on it.
export const changed = (form) => form.dispatchEvent(new Event("input", { bubbles: true }));

const FAR = 6;

export function settle(list) {
  const cards = [...list.querySelectorAll(".picture")];
  cards.forEach((card, n) => {
    card.querySelector('[data-move="-1"]').disabled = n === 0;
    card.querySelector('[data-move="1"]').disabled = n === cards.length - 1;
    for (const hidden of card.querySelectorAll("[data-crop], [data-replace], [data-grip]")) hidden.hidden = false;
  });
  list.closest(".files").classList.toggle("full", cards.length >= Number(list.closest("form").dataset.most));
}

export function move(list, card, by) {
  const cards = [...list.children];
  const to = cards[cards.indexOf(card) + by];
  if (!to) return;
  if (by < 0) to.before(card);
  else to.after(card);
  settle(list);
  changed(list.closest("form"));
}

// A finger drags a card by its handle, so that it can scroll the page elsewhere; a mouse drags a closed card anywhere.
function held(event) {
  const card = event.target.closest(".picture");
  if (!card || event.button || event.target.closest("button, summary")) return null;
  const anywhere = event.pointerType === "mouse" && !card.querySelector(".edit[open]");
  return anywhere || event.target.closest("[data-grip]") ? card : null;
}

// Reorders the cards by dragging them. The list holds the pointer, because a card loses it when it is moved.
export function order(list) {
  list.addEventListener("pointerdown", (event) => {
    const card = held(event);
    if (!card) return;
    event.preventDefault();
    const from = [event.clientX, event.clientY];
    let dragged = false;
    const over = (now) => {
      dragged ||= Math.hypot(now.clientX - from[0], now.clientY - from[1]) > FAR;
      if (!dragged) return;
      list.setPointerCapture(event.pointerId);
      card.classList.add("dragged");
      const other = document.elementFromPoint(now.clientX, now.clientY)?.closest(".picture");
      if (!other || other === card || other.parentElement !== list) return;
      if (card.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING) other.after(card);
      else other.before(card);
    };
    const listening = new AbortController();
    const end = () => {
      listening.abort();
      card.classList.remove("dragged");
      if (!dragged) return;
      // The click that follows a drag opens no card.
      const ignore = (click) => (click.preventDefault(), click.stopPropagation());
      list.addEventListener("click", ignore, { capture: true, once: true });
      setTimeout(() => list.removeEventListener("click", ignore, { capture: true }));
      settle(list);
      changed(list.closest("form"));
    };
    addEventListener("pointermove", over, listening);
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, end, listening);
  });
}
