// One upload: a preview, its progress and, if it was refused, the reason with a retry button.
import { changed, settle } from "./cards.js";
import { enqueue } from "./queue.js";
import { token } from "./token.js";

const HEADERS = () => ({ "X-Form-Token": token(), "HX-Request": "true" });

function built(file) {
  const item = document.createElement("li");
  item.className = "uploading busy";
  if (file.type.startsWith("image/")) {
    const image = item.appendChild(document.createElement("img"));
    image.alt = "";
    image.src = URL.createObjectURL(file);
    image.onload = () => URL.revokeObjectURL(image.src);
    image.onerror = () => image.remove();
  }
  const name = item.appendChild(document.createElement("p"));
  name.className = "fine name";
  name.textContent = file.name;
  const bar = item.appendChild(document.createElement("progress"));
  bar.max = 100;
  bar.setAttribute("aria-label", file.name);
  return item;
}

function card(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content.querySelector(".picture");
}

function placed(form, list, item, html, file, instead) {
  const fresh = card(html);
  if (!fresh) return;
  const focused = instead?.contains(document.activeElement);
  if (instead?.isConnected) {
    fresh.querySelector("textarea").value = instead.querySelector("textarea").value;
    const { open } = instead.querySelector(".edit");
    instead.replaceWith(fresh);
    fresh.querySelector(".edit").open = open;
    item.remove();
  } else item.replaceWith(fresh);
  fresh.file = file.type.startsWith("image/") ? file : null;
  htmx.process(fresh);
  document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: fresh } }));
  settle(list);
  changed(form);
  if (focused) fresh.querySelector("[data-crop], summary").focus();
}

function refused(form, list, item, html, file, instead) {
  item.classList.remove("busy");
  item.querySelector("progress").remove();
  const words = item.appendChild(document.createElement("div"));
  words.setAttribute("role", "alert");
  if (html) words.innerHTML = html;
  else words.textContent = form.dataset.lost;
  const buttons = item.appendChild(document.createElement("p"));
  buttons.className = "buttons";
  for (const [text, act] of [[form.dataset.again, () => (item.remove(), send(form, list, file, instead))], [form.dataset.drop, () => item.remove()]]) {
    const button = buttons.appendChild(document.createElement("button"));
    button.type = "button";
    button.className = "button quiet small";
    button.textContent = text;
    button.addEventListener("click", act);
  }
}

export function send(form, list, file, instead) {
  const item = built(file);
  if (instead) instead.after(item);
  else list.append(item);
  if (!instead && list.querySelectorAll(".picture, .busy").length > Number(form.dataset.most)) {
    const words = document.createElement("p");
    words.className = "error";
    words.textContent = form.dataset.full;
    return refused(form, list, item, words.outerHTML, file);
  }
  const request = new XMLHttpRequest();
  request.open("POST", form.dataset.files);
  for (const [name, value] of Object.entries(HEADERS())) request.setRequestHeader(name, value);
  request.upload.onprogress = (event) => event.lengthComputable && (item.querySelector("progress").value = (100 * event.loaded) / event.total);
  request.onload = () => (request.status === 200 ? placed : refused)(form, list, item, request.status === 200 || request.status === 422 ? request.responseText : "", file, instead);
  request.onerror = request.ontimeout = () => refused(form, list, item, "", file, instead);
  const body = new FormData();
  body.append("file", file, file.name || "pasted");
  enqueue((done) => {
    request.onloadend = done;
    // A file that was removed before its turn is not sent.
    if (item.isConnected) request.send(body);
    else done();
  });
}

export async function fetched(form, id) {
  const answer = await fetch(`${form.dataset.files}/${id}`, { headers: HEADERS() });
  return answer.ok ? card(await answer.text()) : null;
}
