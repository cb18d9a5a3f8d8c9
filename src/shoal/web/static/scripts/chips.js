// Shows in the chip of each option of a post what it is set to.
function said(field) {
  if (field.type === "radio" || field.type === "checkbox") return field.checked ? field.dataset.says : "";
  if (field.tagName === "SELECT") return field.value && (field.selectedOptions[0].dataset.short ?? field.selectedOptions[0].text);
  if (field.type !== "datetime-local") return field.value.trim();
  return field.value && new Date(field.value).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
}

export default function chips(row) {
  const form = row.closest("form");
  const post = form.querySelector("[data-later]");
  const show = () => {
    if (post) post.textContent = form.elements.at.value ? post.dataset.later : post.dataset.now;
    for (const option of row.querySelectorAll(".option")) {
      const text = [...option.querySelectorAll("[data-says]")].map(said).filter(Boolean).join(" / ");
      option.querySelector(".option-value").textContent = text;
      option.querySelector(".option-name").classList.toggle("unseen", text !== "");
    }
  };
  // On a phone, an opened option may be behind the button below.
  row.addEventListener("click", ({ target }) => {
    const option = target.closest(".option > summary")?.parentElement;
    requestAnimationFrame(() => option?.open && option.scrollIntoView({ block: "nearest" }));
  });
  for (const name of ["input", "change"]) form.addEventListener(name, show);
  show();
}
