// Shows a time in the reader's time zone.
export default function moment(element) {
  element.textContent = new Date(element.dateTime).toLocaleString(document.documentElement.lang, { dateStyle: "long", timeStyle: "short" });
}
