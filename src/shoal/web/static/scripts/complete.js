// Completes tags and names: arrow keys select, Enter or Tab accepts, Esc closes.
const WORD = /(^|[^\p{L}\p{N}_@#/])([@#][\p{L}\p{N}\p{M}_]{1,60})$/u;
const PAUSE = 150;

export default function complete(field) {
  const address = field.form.dataset.words;
  const holder = field.parentElement;
  holder.classList.add("suggested");
  const list = document.createElement("ul");
  list.className = "suggestions";
  list.id = `${field.id}-words`;
  list.dataset.made = "";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", field.placeholder);
  list.hidden = true;
  field.after(list);
  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-controls", list.id);
  let timer = 0, asked = "", chosen = -1;

  const close = () => {
    list.hidden = true;
    chosen = -1;
    field.removeAttribute("aria-activedescendant");
  };
  // In a list of names, words need no sign.
  const { sign = "" } = field.dataset;
  const bare = /(^|[\s,])([\p{L}\p{N}_]{1,60})$/u;
  const before = () => field.value.slice(0, field.selectionStart);
  const word = () => before().match(WORD)?.[2] ?? (sign && before().match(bare)?.[2]) ?? "";
  const choose = (n) => {
    const items = [...list.children];
    chosen = (n + items.length) % items.length;
    items.forEach((item, at) => item.setAttribute("aria-selected", at === chosen));
    items[chosen].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", items[chosen].id);
  };
  const take = (item) => {
    const end = field.selectionStart;
    field.setRangeText(`${item.dataset.word} `, end - word().length, end, "end");
    close();
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.focus();
  };
  const ask = async () => {
    const now = (asked = word());
    if (!now) return close();
    const asks = sign && !now.startsWith(sign) ? sign + now : now;
    const answer = await fetch(`${address}?q=${encodeURIComponent(asks)}`, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!answer?.ok || asked !== now || document.activeElement !== field) return;
    list.innerHTML = await answer.text();
    list.querySelectorAll("li").forEach((item, n) => (item.id = `${list.id}-${n}`));
    // A complete word needs no suggestions, which would cover the elements below the field.
    if (!list.children.length || (list.children.length === 1 && list.firstElementChild.dataset.word === asks)) return close();
    list.hidden = false;
    choose(0);
  };
  close();
  field.addEventListener("input", () => (clearTimeout(timer), (timer = setTimeout(ask, PAUSE))));
  field.addEventListener("blur", () => setTimeout(close, 100));
  field.addEventListener("keydown", (event) => {
    if (list.hidden || event.isComposing) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) choose(chosen + steps[event.key]);
    else if (event.key === "Enter" || event.key === "Tab") take(list.children[chosen]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const item = event.target.closest("li");
    if (item) take(item);
  });
}
