const find = document.querySelector(".find"), field = find.firstElementChild;
const open = () => {
  const at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (at && at.tagName === "DETAILS") { at.open = true; at.scrollIntoView(); }
};
find.hidden = false;
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/);
  for (const section of document.querySelectorAll("section")) {
    let some = false;
    for (const one of section.querySelectorAll("details")) {
      const text = one.firstElementChild.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word));
      one.classList.toggle("gone", !fits);
      some ||= fits;
    }
    section.classList.toggle("gone", !some);
  }
});
addEventListener("hashchange", open);
open();
