// Before a sign-up form is sent, a worker finds the proof of work for the name; if it cannot, the form is sent without.
export default function work(form) {
  const { bits, since, domain, working } = form.dataset;
  const { proof, username } = form.elements;
  let proven = "";
  form.addEventListener("submit", (event) => {
    const name = username.value.trim().toLowerCase();
    if (proven === name || !globalThis.crypto?.subtle) return;
    event.preventDefault();
    const status = form.querySelector("[role=status]");
    if (status.textContent) return;
    status.textContent = working;
    const counter = new Worker(new URL("./proving.js", import.meta.url));
    const send = (found) => {
      counter.terminate();
      status.textContent = "";
      proven = name;
      proof.value = found;
      form.requestSubmit();
    };
    counter.onmessage = ({ data }) => send(data);
    counter.onerror = () => send("");
    counter.postMessage({ bits: Number(bits), since, domain, name });
  });
}
