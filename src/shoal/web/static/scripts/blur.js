// Draws the blurhash of each photo as a placeholder until the photo is loaded.
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz#$%*+,-.:;=?@[]^_{|}~";
const SIZE = 24;
const number = (text) => [...text].reduce((sum, digit) => sum * 83 + DIGITS.indexOf(digit), 0);
const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
const shade = (value) => Math.round(255 * (value <= 0.0031308 ? value * 12.92 : 1.055 * Math.min(1, value) ** (1 / 2.4) - 0.055));

function colors(hash) {
  const most = (number(hash[1]) + 1) / 166;
  const first = number(hash.slice(2, 6));
  const found = [[linear(first >> 16), linear((first >> 8) & 255), linear(first & 255)]];
  for (let at = 6; at < hash.length; at += 2) {
    const value = number(hash.slice(at, at + 2));
    found.push([Math.floor(value / 361), Math.floor(value / 19) % 19, value % 19].map((q) => Math.sign(q - 9) * ((q - 9) / 9) ** 2 * most));
  }
  return found;
}

function draw(link) {
  const hash = link.dataset.blurhash;
  const image = link.querySelector("img");
  if (!hash || hash.length < 6 || !image || image.complete) return;
  const across = (number(hash[0]) % 9) + 1;
  const parts = colors(hash);
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE;
  const pen = canvas.getContext("2d");
  const pixels = pen.createImageData(SIZE, SIZE);
  for (let y = 0; y < SIZE; y++) {
    for (let x = 0; x < SIZE; x++) {
      const sum = [0, 0, 0];
      parts.forEach((part, n) => {
        const wave = Math.cos((Math.PI * x * (n % across)) / SIZE) * Math.cos((Math.PI * y * Math.floor(n / across)) / SIZE);
        for (let c = 0; c < 3; c++) sum[c] += part[c] * wave;
      });
      pixels.data.set([...sum.map(shade), 255], 4 * (y * SIZE + x));
    }
  }
  pen.putImageData(pixels, 0, 0);
  image.before(canvas);
  image.addEventListener("load", () => canvas.remove(), { once: true });
}

export default function blur(group) {
  requestIdleCallback(() => group.querySelectorAll("[data-blurhash]").forEach(draw));
}
