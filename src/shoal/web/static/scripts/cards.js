// The cards of the pictures in a form: their order, and the buttons that depend on it.
export const changed = (form) => form.dispatchEvent(new Event("input", { bubbles: true }));

export function settle(list) {
  const cards = [...list.children].filter((card) => card.dataset.picture);
  cards.forEach((card, n) => {
    card.querySelector('[data-move="-1"]').disabled = n === 0;
    card.querySelector('[data-move="1"]').disabled = n === cards.length - 1;
    for (const hidden of card.querySelectorAll("[data-crop], [data-replace], [data-grip]")) hidden.hidden = false;
  });
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

// Reorders the cards by their drag handles.
export function order(list) {
  list.addEventListener("pointerdown", (event) => {
    const grip = event.target.closest("[data-grip]");
    const card = grip?.closest(".picture");
    if (!card) return;
    event.preventDefault();
    grip.setPointerCapture(event.pointerId);
    card.classList.add("dragged");
    const over = (moved) => {
      const other = document.elementFromPoint(moved.clientX, moved.clientY)?.closest(".picture");
      if (!other || other === card || other.parentElement !== list) return;
      const box = other.getBoundingClientRect();
      if (moved.clientY < box.top + box.height / 2) other.before(card);
      else other.after(card);
    };
    const end = () => {
      grip.removeEventListener("pointermove", over);
      card.classList.remove("dragged");
      settle(list);
      changed(list.closest("form"));
    };
    grip.addEventListener("pointermove", over);
    grip.addEventListener("lostpointercapture", end, { once: true });
  });
}
