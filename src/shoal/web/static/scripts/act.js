// Optimistic updates of a post's buttons. If the server refuses, they are reverted and a message shows the reason.
// A response replaces all buttons, so presses during a request are sent after its response.
const handedOver = new Map();

const idOf = (form) => form.id || form.dataset.id;
const keyOf = (button) => (button.name === "do" ? button.className : `reaction ${button.value}`);
const isToggle = (button) => button?.hasAttribute("aria-pressed") ?? false;
const isShown = (button) => button.getAttribute("aria-pressed") === "true";
// The state on the server, from which the form was made.
const isOn = (button) => (button.name === "do" ? button.value : button.name).startsWith("un");

function show(button, on) {
  if (isShown(button) === on) return;
  button.setAttribute("aria-pressed", on);
  const count = button.querySelector(".count");
  if (count && /^\d*$/.test(count.textContent)) count.textContent = Math.max(0, Number(count.textContent) + (on ? 1 : -1)) || "";
}

export default function act(form) {
  const wanted = handedOver.get(idOf(form)) ?? new Map();
  handedOver.delete(idOf(form));
  let sent;
  let busy = false;

  function pressNext() {
    for (const [key, on] of wanted) {
      wanted.delete(key);
      const button = [...form.querySelectorAll("button[aria-pressed]")].find((one) => keyOf(one) === key);
      if (button && !button.disabled && isOn(button) !== on) return button.click();
    }
  }

  // Ignore requests of the reply link, which is in the form too.
  const listen = (name, handle) => form.addEventListener(`htmx:${name}`, (event) => event.detail.elt === form && handle(event.detail));

  form.addEventListener(
    "submit",
    (event) => {
      const button = event.submitter;
      if (!busy || !isToggle(button)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      wanted.set(keyOf(button), !isShown(button));
      show(button, !isShown(button));
    },
    true,
  );
  listen("beforeRequest", ({ requestConfig }) => {
    busy = true;
    const button = requestConfig.triggeringEvent?.submitter;
    sent = isToggle(button) ? button : undefined;
    if (sent) show(sent, !isOn(sent));
  });
  for (const failed of ["responseError", "sendError", "timeout"]) listen(failed, () => sent && show(sent, isOn(sent)));
  listen("beforeSwap", () => form.isConnected && handedOver.set(idOf(form), wanted));
  listen("afterRequest", ({ keepIndicators }) => {
    busy = false;
    // The browser leaves the page, for example to log in.
    if (keepIndicators) wanted.clear();
    setTimeout(() => form.isConnected && pressNext());
  });
  pressNext();
}
