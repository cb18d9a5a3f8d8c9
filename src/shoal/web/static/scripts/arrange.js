// Reorders photos of an album by dragging; the buttons of each photo do so without.
import { draggable } from "./drag.js";
import { token } from "./token.js";
import { say } from "./word.js";

export default function arrange(list) {
  for (const grip of list.querySelectorAll("[data-grip]")) grip.hidden = false;
  const done = async () => {
    const items = [...list.children];
    items.forEach((item, at) => {
      item.querySelector('[value^="earlier"]').disabled = at === 0;
      item.querySelector('[value^="later"]').disabled = at === items.length - 1;
    });
    const body = new URLSearchParams(items.map((item) => ["media[]", item.dataset.media]));
    const headers = { "X-Form-Token": token(), "HX-Request": "true" };
    const answer = await fetch(list.dataset.order, { method: "POST", body, headers }).catch(() => null);
    say(answer?.ok ? list.dataset.done : list.dataset.failed);
  };
  draggable(list, () => true, done);
}
