// Opens the menu of a post next to its button instead of as a separate page.
// Many menus start with a button that copies a link. Its script is imported here, so that the button works when the menu is shown.
import "./copy.js";

let open = null;

function close(focus) {
  if (!open) return;
  open.menu.remove();
  open.link.setAttribute("aria-expanded", "false");
  if (focus) open.link.focus();
  open = null;
}

document.addEventListener("click", (event) => open && !open.menu.contains(event.target) && close(false));
document.addEventListener("keydown", (event) => event.key === "Escape" && close(true));
document.addEventListener("focusin", (event) => open && event.target !== open.link && !open.menu.contains(event.target) && close(false));

const choicesOf = (menu) => [...menu.querySelectorAll("a, button")].filter((one) => one.checkVisibility());

// Up and down move within the menu, from its end to its start too.
function moved(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const all = choicesOf(event.currentTarget);
  all.at((all.indexOf(document.activeElement) + step) % all.length).focus();
}

export default function choices(link) {
  link.setAttribute("aria-expanded", "false");
  link.addEventListener("click", async (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    const again = open?.link === link;
    close(false);
    if (again) return;
    const answer = await fetch(link.href, { headers: { "HX-Request": "true" } });
    // A response without a body is a redirect, such as to the login page.
    if (!answer.ok || answer.status === 204) return location.assign(link.href);
    const menu = document.createElement("div");
    menu.className = "button-popover";
    menu.innerHTML = await answer.text();
    menu.addEventListener("keydown", moved);
    // The menu has its own form, which must not be nested in the form of the buttons.
    (link.closest("form") ?? link).after(menu);
    htmx.process(menu);
    document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: menu } }));
    link.setAttribute("aria-expanded", "true");
    open = { link, menu };
    const room = innerHeight - link.getBoundingClientRect().bottom;
    if (room < menu.firstElementChild.offsetHeight + 80) menu.classList.add("above");
    // The script of the button would reveal it only after the focus is set.
    for (const button of menu.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
    choicesOf(menu)[0]?.focus();
  });
}
