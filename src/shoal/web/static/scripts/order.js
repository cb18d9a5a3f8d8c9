// Cards are put in another order by their grip, with a mouse, a pen or a finger.
import { changed, settle } from "./compose.js";

export default function order(list) {
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
