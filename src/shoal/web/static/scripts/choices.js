// Opens the menu of a post next to its button instead of as a separate page.
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

export default function choices(link) {
  link.setAttribute("aria-haspopup", "menu");
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
    // The menu has its own form, which must not be nested in the form of the buttons.
    (link.closest("form") ?? link).after(menu);
    htmx.process(menu);
    document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: menu } }));
    link.setAttribute("aria-expanded", "true");
    open = { link, menu };
    const room = innerHeight - link.getBoundingClientRect().bottom;
    if (room < menu.firstElementChild.offsetHeight + 80) menu.classList.add("above");
    menu.querySelector("a, button")?.focus();
  });
}
