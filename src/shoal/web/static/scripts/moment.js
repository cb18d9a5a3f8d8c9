// Shows a time in the reader's time zone.
export default function moment(element) {
  const at = new Date(element.dateTime);
  element.textContent = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "long", timeStyle: "short" }).format(at);
}
