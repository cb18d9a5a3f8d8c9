// Optimistic updates of a post's buttons. If the server refuses, they are reverted and a message shows the reason.
export default function act(form) {
  form.addEventListener("htmx:beforeRequest", (event) => {
    const button = event.detail.requestConfig.triggeringEvent?.submitter;
    if (!button?.hasAttribute("aria-pressed")) return;
    const was = { pressed: button.getAttribute("aria-pressed"), count: button.querySelector(".count")?.textContent };
    form.before = { button, was };
    const on = was.pressed !== "true";
    button.setAttribute("aria-pressed", on);
    const count = button.querySelector(".count");
    if (count && /^\d*$/.test(count.textContent)) {
      const number = Number(count.textContent) + (on ? 1 : -1);
      count.textContent = number > 0 ? number : "";
    }
  });
  for (const failed of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    form.addEventListener(failed, () => {
      if (!form.before) return;
      const { button, was } = form.before;
      button.setAttribute("aria-pressed", was.pressed);
      const count = button.querySelector(".count");
      if (count) count.textContent = was.count;
    });
  }
}
