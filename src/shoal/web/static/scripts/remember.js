// Keeps an opened content warning open on later pages of this tab.
export default function remember(details) {
  const key = `open:${details.closest("[data-post]")?.dataset.post}`;
  if (sessionStorage.getItem(key)) details.open = true;
  details.addEventListener("toggle", () => (details.open ? sessionStorage.setItem(key, "1") : sessionStorage.removeItem(key)));
}
