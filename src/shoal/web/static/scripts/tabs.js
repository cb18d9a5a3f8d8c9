// The tab of the page that is open is in sight, however many there are.
export default function tabs(bar) {
  const here = bar.querySelector("[aria-current]");
  if (here) bar.scrollLeft += here.getBoundingClientRect().left - bar.getBoundingClientRect().left - (bar.clientWidth - here.offsetWidth) / 2;
}
