// The time zone of the form is the one of the browser, unless another was typed; a time beside it that is in UTC goes with it.
export default function zone(field) {
  if (field.value !== "UTC") return;
  field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const time = document.getElementById(field.dataset.time ?? "at");
  if (!time?.value) return;
  const at = new Date(`${time.value}Z`);
  time.value = time.defaultValue = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
