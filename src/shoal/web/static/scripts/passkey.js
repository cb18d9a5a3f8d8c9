// Passkeys: the device's response is put into a form field and sent with the form. If passkeys are unavailable, the settings page says that.
const FRESH = 4 * 60_000; // Milliseconds after which a new challenge is requested; challenges are valid for five minutes.

const bytes = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const named = (list) => list?.map((one) => ({ ...one, id: bytes(one.id) }));

async function question(address) {
  const answer = await fetch(address);
  if (!answer.ok || answer.redirected) throw new Error("gone");
  const asked = await answer.json();
  asked.challenge = bytes(asked.challenge);
  for (const name of ["allowCredentials", "excludeCredentials"]) if (asked[name]) asked[name] = named(asked[name]);
  if (asked.user) asked.user.id = bytes(asked.user.id);
  return asked;
}

function written({ id, rawId, type, response }) {
  const said = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"])
    if (response[name]) said[name] = text(response[name]);
  return JSON.stringify({ id, rawId: text(rawId), type, response: said, clientExtensionResults: {} });
}

const shown = async (address, more) => written(await navigator.credentials.get({ publicKey: await question(address), ...more }));
const made = async (address) => written(await navigator.credentials.create({ publicKey: await question(address) }));

export default function passkey(box) {
  // Passkeys are bound to host names and do not work with IP addresses.
  const [button, word] = [box.querySelector("button"), box.querySelector("[role=status]")];
  if (!window.PublicKeyCredential || /^[\d.]+$|^\[/.test(location.hostname)) {
    button.remove();
    word.textContent = box.dataset.none;
    box.hidden = !box.dataset.none;
    return;
  }
  const { ask, field, make, confirm } = box.dataset;
  const form = box.closest("form");
  const fields = form.elements;
  let waiting = new AbortController();
  const send = (answer) => {
    fields[field].value = answer;
    form.requestSubmit();
  };
  const tell = (error) => (word.textContent = error.message === "gone" ? box.dataset.gone : box.dataset.failed);

  // Validates the form, but allows these fields to be empty.
  const complete = (names) => {
    const empty = names.map((name) => fields[name]).filter((one) => one?.required);
    for (const one of empty) one.required = false;
    const is = form.reportValidity();
    for (const one of empty) one.required = true;
    return is;
  };

  button.addEventListener("click", async () => {
    if (!complete([field, confirm])) return;
    waiting.abort();
    word.textContent = "";
    button.disabled = true;
    try {
      if (make && fields[confirm] && !fields[confirm].value) fields[confirm].value = await shown(ask);
      send(await (make ? made(make) : shown(ask)));
    } catch (error) {
      if (make && fields[confirm]?.value.startsWith("{")) fields[confirm].value = "";
      tell(error);
      offer();
    } finally {
      button.disabled = false;
    }
  });

  // The name field offers passkeys for as long as the page is open.
  async function offer() {
    if (!("autofill" in box.dataset) || !(await PublicKeyCredential.isConditionalMediationAvailable?.())) return;
    waiting = new AbortController();
    const { signal } = waiting;
    const fresh = setTimeout(() => (waiting.abort(), offer()), FRESH);
    try {
      send(await shown(ask, { mediation: "conditional", signal }));
    } catch {
      // It was not requested by a button, so show no error.
    } finally {
      clearTimeout(fresh);
    }
  }

  box.hidden = false;
  offer();
}
