// Uploads run two at a time: the server accepts few of a member at once, and refuses one that waits for half a minute.
const AT_ONCE = 2;
const waiting = [];
let running = 0;

function next() {
  if (running >= AT_ONCE || !waiting.length) return;
  running += 1;
  waiting.shift()(() => {
    running -= 1;
    next();
  });
}

// `upload` begins an upload, and calls its argument at the end.
export function enqueue(upload) {
  waiting.push(upload);
  next();
}
