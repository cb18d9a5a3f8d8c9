// Live updates of an open page: new posts wait behind a button at the top; edited posts are replaced, deleted posts removed.
import { say } from "./word.js";

let source = null;

function feed() {
  return document.querySelector("[data-feed]");
}

function waiting(list) {
  let button = document.querySelector(".fresh button");
  if (button) return button;
  const place = document.createElement("div");
  place.className = "fresh";
  place.dataset.made = "";
  place.innerHTML = '<button class="button small" type="button"></button>';
  list.before(place);
  button = place.firstElementChild;
  button.held = document.createDocumentFragment();
  button.addEventListener("click", () => {
    const articles = [...button.held.children];
    list.prepend(button.held);
    for (const article of articles) {
      htmx.process(article);
      document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: article } }));
    }
    place.remove();
    scrollTo({ top: 0 });
    articles[0]?.querySelector("a[href]")?.focus({ preventScroll: true });
  });
  return button;
}

// As `admits` in web/timelines.py decides for a page.
function answersOthers(article, viewer) {
  const answered = article.querySelector(".answers a");
  if (!answered || article.querySelector(".shared")) return false;
  return ![answered, article.querySelector(".who a")].some((link) => link.pathname.endsWith(`/@${viewer}`));
}

function arrived(html, name) {
  const list = feed();
  if (!list || list.dataset.feed !== name) return;
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const article = holder.content.querySelector("article");
  if (!article || document.getElementById(article.id)) return;
  if (list.dataset.only === "photos" && !article.querySelector(".photos")) return;
  if (list.dataset.without === "replies" && answersOthers(article, list.dataset.viewer)) return;
  const button = waiting(list);
  button.held.prepend(article);
  const number = button.held.children.length;
  button.textContent = (number === 1 ? list.dataset.one : list.dataset.many).replace("{n}", number);
}

function changed(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const article = holder.content.querySelector("article");
  for (const old of document.querySelectorAll(`article[data-post="${article?.dataset.post}"]`)) {
    const fresh = article.cloneNode(true);
    fresh.id = old.id;
    old.replaceWith(fresh);
    htmx.process(fresh);
    document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: fresh } }));
  }
}

export default function live(body) {
  if (source) return;
  source = new EventSource(body.dataset.live);
  source.addEventListener("post", (event) => arrived(event.data, "home"));
  source.addEventListener("changed", (event) => changed(event.data));
  source.addEventListener("gone", (event) => {
    document.querySelectorAll(`article[data-post="${event.data}"], #p${event.data}`).forEach((article) => article.remove());
  });
  source.addEventListener("navigation", (event) => htmx.swap("#bell", event.data, { swapStyle: "outerHTML" }));
  source.addEventListener("word", (event) => say(event.data));
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => event.persisted && (source = null, live(body)));
}
