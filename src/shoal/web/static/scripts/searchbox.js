// Suggests members and tags, or towns, in a text field: arrow keys select, Enter opens or takes, Escape closes.
const WAIT = 180;
let number = 0;

export default function searchbox(box) {
  const list = document.createElement("div");
  list.className = "offers";
  list.id = `offers-${++number}`;
  list.dataset.made = "";
  list.setAttribute("role", "listbox");
  list.hidden = true;
  box.after(list);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list" })) box.setAttribute(name, value);
  box.autocomplete = "off";
  let timer = 0;
  let asked = "";
  let chosen = -1;

  const options = () => [...list.querySelectorAll("[role=option]")];
  const close = () => {
    list.hidden = true;
    chosen = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const choose = (at) => {
    const all = options();
    chosen = (at + all.length) % all.length;
    all.forEach((option, n) => option.setAttribute("aria-selected", n === chosen));
    all[chosen].id ||= `${list.id}-${chosen}`;
    box.setAttribute("aria-activedescendant", all[chosen].id);
    all[chosen].scrollIntoView({ block: "nearest" });
  };
  const open = (option) => {
    if (!option.dataset.typed) return option.click();
    box.value = option.dataset.typed;
    box.dataset.at = option.dataset.at ?? "";
    close();
    box.dispatchEvent(new Event("change", { bubbles: true }));
    box.focus();
  };
  const ask = async () => {
    const text = box.value.trim();
    if (!text) return close();
    if (text === asked && !list.hidden) return;
    asked = text;
    const answer = await fetch(`${box.dataset.offers}${box.dataset.offers.includes("?") ? "&" : "?"}q=${encodeURIComponent(box.value)}`, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!answer?.ok || box.value.trim() !== text || document.activeElement !== box) return;
    list.innerHTML = await answer.text();
    htmx.process(list);
    chosen = -1;
    list.hidden = options().length === 0;
    box.setAttribute("aria-expanded", String(!list.hidden));
  };

  box.addEventListener("input", () => (clearTimeout(timer), (timer = setTimeout(ask, WAIT))));
  box.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      choose(chosen < 0 && event.key === "ArrowUp" ? -1 : chosen + steps[event.key]);
    } else if (event.key === "Enter" && chosen >= 0) {
      event.preventDefault();
      open(options()[chosen]);
    } else if (event.key === "Escape") {
      event.preventDefault();
      close();
    }
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[data-typed]");
    if (option) {
      event.preventDefault();
      event.stopPropagation();
      open(option);
    } else close();
  });
  box.addEventListener("blur", close);
}
