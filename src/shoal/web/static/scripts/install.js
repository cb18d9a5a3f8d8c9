// Registers the service worker, and offers to install the app: by the browser's dialog, or by the steps on iOS.
const DONE = "shoal_install=offered";
const installed = matchMedia("(display-mode: standalone)");
let asked = null;

function offer(box) {
  const once = "once" in box.dataset, steps = navigator.standalone === false;
  box.hidden = installed.matches || !(asked || steps) || (once && box.hidden && document.cookie.includes(DONE));
  box.querySelector("button").hidden = !asked;
  box.querySelector("[data-steps]").hidden = !!asked || !steps;
  // A cookie, because logging out deletes everything else that pages store on the device.
  if (once && !box.hidden) document.cookie = `${DONE}; path=/; max-age=31536000; samesite=lax`;
}

function change(event) {
  asked = event;
  document.querySelectorAll("[data-behavior=install]").forEach(offer);
}

addEventListener("beforeinstallprompt", (event) => {
  event.preventDefault();
  change(event);
});
addEventListener("appinstalled", () => change(null));

export default function install(element) {
  if (element === document.body) return navigator.serviceWorker?.register(element.dataset.worker).catch(() => {});
  const [ask, dismiss] = element.querySelectorAll("button");
  ask.addEventListener("click", async () => {
    await asked.prompt();
    change(null);
  });
  dismiss?.addEventListener("click", () => element.remove());
  offer(element);
}
