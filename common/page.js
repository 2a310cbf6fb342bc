// What all pages share. Nothing here makes HTML of text: names from users' files stay text.
const Baco = (() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const readJson = (id) => JSON.parse($(id).textContent);
  /** Value of a deflated block. Rejects in browsers that cannot unpack. */
  async function unpack(id) {
    const bytes = Uint8Array.from(atob($(id).textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  // ---------------------------------------------------------------- text
  // Plotly reads a little HTML in labels: names from users' files must not be taken for it.
  const esc = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  // Names of nested modules differ at their ends, so the middle goes.
  function cut(text, most) {
    if (text.length <= most) return text;
    const tail = Math.floor(most * 0.65);
    return text.slice(0, most - tail - 1) + "…" + text.slice(-tail);
  }
  const grouped = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  function sig(value, digits = 3) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    value = Number(value.toExponential(digits - 1)); // rounded first: 0.9996 is 1.00, not 1.000
    const size = Math.abs(value);
    if (size < 1e-4 || size >= 1e15) return value.toExponential(digits - 1);
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return decimals === 0 ? grouped(value.toFixed(0)) : value.toFixed(decimals);
  }
  const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
  function si(value, unit = "", digits = 3) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (value === 0) return ("0 " + unit).trim();
    const found = PREFIXES.find(([factor]) => Math.abs(value) >= factor * (1 - 0.5 * 10 ** -digits)) || PREFIXES[9];
    return (sig(value / found[0], digits) + " " + found[1] + unit).trim();
  }
  /** How an axis shows quantities of a unit: what they are divided by, and the unit with its prefix, so that ticks are plain numbers. */
  function axisUnit(values, unit, type = "linear") {
    const sizes = values.filter((v) => Number.isFinite(v) && v !== 0).map(Math.abs);
    const most = sizes.reduce((a, b) => Math.max(a, b), 0), least = sizes.reduce((a, b) => Math.min(a, b), most);
    const typical = type === "log" && most > 1000 * least ? Math.sqrt(least * most) : most; // of many decades the middle
    const [factor, prefix] = typical ? PREFIXES.find(([one]) => typical >= one) || PREFIXES[PREFIXES.length - 1] : [1, ""];
    return { factor, unit: prefix + unit };
  }
  const joules = (picojoules) => si(picojoules === null ? NaN : picojoules * 1e-12, "J");
  const percent = (share) => share > 0 && share < 0.0005 ? "<0.1%" : (share >= 0.0995 || share === 0 ? Math.round(share * 100) : (share * 100).toFixed(1)) + "%";
  const edpText = (value) => (value === 0 ? "0" : value.toExponential(2).replace("e+", "e"));
  const count = (n) => (Number.isInteger(n) ? grouped(n) : sig(n, 4));
  const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : "s");
  function bytes(value) {
    if (value < 1024) return count(Math.round(value)) + " B";
    const [factor, unit] = value < 1 << 20 ? [1024, "KiB"] : value < 2 ** 30 ? [1 << 20, "MiB"] : [2 ** 30, "GiB"];
    return sig(value / factor) + " " + unit;
  }

  // ---------------------------------------------------------------- page elements
  /** An element; children are elements or text, never HTML. */
  function h(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }
  /** The same for drawings. */
  function svg(tag, attributes, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  }
  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined) element.append(child);
    }
    return element;
  }
  /** Have the browser save a text as a file. */
  function download(name, text, type) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = h("a", { href: address, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
  // What spreadsheets would take for a formula stands behind an apostrophe, as in tables written by the command line.
  function csv(rows) {
    const cell = (value) => {
      let text = value === null || value === undefined ? "" : String(value);
      if (typeof value === "string" && /^[\s\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r]/.test(text)) text = "'" + text;
      return /[",\r\n']/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
    };
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  }
  /** A button that copies what `text()` gives; where that is not allowed, it selects `shown`. */
  function copyButton(label, text, shown) {
    const button = h("button", { type: "button" }, label);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text());
        button.textContent = "copied";
      } catch {
        if (shown) getSelection().selectAllChildren(shown()); // the reader can copy it by hand
      }
    });
    return button;
  }

  // Every table that was filled: by what it is sorted, how many rows are made, how it is drawn when the window or the paper changes.
  const tables = new Map();
  /**
   * Fill a table whose headings sort it. Columns: {title, unit, error, num, sort(row), cell(row), class, first}; where the page is
   * narrow, those with `first` stand before the others. Options: caption says what the table holds; pick(row) is called
   * when a row is clicked; most is how many rows are made at first, the rest on demand (on paper, all). Rows are made when
   * they are first shown, so tables may be long. A table that is filled again stays sorted as its reader had it.
   */
  function fillTable(table, columns, rows, options) {
    if (!options.caption) throw new Error("a table without a caption");
    for (const other of tables.keys()) if (!other.isConnected) tables.delete(other);
    const body = h("tbody");
    const most = options.most || 200;
    const kept = tables.get(table) || { title: null, direction: null, shown: most };
    let wanted = () => true, marked = () => false, order = [], arranged = columns;
    const lines = new Map();
    function line(row) {
      if (!lines.has(row)) {
        const made = h("tr", { class: options.pick ? "pick" : null }, arranged.map((column) => h("td", { class: classOf(column) }, column.cell(row))));
        if (options.pick) made.addEventListener("click", () => options.pick(row));
        lines.set(row, made);
      }
      const made = lines.get(row);
      made.classList.toggle("chosen", marked(row));
      return made;
    }
    function draw() {
      const passing = order.map((place) => rows[place]).filter(wanted);
      const some = passing.slice(0, printing ? Infinity : kept.shown).map(line);
      const rest = passing.length - some.length;
      if (rest > 0) {
        const more = h("button", { type: "button", onclick: () => { kept.shown += 5 * most; draw(); } }, "show " + count(Math.min(rest, 5 * most)) + " more of " + count(rest));
        some.push(h("tr", { class: "more" }, h("td", { colspan: columns.length }, more)));
      }
      if (!passing.length) some.push(h("tr", { class: "more" }, h("td", { colspan: columns.length }, "nothing to show")));
      body.replaceChildren(...some);
    }
    const heads = new Map(columns.map((column) => {
      const text = column.unit ? [column.title + ", ", h("small", {}, column.unit)] : [column.title];
      if (column.error) text.push(h("small", { class: "wide-only" }, column.error));
      const content = column.sort ? h("button", { type: "button", onclick: () => sortBy(column) }, ...text) : h("span", {}, ...text);
      return [column, h("th", { scope: "col", class: classOf(column) }, content)];
    }));
    function sortBy(column) {
      // numbers are looked at from the largest down, names from A
      const first = column.num ? "descending" : "ascending";
      kept.direction = kept.title === column.title && kept.direction === first ? (first === "ascending" ? "descending" : "ascending") : first;
      kept.title = column.title;
      sort();
      draw();
    }
    function sort() {
      const column = columns.find((one) => one.sort && one.title === kept.title);
      for (const [one, head] of heads) {
        if (one === column) head.setAttribute("aria-sort", kept.direction);
        else head.removeAttribute("aria-sort");
      }
      order = column ? sorted(rows.map(column.sort), kept.direction === "ascending" ? 1 : -1) : rows.map((row, place) => place);
    }
    kept.look = () => {
      arranged = narrow() ? [...columns.filter((one) => one.first), ...columns.filter((one) => !one.first)] : columns;
      lines.clear();
      table.replaceChildren(h("caption", {}, options.caption), h("thead", {}, h("tr", {}, arranged.map((one) => heads.get(one)))), body);
      draw();
    };
    tables.set(table, kept);
    sort();
    kept.look();
    return {
      mark: (test) => { marked = test; draw(); },
      show: (test) => { wanted = test; draw(); },
    };
  }
  /** Take out of a table what it was filled with, and put in other elements; its reader's order is kept for what comes next. */
  function emptyTable(table, ...content) {
    if (tables.has(table)) tables.get(table).look = () => {};
    table.replaceChildren(...content);
  }
  const classOf = (column) => [column.num ? "num" : "", column.class || ""].join(" ").trim() || null;
  /** Places of keys (numbers or text) in order; equal ones stay in theirs. */
  function sorted(keys, sign) {
    const compare = (a, b) => {
      const order = typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b), "en", { numeric: true }) : a - b;
      return sign * order;
    };
    return keys.map((_, place) => place).sort((a, b) => compare(keys[a], keys[b]) || a - b);
  }
  /** Let the headings of tables that came as HTML sort them. */
  function sortTables() {
    for (const table of document.querySelectorAll("table.sorts")) {
      const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
      const number = (text) => { const found = /-?[\d,]*\.?\d+(e[+-]?\d+)?/i.exec(text); return found ? Number(found[0].replace(/,/g, "")) * unitOf(text.slice(found.index + found[0].length)) : -Infinity; };
      heads.forEach((head, column) => {
        const numeric = head.classList.contains("num");
        const button = h("button", { type: "button" }, head.textContent);
        head.replaceChildren(button);
        button.addEventListener("click", () => {
          const first = numeric ? "descending" : "ascending";
          const now = head.getAttribute("aria-sort") === first ? (numeric ? "ascending" : "descending") : first;
          for (const other of heads) other.removeAttribute("aria-sort");
          head.setAttribute("aria-sort", now);
          const lines = [...body.rows];
          const keys = lines.map((line) => (numeric ? number(line.cells[column].textContent) : line.cells[column].textContent));
          body.replaceChildren(...sorted(keys, now === "ascending" ? 1 : -1).map((place) => lines[place]));
        });
      });
    }
  }
  function unitOf(rest) {
    const found = PREFIXES.find(([, prefix]) => prefix && new RegExp("^\\s" + prefix + "(?!in)").test(rest));
    return found ? found[0] : 1;
  }

  // ---------------------------------------------------------------- plots
  const PAPER = 680; // width of plots on paper, CSS pixels: a little less than A4 has between its margins
  let printing = false;
  const narrow = () => !printing && document.documentElement.clientWidth < 640;
  const widthOf = (element) => (printing ? PAPER : element.clientWidth);
  function theme() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    return { ink: get("--ink"), soft: get("--soft"), line: get("--line"), paper: get("--paper"), faint: get("--faint"), accent: get("--accent"), star: get("--star") };
  }
  /** Draw a plot into an element, as wide as that is, and again when its width changes; on paper as wide as the paper. */
  function plot(element, traces, more) {
    widths.observe(element);
    const height = parseFloat(getComputedStyle(element).getPropertyValue("--height")) || 320;
    return Plotly.react(element, traces, layout(theme(), { width: widthOf(element), height, ...more }), config());
  }
  // not only the window's width changes: so does that of the page when it gets long enough for a scroll bar
  const widths = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      const drawn = target._fullLayout;
      if (!printing && drawn && target.clientWidth && Math.abs(drawn.width - target.clientWidth) > 1) Plotly.relayout(target, { width: target.clientWidth });
    }
  });
  /** Options of plotly; where a plot is small, its buttons would lie on the legend. */
  const config = () => ({
    displayModeBar: narrow() ? false : "hover",
    displaylogo: false,
    plotlyServerURL: "",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    toImageButtonOptions: { format: "svg", filename: "baco" },
  });
  function layout(colors, more) {
    const family = getComputedStyle(document.body).fontFamily, size = narrow() ? 11 : 12.5;
    return {
      font: { family, size, color: colors.ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 56, r: 16, t: 28, b: 48 },
      hoverlabel: { bgcolor: colors.paper, bordercolor: colors.faint, font: { color: colors.ink, size, family }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colors.faint, activecolor: colors.accent },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: narrow() ? 11 : 12 } },
      ...more,
    };
  }
  function axis(colors, title, more) {
    return {
      title: { text: title, standoff: 8, font: { size: narrow() ? 11 : 12.5, color: colors.soft } },
      gridcolor: colors.line,
      linecolor: colors.faint,
      zeroline: false,
      automargin: true,
      exponentformat: "power",
      nticks: narrow() ? 4 : 6,
      tickangle: 0,
      ...more,
    };
  }
  /** Logarithmic where values span more than a factor of three, with whole and simple ticks; a single value gets room. */
  function scaled(values) {
    const finite = values.filter((v) => Number.isFinite(v));
    const least = finite.reduce((a, b) => Math.min(a, b), Infinity);
    const most = finite.reduce((a, b) => Math.max(a, b), -Infinity);
    if (least === most && most > 0) return { type: "linear", range: [0, 2 * most] };
    if (!(least > 0 && most > 3 * least)) return { type: "linear" };
    return { type: "log", ...logTicks(least, most) };
  }
  /** Simple numbers of every decade as ticks, as many as have room between two values; nothing where decades are too many. */
  function logTicks(least, most) {
    const fits = narrow() ? 5 : 9;
    for (const steps of [[1, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 2, 3, 4, 6, 8], [1, 2, 5], [1, 3], [1]]) {
      const ticks = [];
      for (let power = Math.floor(Math.log10(least)) - 1; power <= Math.ceil(Math.log10(most)) + 1; power++) {
        for (const step of steps) ticks.push(step * 10 ** power);
      }
      // those a little outside are still on the axis
      if (ticks.filter((tick) => tick > least / 1.3 && tick < most * 1.3).length <= fits) return { tickmode: "array", tickvals: ticks };
    }
    return {};
  }
  /**
   * Call back when colours or the width change: the reader's scheme, another window, paper. What is drawn for paper must be
   * there when the callback returns, or be drawn by what it left for the end of the task (then it returns a promise).
   */
  function onLook(action) {
    const look = () => {
      for (const [table, kept] of tables) if (table.isConnected) kept.look();
      return action();
    };
    for (const query of ["(prefers-color-scheme: dark)", "(max-width: 639px)"]) matchMedia(query).addEventListener("change", look);
    function paper(on) {
      if (on === printing) return;
      printing = on;
      look();
      // papers differ: a plot fills the width of the one at hand
      for (const drawing of document.querySelectorAll(".svg-container")) {
        drawing.style.aspectRatio = on ? parseFloat(drawing.style.width) + " / " + parseFloat(drawing.style.height) : "";
        for (const one of drawing.querySelectorAll("svg.main-svg")) {
          if (on) one.setAttribute("viewBox", "0 0 " + one.getAttribute("width") + " " + one.getAttribute("height"));
          else one.removeAttribute("viewBox");
        }
      }
    }
    addEventListener("beforeprint", () => paper(true));
    addEventListener("afterprint", () => paper(false));
    matchMedia("print").addEventListener("change", (event) => paper(event.matches));
  }
  /** Run a page; what goes wrong is said at its top. */
  function run(start) {
    start().then(() => { document.body.dataset.ready = "yes"; }).catch((error) => {
      $("failure").hidden = false;
      $("failure").textContent = "Part of this page could not be drawn: " + error.message;
      throw error;
    });
  }
  return {
    $, readJson, unpack, esc, cut, grouped, sig, si, joules, percent, edpText, count, plural, bytes, h, svg, download, csv, copyButton,
    fillTable, emptyTable, sortTables, theme, plot, narrow, widthOf, onPaper: () => printing, axis, axisUnit, scaled, logTicks, onLook, run,
  };
})();
