// Crops a profile picture before it is uploaded. A file that the browser cannot decode is sent unchanged.
const SHAPES = { square: [1, 800], banner: [3, 1800] };

export default function picture(field) {
  const input = field.querySelector("input[type=file]");
  const chosen = async () => {
    const [file] = input.files;
    if (!file) return;
    const { crop } = await import("./crop.js");
    const part = await crop(file, ...SHAPES[field.dataset.shape]);
    if (!part) return;
    const held = new DataTransfer();
    held.items.add(part);
    input.files = held.files;
    const shown = document.createElement("img");
    shown.alt = "";
    shown.src = URL.createObjectURL(part);
    field.querySelector(".picture-now").replaceChildren(shown);
  };
  input.addEventListener("change", chosen);
  // On a slow connection, a file may have been chosen before this script was loaded.
  chosen();
}
