// View transitions between a photo in the page and the same photo in the viewer.
const isStill = () => document.documentElement.classList.contains("look-still") || matchMedia("(prefers-reduced-motion: reduce)").matches;

export function glide(change) {
  if (!document.startViewTransition || isStill()) {
    const done = Promise.resolve(change());
    return { updateCallbackDone: done, finished: done };
  }
  const transition = document.startViewTransition(change);
  // Another transition or a new window size skips the rest of this one, which is no error.
  transition.ready.catch((error) => {
    if (!(error instanceof DOMException)) throw error;
  });
  return transition;
}

// Marks the photo that turns into the marked photo of the other state; `null` marks none.
export function mark(image) {
  for (const other of document.querySelectorAll(".viewed")) other.classList.remove("viewed");
  image?.classList.add("viewed");
}
