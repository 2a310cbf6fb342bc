// Problems of a page's layout as sentences: wider than the window, text cut off, labels that overlap.
(() => {
  const problems = [];
  const page = document.documentElement;
  const scrolls = (style) => /auto|scroll/.test(style.overflowX + style.overflowY);
  if (page.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !inScroller(e)).slice(0, 3);
    problems.push("the page is " + page.scrollWidth + " wide, the window " + innerWidth + ": " + wide.map(nameOf).join(", "));
  }
  const open = document.querySelector("dialog[open]");
  function inScroller(element) {
    for (let e = element; e; e = e.parentElement) if (scrolls(getComputedStyle(e))) return true;
    return false;
  }
  function nameOf(element) {
    return element.tagName.toLowerCase() + (element.id ? "#" + element.id : element.getAttribute("class") ? "." + element.getAttribute("class") : "") + " '" + element.textContent.trim().slice(0, 30) + "'";
  }
  const visible = (element) => {
    const closed = element.closest("details:not([open])"); // browsers lay out what is inside
    if (closed && !closed.querySelector("summary").contains(element)) return false;
    for (let e = element; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.display === "none" || style.visibility === "hidden" || style.opacity === "0") return false;
    }
    return true;
  };
  /** What of a rectangle can be seen, or null; says what cuts it where nobody can scroll to it. */
  function seen(element, rect, text) {
    let { left, top, right, bottom } = rect;
    for (let e = element; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.display === "inline" || e instanceof SVGTextContentElement) continue; // these do not cut
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      if (e === document.body || e === page) continue;
      const box = e.getBoundingClientRect();
      const cut = box.left - left > 1.5 || right - box.right > 1.5 || box.top - top > 1.5 || bottom - box.bottom > 1.5;
      const outside = right <= box.left || left >= box.right || bottom <= box.top || top >= box.bottom;
      if (cut && !scrolls(style) && !(outside && e.closest(".hoverlayer"))) problems.push("'" + text.slice(0, 40) + "' is cut off by " + nameOf(e).slice(0, 60));
      left = Math.max(left, box.left); top = Math.max(top, box.top); right = Math.min(right, box.right); bottom = Math.min(bottom, box.bottom);
      if (right - left < 1 || bottom - top < 1) return null;
    }
    if (right > innerWidth + 1 && !inScroller(element)) problems.push("'" + text.slice(0, 40) + "' ends beyond the window");
    return { left, top, right, bottom };
  }
  // every line of text, and the buttons that float over plots
  const labels = [];
  const walker = document.createTreeWalker(open || document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent.trim(), element = node.parentElement;
    if (!text || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION", "SELECT"].includes(element.tagName) || !visible(element)) continue;
    if (element.closest(".showing") && getComputedStyle(element.closest(".showing")).position === "sticky" && scrollY > 0) continue;
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      if (rect.width < 1 || rect.height < 1) continue;
      const part = seen(element, rect, text);
      if (part) labels.push({ ...part, text, element });
    }
  }
  for (const bar of document.querySelectorAll(".modebar")) {
    if (visible(bar) && !open) labels.push({ ...seen(bar, bar.getBoundingClientRect(), "buttons of a plot"), text: "buttons of a plot", element: bar });
  }
  labels.sort((a, b) => a.top - b.top);
  labels.forEach((a, i) => {
    for (let k = i + 1; k < labels.length && labels[k].top < a.bottom; k++) {
      const b = labels[k];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // lines of text may touch: a fifth of a line's height is the leading
      if (wide > 1 && high > 0.35 * Math.min(a.bottom - a.top, b.bottom - b.top) && !a.element.contains(b.element) && !b.element.contains(a.element)) problems.push("'" + a.text.slice(0, 40) + "' and '" + b.text.slice(0, 40) + "' overlap");
    }
  });
  return { problems: [...new Set(problems)].slice(0, 12), labels: labels.length };
})()
