// Optimistic updates of a post's buttons. If the server refuses, they are reverted and a message shows the reason.
// A response replaces all buttons, so what is pressed before it is sent after it.
const waiting = new Map();

const keyOf = (button) => (button.name === "do" ? button.className : `reaction ${button.value}`);
// The state on the server, from which the form was made.
const isOn = (button) => (button.name === "do" ? button.value : button.name).startsWith("un");

function show(button, on) {
  if (button.ariaPressed === String(on)) return;
  button.setAttribute("aria-pressed", on);
  const count = button.querySelector(".count");
  if (count && /^\d*$/.test(count.textContent)) count.textContent = Math.max(0, Number(count.textContent) + (on ? 1 : -1)) || "";
}

function pressNext(form) {
  const wanted = waiting.get(form.action) ?? new Map();
  for (const [key, on] of wanted) {
    wanted.delete(key);
    const button = [...form.querySelectorAll("button[aria-pressed]")].find((one) => keyOf(one) === key);
    if (button && isOn(button) !== on) return button.click();
  }
  waiting.delete(form.action);
}

function wait(event) {
  const { target: form, submitter: button } = event;
  if (!form.matches(".htmx-request") || !button?.ariaPressed) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const on = button.ariaPressed !== "true";
  if (!waiting.has(form.action)) waiting.set(form.action, new Map());
  waiting.get(form.action).set(keyOf(button), on);
  show(button, on);
}

export default function act(form) {
  let sent;
  form.addEventListener("submit", wait, true);
  form.addEventListener("htmx:beforeRequest", (event) => {
    const button = event.detail.requestConfig.triggeringEvent?.submitter;
    sent = button?.ariaPressed ? button : undefined;
    if (sent) show(sent, !isOn(sent));
  });
  for (const failed of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    form.addEventListener(failed, () => sent && show(sent, isOn(sent)));
  }
  form.addEventListener("htmx:afterRequest", () => setTimeout(() => form.isConnected && pressNext(form)));
  pressNext(form);
}
