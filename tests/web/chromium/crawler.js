// Checks of the open page, for crawler.py, which adds them to every page as `crawl`.
(() => {
  const MOST_SHIFT = 0.02;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const names = (one) => one.tagName.toLowerCase() + [...one.classList].map((name) => `.${name}`).join("") + (one.id && `#${one.id}`);

  const moved = { score: 0, what: new Set() };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      moved.score += entry.value;
      for (const { node } of entry.sources) if (node?.tagName) moved.what.add(names(node));
    }
  }).observe({ type: "layout-shift", buffered: true });

  function busy() {
    return Boolean(
      document.readyState !== "complete" ||
      document.querySelector(".htmx-request, .htmx-swapping, .htmx-settling") !== null ||
      all("img").some((one) => !one.complete && one.loading !== "lazy") ||
      (document.querySelector("script[type=module]") && all("[data-behavior]").some((one) => one.dataset.started === undefined))
    );
  }

  // Whether text of an element is cut off, by itself or by the window.
  function isCut(one) {
    const { position, display, textOverflow, overflowX } = getComputedStyle(one);
    if (!one.clientWidth || position === "absolute" || display === "inline" || textOverflow === "ellipsis") return false;
    if (one.scrollWidth <= one.clientWidth + 1) return false;
    if (overflowX !== "visible") return !["auto", "scroll"].includes(overflowX);
    const scrolls = (holder) => ["auto", "scroll"].includes(getComputedStyle(holder).overflowX);
    for (let holder = one.parentElement; holder; holder = holder.parentElement) if (scrolls(holder)) return false;
    return one.getBoundingClientRect().left + one.scrollWidth > document.documentElement.clientWidth + 1;
  }

  // Faults of the structure and the layout. A page that stands alone has no navigation. What a click moves is no fault.
  function faults(alone, opened) {
    const found = [];
    for (const [selector, expected] of Object.entries(alone ? {} : { main: 1, "nav.navigation": 1, ".frame": 1 })) {
      if (all(selector).length !== expected) found.push(`${all(selector).length} of ${selector}`);
    }
    if (all("main main, main .frame, main nav.navigation, main aside.sidebar").length) found.push("a page within the page");
    const ids = all("[id]").map((one) => one.id);
    const twice = ids.filter((id, at) => ids.indexOf(id) < at);
    if (twice.length) found.push(`ids that occur twice: ${twice.slice(0, 5)}`);
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) found.push(`${scrollWidth - clientWidth} pixels too wide`);
    for (const one of all("button, .button, .chip, summary, label, legend, h1, h2, h3, nav a")) {
      if (one.checkVisibility() && isCut(one)) found.push(`cut off: ${names(one)} ${one.textContent.trim().slice(0, 40)}`);
    }
    if (opened && moved.score > MOST_SHIFT) found.push(`a layout shift of ${moved.score.toFixed(3)}: ${[...moved.what].slice(0, 5)}`);
    return found;
  }

  function isMarked(one) {
    if (!one) return false;
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one);
    return (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1.5) || boxShadow !== "none";
  }

  // Whether a part of an element is in the window and in front of everything else.
  function isReached(one) {
    // A file field may be behind its label.
    const { left, top, width, height } = (one.type === "file" ? one.labels[0] : one).getBoundingClientRect();
    return [[0.5, 0.5], [0.1, 0.5], [0.9, 0.5], [0.5, 0.15], [0.5, 0.85]].some(([x, y]) => {
      const hit = document.elementFromPoint(left + width * x, top + height * y);
      if (!hit) return false;
      const around = hit.contains(one) && !hit.matches("main, .frame, body, html");
      return one.contains(hit) || around || hit.closest("label")?.control === one;
    });
  }

  // Faults of the focus, for one element of each kind. The browser marks it, because a key was pressed before.
  function focusFaults() {
    const found = [];
    const seen = new Set();
    for (const one of all("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")) {
      const kind = (names(one) + names(one.parentElement)).replace(/[0-9]+/g, "0");
      if (one.disabled || one.tabIndex < 0 || seen.has(kind) || !one.checkVisibility({ visibilityProperty: true })) continue;
      seen.add(kind);
      one.focus();
      if (document.activeElement !== one) found.push(`cannot be focused: ${names(one)}`);
      else if (![one, one.parentElement, one.nextElementSibling].some(isMarked)) found.push(`the focus is invisible: ${names(one)}`);
      else if (!isReached(one)) found.push(`focused behind something: ${names(one)} in ${names(one.parentElement)}`);
    }
    document.activeElement.blur();
    scrollTo(0, 0);
    return found;
  }

  // The kinds of elements on the page: equal for pages that differ only in their content.
  function skeleton() {
    const classes = (one) => `${one.tagName}.${[...one.classList].sort().join(".")}`;
    return [...new Set(all("body *").map((one) => `${classes(one)}<${classes(one.parentElement)}`))].sort().join();
  }

  // Where the viewer is. The focus is lost if it was on an element that is gone or hidden while the page stayed.
  function state() {
    const focused = document.activeElement;
    return {
      stays: window.stays === true,
      lost: window.stays === true && (focused === document.body || !focused.checkVisibility()),
      path: location.pathname + location.search,
      heading: document.querySelector("h1")?.textContent ?? "",
    };
  }

  window.crawl = { busy, faults, focusFaults, skeleton, state };
})();
