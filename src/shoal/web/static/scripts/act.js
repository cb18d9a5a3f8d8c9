// Optimistic updates of a post's buttons. If the server refuses, they are reverted and a message shows the reason.
export default function act(form) {
  let undo;
  form.addEventListener("htmx:beforeRequest", (event) => {
    const button = event.detail.requestConfig.triggeringEvent?.submitter;
    const pressed = button?.getAttribute("aria-pressed");
    if (!pressed) return;
    const count = button.querySelector(".count");
    const number = count?.textContent;
    undo = () => {
      button.setAttribute("aria-pressed", pressed);
      if (count) count.textContent = number;
    };
    const on = pressed !== "true";
    button.setAttribute("aria-pressed", on);
    if (count && /^\d*$/.test(number)) count.textContent = Math.max(0, Number(number) + (on ? 1 : -1)) || "";
  });
  for (const failed of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) form.addEventListener(failed, () => undo?.());
}
