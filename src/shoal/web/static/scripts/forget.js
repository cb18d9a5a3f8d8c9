// Logging out deletes the drafts in this browser and the pages that htmx stored in this tab.
export default function forget(form) {
  form.addEventListener("submit", () => {
    document.dispatchEvent(new Event("forget-drafts"));
    sessionStorage.clear();
    for (const key of Object.keys(localStorage)) if (key.startsWith("shoal:draft:")) localStorage.removeItem(key);
  });
}
