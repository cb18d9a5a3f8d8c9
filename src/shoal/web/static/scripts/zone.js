// Replaces the time zone UTC in the form by the browser's, and converts the time next to it.
export default function zone(field) {
  if (field.value !== "UTC") return;
  field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const time = document.getElementById(field.dataset.time ?? "at");
  if (!time?.value) return;
  const at = new Date(`${time.value}Z`);
  time.value = time.defaultValue = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
