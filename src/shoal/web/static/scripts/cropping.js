// The crop area as fractions of the picture's width and height: move, resize at a corner, keep an aspect ratio, draw.
export const LEAST = 0.05;
const within = (value, least, most) => Math.min(most, Math.max(least, value));

export function moved(part, dx, dy) {
  return { ...part, x: within(part.x + dx, 0, 1 - part.w), y: within(part.y + dy, 0, 1 - part.h) };
}

// `ratio` is the aspect ratio of the area, 0 for any; `whole` that of the picture.
export function ratioed(part, ratio, whole) {
  if (!ratio) return part;
  const shape = ratio / whole;
  const w = Math.min(part.w, part.h * shape), h = w / shape;
  return { x: part.x + (part.w - w) / 2, y: part.y + (part.h - h) / 2, w, h };
}

export function resized(part, corner, dx, dy, ratio, whole) {
  const west = corner.includes("w"), north = corner.includes("n");
  const right = part.x + part.w, bottom = part.y + part.h;
  let w = within(part.w + (west ? -dx : dx), LEAST, west ? right : 1 - part.x);
  let h = within(part.h + (north ? -dy : dy), LEAST, north ? bottom : 1 - part.y);
  if (ratio) {
    const shape = ratio / whole;
    w = Math.min(w, (north ? bottom : 1 - part.y) * shape);
    h = w / shape;
  }
  return { x: west ? right - w : part.x, y: north ? bottom - h : part.y, w, h };
}

// Width and height of a picture after a number of quarter turns.
export const turned = (bitmap, turns) => (turns % 2 ? [bitmap.height, bitmap.width] : [bitmap.width, bitmap.height]);

export function drawn(canvas, bitmap, turns, scale, cut = { x: 0, y: 0, w: 1, h: 1 }) {
  const [width, height] = turned(bitmap, turns);
  canvas.width = Math.max(1, Math.round(width * cut.w * scale));
  canvas.height = Math.max(1, Math.round(height * cut.h * scale));
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.translate(width / 2 - cut.x * width, height / 2 - cut.y * height);
  pen.rotate((turns * Math.PI) / 2);
  pen.drawImage(bitmap, -bitmap.width / 2, -bitmap.height / 2);
}
