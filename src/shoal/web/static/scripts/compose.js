// The compose form: files are uploaded when chosen, with their progress; cards are moved, cropped and replaced.
import { changed, move, order, settle } from "./cards.js";
import { send } from "./sending.js";
import { say } from "./word.js";

export default function compose(form) {
  const list = form.querySelector("[data-pictures]");
  const field = form.querySelector('input[type="file"]');
  form.querySelectorAll("[data-describe]").forEach((one) => (one.hidden = false));
  settle(list);
  const take = (files, instead) => {
    for (const file of files) send(form, list, file, instead);
  };
  const chosen = () => {
    const instead = field.instead;
    field.instead = null;
    take([...field.files], instead);
    field.value = "";
  };
  field.addEventListener("change", chosen);
  // On a slow connection, files may have been chosen before this script was loaded.
  chosen();
  form.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    take(files);
  });
  const place = form.querySelector("[data-drop]");
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  for (const name of ["dragenter", "dragover"]) {
    form.addEventListener(name, (event) => carries(event) && (event.preventDefault(), place.classList.add("over")));
  }
  form.addEventListener("dragleave", (event) => form.contains(event.relatedTarget) || place.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    place.classList.remove("over");
    take([...event.dataTransfer.files]);
  });
  form.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    const card = button?.closest(".picture");
    if (button?.matches("[data-describe]")) {
      const empty = [...form.querySelectorAll('[name="pictures[][description]"]')].find((one) => !one.value.trim());
      empty?.closest(".edit").setAttribute("open", "");
      empty?.focus();
    }
    if (!card) return;
    if (button.dataset.move) {
      event.preventDefault();
      move(list, card, Number(button.dataset.move));
      (button.disabled ? card.querySelector("[data-move]:enabled") : button)?.focus();
    } else if (button.matches("[data-remove]")) {
      event.preventDefault();
      const next = card.nextElementSibling ?? card.previousElementSibling;
      card.remove();
      (next?.querySelector("summary") ?? field).focus();
      settle(list);
      changed(form);
    } else if (button.matches("[data-replace]")) {
      field.instead = card;
      field.click();
    } else if (button.matches("[data-crop]")) {
      const { crop } = await import("./crop.js");
      const file = await crop(card.file ?? card.querySelector("[data-large]").dataset.large);
      if (file) send(form, list, file, card);
    }
  });
  order(list);
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.defaultPrevented) return;
    if (event.ctrlKey || event.metaKey) form.requestSubmit(form.querySelector('[name="do"][value="post"]'));
    // Enter in a field would send the form.
    else if (event.target.matches("input")) event.preventDefault();
  });
  // Inserting the form may have closed an option, because the form that it replaced had one open.
  const wrong = form.querySelector('[aria-invalid="true"]');
  wrong?.closest("details")?.setAttribute("open", "");
  wrong?.focus();
  form.addEventListener("submit", (event) => {
    if (!list.querySelector(".uploading.busy")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    say(form.dataset.busy);
  }, true);
  const warn = (event) => list.isConnected && list.querySelector(".uploading.busy") && event.preventDefault();
  addEventListener("beforeunload", warn);
}
