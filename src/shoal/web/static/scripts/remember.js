// A cover that was opened once is open on the next page too, for as long as the tab is.
export default function remember(details) {
  const key = `open:${details.closest("[data-post]")?.dataset.post}`;
  if (sessionStorage.getItem(key)) details.open = true;
  details.addEventListener("toggle", () => (details.open ? sessionStorage.setItem(key, "1") : sessionStorage.removeItem(key)));
}
