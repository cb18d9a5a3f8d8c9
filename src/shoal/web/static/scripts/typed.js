// Keeps the unsaved text of a form in this tab until the form is stored, and restores it when the form is opened again, also after a login.
import { say } from "./word.js";

// Without storage, because it is full or blocked, the form works without drafts.
function attempt(action) {
  try {
    return action();
  } catch {
    return null;
  }
}

export default function typed(form) {
  const { draft: key, stored } = form.dataset;
  const forget = () => attempt(() => sessionStorage.removeItem(key));
  form.addEventListener("htmx:beforeOnLoad", ({ detail: { xhr } }) => {
    // A stored feed redirects to its page, and a deleted one to the list. Other redirects ask for a login.
    const [to, ours, list] = [xhr.responseURL, form.action, stored].map((url) => new URL(url, location.href).pathname);
    if (xhr.status < 400 && to !== ours && (to === list || to.startsWith(`${list}/`))) forget();
  });
  const discard = form.querySelector("[data-discard]");
  if (!discard) return;
  const fields = [...form.elements].filter((one) => one.name && one.type !== "hidden" && one.tagName !== "BUTTON");
  const valueOf = (one) => (one.type === "checkbox" ? one.checked : one.value);
  const kept = attempt(() => new Map(JSON.parse(sessionStorage.getItem(key))));
  if (!kept) forget();
  const changed = fields.filter((one) => typeof kept?.get(one.name) === typeof valueOf(one) && kept.get(one.name) !== valueOf(one));
  // A refused or previewed form, and one that a login filled in, have the typed values. The draft changes with the first input.
  const filled = "typed" in form.dataset;
  if (changed.length && !filled) {
    for (const one of changed) {
      if (one.type === "checkbox") one.checked = kept.get(one.name);
      else one.value = kept.get(one.name);
    }
    say(form.dataset.kept);
  }
  discard.hidden = !kept?.size && !filled;
  form.addEventListener("input", () => {
    attempt(() => sessionStorage.setItem(key, JSON.stringify(fields.map((one) => [one.name, valueOf(one)]))));
    discard.hidden = false;
  });
  discard.addEventListener("click", () => {
    forget();
    location.assign(form.dataset.page);
  });
}
