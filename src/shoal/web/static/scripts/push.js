// Notifications while the page is closed: a subscription at the browser's push service, registered at the server.
import { say } from "./word.js";
import { token } from "./token.js";

export default async function push(box) {
  if (!("PushManager" in window) || !("serviceWorker" in navigator)) return;
  const registration = await navigator.serviceWorker.ready;
  const [begin, end] = box.querySelectorAll("button");
  const show = (is) => ((begin.hidden = is), (end.hidden = !is), (box.hidden = false));
  const tell = (fields) =>
    fetch(box.dataset.to, { method: "POST", headers: { "X-Form-Token": token() }, body: new URLSearchParams(fields) });
  begin.addEventListener("click", async () => {
    try {
      if ((await Notification.requestPermission()) !== "granted") return say(box.dataset.denied);
      const options = { userVisibleOnly: true, applicationServerKey: box.dataset.key };
      const { endpoint, keys } = (await registration.pushManager.subscribe(options)).toJSON();
      if (!(await tell({ do: "begin", endpoint, ...keys })).ok) throw new Error("refused");
      show(true);
    } catch {
      say(box.dataset.failed);
    }
  });
  end.addEventListener("click", async () => {
    await (await registration.pushManager.getSubscription())?.unsubscribe();
    await tell({ do: "end" });
    show(false);
  });
  show(box.dataset.on === "yes" && (await registration.pushManager.getSubscription()) !== null);
}
