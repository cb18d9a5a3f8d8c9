// Loads the next posts shortly before the link to them becomes visible.
export default function more(link) {
  const watcher = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      link.click();
    },
    { rootMargin: "900px" },
  );
  watcher.observe(link);
}
