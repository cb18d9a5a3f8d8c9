// Requests the browser's location on demand; a kilometer of precision suffices.
import { say } from "./word.js";

export default function whereami(button) {
  if (!navigator.geolocation) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    button.disabled = true;
    say(button.dataset.looking);
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => location.assign(`${button.dataset.to}?at=${coords.latitude.toFixed(2)},${coords.longitude.toFixed(2)}`),
      () => {
        button.disabled = false;
        say(button.dataset.failed);
        document.getElementById("at")?.focus();
      },
      { maximumAge: 600000, timeout: 15000 },
    );
  });
}
