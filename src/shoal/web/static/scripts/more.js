// The link to the next posts is followed shortly before it comes into sight.
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
