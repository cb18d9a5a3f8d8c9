// On logout, deletes the drafts in this browser and the pages that htmx stored in this tab and in others.
const LOGGED_OUT = "shoal:logged-out";

function forgetPages() {
  document.dispatchEvent(new Event("forget-drafts"));
  htmx.config.historyCacheSize = 0;
  sessionStorage.clear();
}

// Every tab stores its own pages.
addEventListener("storage", (event) => event.key === LOGGED_OUT && forgetPages());

export default function forget(form) {
  form.addEventListener("submit", () => {
    forgetPages();
    for (const key of Object.keys(localStorage)) if (key.startsWith("shoal:draft:")) localStorage.removeItem(key);
    localStorage.setItem(LOGGED_OUT, "");
    localStorage.removeItem(LOGGED_OUT);
  });
}
