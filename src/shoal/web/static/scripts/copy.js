// Copies a link to the clipboard and shows a message. If the browser refuses, a dialog shows the link, selected. The button is
// hidden without scripts.
import { say } from "./word.js";

export default function copy(button) {
  if (!navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      prompt(button.textContent.trim(), button.dataset.copy);
      return;
    }
    say(button.dataset.done);
  });
}
