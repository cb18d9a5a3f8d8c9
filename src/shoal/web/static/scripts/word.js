// A message in the corner: disappears after a while, or when it is clicked.
const SECONDS = 8;

export default function word(element) {
  const leave = () => element.remove();
  element.addEventListener("click", leave);
  setTimeout(leave, SECONDS * 1000);
}

export function say(text) {
  const element = document.createElement("div");
  element.className = "word";
  element.textContent = text;
  document.getElementById("word-area").append(element);
  word(element);
}
