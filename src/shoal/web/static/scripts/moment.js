// A moment in the time of whoever reads.
export default function moment(element) {
  const at = new Date(element.dateTime);
  element.textContent = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "long", timeStyle: "short" }).format(at);
}
