// Stores the typed text in this browser until it is posted, and restores it when the form is opened again.
import { settle } from "./cards.js";
import { fetched } from "./sending.js";
import { say } from "./word.js";

const OURS = new Set(["form_token", "request", "reply_to", "instead_of", "files[]"]);
const PAUSE = 400;

const simple = (form) => [...form.elements].filter((one) => one.name && !OURS.has(one.name) && !one.name.startsWith("pictures[]") && one.type !== "submit" && one.tagName !== "BUTTON");
const value = (one) => (one.type === "checkbox" || one.type === "radio" ? one.checked : one.value);

function saved(form) {
  const fields = simple(form).map((one) => [one.name, one.type === "radio" ? one.value : "", value(one)]);
  const pictures = [...form.querySelectorAll(".picture")].map((card) =>
    Object.fromEntries([...card.querySelectorAll("[name^='pictures[]']")].map((one) => [one.name.slice(11, -1), value(one)])),
  );
  return { fields, pictures };
}

// Without the time zone, which a script fills in.
const typed = ({ fields, pictures }) => JSON.stringify([fields.filter(([name]) => name !== "zone"), pictures]);

async function restored(form, draft) {
  const list = form.querySelector("[data-pictures]");
  const waiting = [...simple(form)];
  for (const [name, option, said] of draft.fields) {
    const at = waiting.findIndex((one) => one.name === name && (one.type !== "radio" || one.value === option));
    if (at < 0) continue;
    const [one] = waiting.splice(at, 1);
    if (typeof said === "boolean") one.checked = said;
    else one.value = said;
  }
  list.replaceChildren();
  const cards = await Promise.all(draft.pictures.map((picture) => fetched(form, picture.id)));
  for (const [n, picture] of draft.pictures.entries()) {
    const card = cards[n];
    if (!card) continue;
    for (const [name, said] of Object.entries(picture)) {
      const field = card.querySelector(`[name="pictures[][${name}]"]`);
      if (field?.type === "checkbox") field.checked = said;
      else if (field) field.value = said;
    }
    list.append(card);
    htmx.process(card);
    document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: card } }));
  }
  settle(list);
  form.querySelector("#text").dispatchEvent(new Event("input", { bubbles: true }));
  say(cards.includes(null) ? form.dataset.gone : form.dataset.kept);
}

export default async function drafts(form) {
  const key = form.dataset.draft;
  const discard = form.querySelector("[data-discard]");
  if (!key) return;
  // A refused form is a draft too; one that a link or a share filled in replaces an older draft only once something is typed.
  const prefilled = location.href.match(/[?&](tag|text|recipients|files%5B%5D)=|\/share$/);
  const refused = !prefilled && form.querySelector(".error, .notice");
  const untouched = refused ? "" : typed(saved(form));
  const held = refused || prefilled ? null : localStorage.getItem(key);
  // A discarded draft can be restored until another is typed.
  const thrown = `${key}:discarded`;
  let gone = held ? null : localStorage.getItem(thrown);
  discard.hidden = !held && !gone;
  if (gone) discard.textContent = discard.dataset.restore;
  if (held) await restored(form, JSON.parse(held));
  let timer = 0, over = false;
  const end = () => (clearTimeout(timer), (over = true));
  const keep = () => {
    if (over) return;
    const now = saved(form);
    const empty = typed(now) === untouched;
    if (!empty) localStorage.removeItem(thrown), (gone = null);
    discard.hidden = empty && !gone;
    discard.textContent = discard.dataset[gone ? "restore" : "discard"];
    if (empty) return localStorage.removeItem(key);
    localStorage.setItem(key, JSON.stringify(now));
    // The form loaded again is the draft.
    if (prefilled) history.replaceState(history.state, "", new URL(form.action).pathname);
  };
  if (refused) keep();
  form.addEventListener("input", () => (clearTimeout(timer), (timer = setTimeout(keep, PAUSE))));
  document.addEventListener("forget-drafts", end);
  discard.addEventListener("click", () => {
    keep();
    end();
    const [from, to] = gone ? [thrown, key] : [key, thrown];
    localStorage.setItem(to, localStorage.getItem(from) ?? "");
    localStorage.removeItem(from);
    location.assign(location.href);
  });
  addEventListener("pagehide", () => form.isConnected && timer && keep());
  form.addEventListener("htmx:beforeOnLoad", (event) => {
    // A response from another URL than the form's: the post was created.
    if (new URL(event.detail.xhr.responseURL).pathname === new URL(form.action).pathname) return;
    end();
    localStorage.removeItem(key);
    document.querySelectorAll("#word-area .word").forEach((one) => one.remove());
  });
}
