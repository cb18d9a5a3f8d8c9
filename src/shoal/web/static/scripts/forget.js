// Drafts that this browser keeps go when one logs out.
export default function forget(form) {
  form.addEventListener("submit", () => {
    document.dispatchEvent(new Event("forget-drafts"));
    for (const key of Object.keys(localStorage)) if (key.startsWith("shoal:draft:")) localStorage.removeItem(key);
  });
}
