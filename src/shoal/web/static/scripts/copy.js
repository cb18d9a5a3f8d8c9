// A link goes to the clipboard, and a word says so. Without scripts the button is not there.
import { say } from "./word.js";

export default function copy(button) {
  if (!navigator.clipboard) return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    say(button.dataset.done);
  });
}
