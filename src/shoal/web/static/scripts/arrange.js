// Reorders photos of an album by drag and drop; the buttons of each photo do so without a mouse.
import { token } from "./token.js";
import { say } from "./word.js";

export default function arrange(list) {
  let held = null;
  for (const item of list.children) item.draggable = true;
  list.addEventListener("dragstart", (event) => {
    held = event.target.closest("li");
    held?.classList.add("held");
    event.dataTransfer.effectAllowed = "move";
  });
  list.addEventListener("dragover", (event) => {
    const over = event.target.closest("li");
    if (!held || !over || over === held) return;
    event.preventDefault();
    const box = over.getBoundingClientRect();
    const past = event.clientX > box.left + box.width / 2;
    over[past !== (document.dir === "rtl") ? "after" : "before"](held);
  });
  list.addEventListener("drop", (event) => event.preventDefault());
  list.addEventListener("dragend", async () => {
    if (!held) return;
    held.classList.remove("held");
    held = null;
    const items = [...list.children];
    items.forEach((item, at) => {
      item.querySelector('[value^="earlier"]').disabled = at === 0;
      item.querySelector('[value^="later"]').disabled = at === items.length - 1;
    });
    const body = new URLSearchParams(items.map((item) => ["media[]", item.dataset.media]));
    const headers = { "X-Form-Token": token(), "HX-Request": "true" };
    const answer = await fetch(list.dataset.order, { method: "POST", body, headers }).catch(() => null);
    say(answer?.ok ? list.dataset.done : list.dataset.failed);
  });
}
