// Shows in the chip of each option of a post what it is set to.
function said(field) {
  if (field.type === "radio" || field.type === "checkbox") return field.checked ? field.dataset.says : "";
  if (field.tagName === "SELECT") return field.value && (field.selectedOptions[0].dataset.short ?? field.selectedOptions[0].text);
  return field.type === "datetime-local" ? field.value.replace("T", " ") : field.value.trim();
}

export default function chips(row) {
  const show = () => {
    for (const option of row.querySelectorAll(".option")) {
      const text = [...option.querySelectorAll("[data-says]")].map(said).filter(Boolean).join(" / ");
      option.querySelector(".option-value").textContent = text;
      option.querySelector(".option-name").classList.toggle("unseen", text !== "");
    }
    if (button) button.textContent = button.dataset[form.elements.at.value ? "later" : "now"];
  };
  const form = row.closest("form");
  const button = form.querySelector("[data-later]");
  for (const name of ["input", "change"]) form.addEventListener(name, show);
  show();
}
