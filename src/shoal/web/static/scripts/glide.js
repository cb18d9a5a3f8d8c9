// View transitions between a photo in the page and the same photo in the viewer.
export function glide(change) {
  if (document.startViewTransition) return document.startViewTransition(change);
  const done = Promise.resolve(change());
  return { updateCallbackDone: done, finished: done };
}

// Marks the photo that turns into the marked photo of the other state; `null` marks none.
export function mark(image) {
  for (const other of document.querySelectorAll(".viewed")) other.classList.remove("viewed");
  image?.classList.add("viewed");
}
