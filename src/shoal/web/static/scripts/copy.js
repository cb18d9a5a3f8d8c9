// Copies a link to the clipboard and shows a message. The button is hidden without scripts.
import { say } from "./word.js";

export default function copy(button) {
  if (!navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    say(button.dataset.done);
  });
}
