// Plays animations while they are visible, unless reduced motion is requested.
export default function gifv(video) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches || document.documentElement.classList.contains("look-still");
  if (still) return;
  video.controls = false;
  new IntersectionObserver(([entry]) => (entry.isIntersecting ? video.play().catch(() => {}) : video.pause()), { threshold: 0.4 }).observe(video);
}
