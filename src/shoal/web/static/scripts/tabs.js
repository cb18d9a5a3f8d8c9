// Scrolls the tab of the open page into view, and later the focused one.
export default function tabs(bar) {
  const here = bar.querySelector("[aria-current]");
  if (here) bar.scrollLeft += here.getBoundingClientRect().left - bar.getBoundingClientRect().left - (bar.clientWidth - here.offsetWidth) / 2;
  bar.addEventListener("focusin", (event) => event.target.scrollIntoView({ block: "nearest", inline: "nearest" }));
}
