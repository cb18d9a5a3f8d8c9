// The cards of the pictures in a form: their order, and the buttons that depend on it.
import { draggable } from "./drag.js";

export const changed = (form) => form.dispatchEvent(new Event("input", { bubbles: true }));

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

// A mouse drags a card that is closed.
export function order(list) {
  draggable(list, (card) => card.matches(".picture") && !card.querySelector(".edit[open]"), () => (settle(list), changed(list.closest("form"))));
}
