"use strict";
(() => {
  const D = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);

  // Okabe and Ito's colours, told apart by colour-blind readers too.
  const RESOURCES = [
    { key: "array", label: "array (MACs)", color: "#0072b2" },
    { key: "registers", label: "registers", color: "#56b4e9" },
    { key: "accumulator", label: "accumulator", color: "#009e73" },
    { key: "scratchpad", label: "scratchpad", color: "#e69f00" },
    { key: "dram", label: "DRAM", color: "#d55e00" },
  ];
  // What bounds latencies, in the order of a layer's terms: resources as above, or what the instruction-aware model tells apart.
  const ISSUE = [
    { key: "load", label: "loads", color: "#d55e00" },
    { key: "store", label: "stores", color: "#cc79a7" },
    { key: "issue", label: "issue of commands", color: "#f0e442" },
  ];
  const LIMITS = D.limits.map((name) => [...RESOURCES, ...ISSUE].find((one) => one.key === (name === "compute" ? "array" : name)));
  const METRICS = {
    edp: { label: "energy-delay product", unit: "µJ·cycles", scale: 1, format: "" },
    latency: { label: "latency", unit: "cycles", scale: 1, format: "~s" },
    energy: { label: "energy", unit: "J", scale: 1e-12, format: "~s", suffix: "J" },
    area: { label: "area", unit: "mm²", scale: 1, format: "~g" },
    edap: { label: "energy-delay-area product", unit: "µJ·cycles·mm²", scale: 1, format: "" },
    power: { label: "power", unit: "W", scale: 1, format: "~s", suffix: "W" },
    dim: { label: "array side", unit: "PEs", scale: 1, format: "~g" },
    spad: { label: "scratchpad", unit: "KiB", scale: 1, format: "~g" },
    acc: { label: "accumulator", unit: "KiB", scale: 1, format: "~g" },
    samples: { label: "found after", unit: "evaluations", scale: 1, format: "~s" },
  };
  const BARS = 30; // layers shown before the reader asks for all

  // ---------------------------------------------------------------- text
  // Plotly reads a little HTML in labels: names from users' files must not be taken for it.
  const esc = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  // Names of nested modules differ at their ends, so the middle goes.
  function cut(text, most) {
    if (text.length <= most) return text;
    const tail = Math.floor(most * 0.65);
    return text.slice(0, most - tail - 1) + "…" + text.slice(-tail);
  }
  const grouped = (text) => text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  function sig(value, digits = 3) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (value === 0) return "0";
    value = Number(value.toExponential(digits - 1)); // rounded first: 0.9996 is 1.00, not 1.000
    const size = Math.abs(value);
    if (size < 1e-4 || size >= 1e15) return value.toExponential(digits - 1);
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return decimals === 0 ? grouped(value.toFixed(0)) : value.toFixed(decimals);
  }
  function si(value, unit, digits = 3) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (value === 0) return "0 " + unit;
    const prefixes = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
    const found = prefixes.find(([factor]) => Math.abs(value) >= factor * (1 - 0.5 * 10 ** -digits)) || prefixes[9];
    return sig(value / found[0], digits) + " " + found[1] + unit;
  }
  const joules = (picojoules) => si(picojoules === null ? NaN : picojoules * 1e-12, "J");
  const percent = (share) => share > 0 && share < 0.0005 ? "<0.1%" : (share >= 0.0995 || share === 0 ? Math.round(share * 100) : (share * 100).toFixed(1)) + "%";
  const edpText = (value) => (value === 0 ? "0" : value.toExponential(2).replace("e+", "e"));
  const count = (n) => (Number.isInteger(n) ? grouped(String(n)) : sig(n, 4));
  const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : "s");

  // ---------------------------------------------------------------- page elements
  /** An element; children are elements or text, never HTML. */
  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "onclick") element.addEventListener("click", value);
      else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined) element.append(child);
    }
    return element;
  }

  /**
   * Fill a table whose headings sort it. Columns: {title, unit, num, sort(row), cell(row)}; options: pick(row)
   * is called when a row is clicked, mark(row) tells which rows are chosen.
   */
  function fillTable(table, columns, rows, options = {}) {
    const body = h("tbody");
    const lines = rows.map((row) => {
      const line = h("tr", { class: options.pick ? "pick" : null });
      for (const column of columns) {
        const content = column.cell(row);
        line.append(h("td", { class: column.num ? "num" : column.class }, content));
      }
      if (options.pick) line.addEventListener("click", () => options.pick(row));
      return { row, line };
    });
    const heads = columns.map((column) => {
      const text = column.unit ? [column.title + ", ", h("small", {}, column.unit)] : [column.title];
      if (!column.sort) return h("th", { scope: "col" }, h("span", {}, ...text));
      const head = h("th", { scope: "col", class: column.num ? "num" : null });
      head.append(h("button", { type: "button", onclick: () => order(column, head) }, ...text));
      return head;
    });
    function order(column, head) {
      // numbers are looked at from the largest down, names from A
      const first = column.num ? "descending" : "ascending";
      const before = head.getAttribute("aria-sort");
      const now = before === first ? (first === "ascending" ? "descending" : "ascending") : first;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", now);
      const sign = now === "ascending" ? 1 : -1;
      const keyed = lines.map((item, place) => ({ item, place, key: column.sort(item.row) }));
      keyed.sort((a, b) => {
        const order = typeof a.key === "string" ? a.key.localeCompare(b.key, "en", { numeric: true }) : a.key - b.key;
        return sign * order || a.place - b.place;
      });
      body.replaceChildren(...keyed.map(({ item }) => item.line));
    }
    body.append(...lines.map((item) => item.line));
    table.replaceChildren(h("thead", {}, h("tr", {}, heads)), body);
    return {
      mark: (test) => lines.forEach((item) => item.line.classList.toggle("chosen", test(item.row))),
      show: (test) => lines.forEach((item) => (item.line.hidden = !test(item.row))),
    };
  }

  // ---------------------------------------------------------------- plots
  function theme() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    return { ink: get("--ink"), soft: get("--soft"), line: get("--line"), paper: get("--paper"), faint: get("--faint"), accent: get("--accent"), star: get("--star") };
  }
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    plotlyServerURL: "",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    toImageButtonOptions: { format: "svg", filename: "baco" },
  };
  function layout(colors, more) {
    return {
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colors.ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 64, r: 16, t: 12, b: 48 },
      hoverlabel: { bgcolor: colors.paper, bordercolor: colors.faint, font: { color: colors.ink, size: 12.5, family: getComputedStyle(document.body).fontFamily }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colors.faint, activecolor: colors.accent },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
      ...more,
    };
  }
  function axis(colors, title, more) {
    return {
      title: { text: title, standoff: 8, font: { size: 12.5, color: colors.soft } },
      gridcolor: colors.line,
      linecolor: colors.faint,
      zeroline: false,
      automargin: true,
      exponentformat: "power",
      nticks: 6,
      tickangle: 0,
      ...more,
    };
  }
  /** Logarithmic where values span more than a factor of three; a single value gets room around it. */
  function scaled(values) {
    const finite = values.filter((v) => Number.isFinite(v));
    const least = finite.reduce((a, b) => Math.min(a, b), Infinity);
    const most = finite.reduce((a, b) => Math.max(a, b), -Infinity);
    if (least === most && most > 0) return { type: "linear", range: [0, 2 * most] };
    return { type: least > 0 && most > 3 * least ? "log" : "linear" };
  }
  const metricAxis = (colors, name, values) => {
    const m = METRICS[name];
    return axis(colors, m.label + ", " + m.unit, { ...scaled(values), tickformat: m.format, ticksuffix: m.suffix });
  };

  // ---------------------------------------------------------------- state
  let chosen = D.best;
  let unpacked = null; // promise of the layers of all candidates carried
  let rowsShown = D.layers; // of the chosen candidate; null while unknown
  let bySeconds = false;
  let layerTable = null;
  let designTable = null;

  const values = (name) => D.candidates.map((c) => c[name] * METRICS[name].scale);
  const designName = (c) => "#" + c.id + " · " + c.dim + " × " + c.dim;
  const status = (c) => (c.id === D.best ? "best" : c.front ? "on the front" : "dominated");

  function designHover(c) {
    return [
      "<b>" + designName(c) + "</b> (" + status(c) + ")",
      "scratchpad " + c.spad + " KiB, accumulator " + c.acc + " KiB",
      "latency " + si(c.latency, "cycles") + " (" + si(c.latency / (c.clock * 1e6), "s") + ")",
      "energy " + joules(c.energy),
      "EDP " + edpText(c.edp) + " µJ·cycles",
      "area " + sig(c.area) + " mm², power " + si(c.power, "W"),
    ].join("<br>");
  }

  // ---------------------------------------------------------------- trade-offs
  /** Points of the front that are also on the front of the two metrics drawn, from left to right. */
  function staircase(xs, ys, members) {
    const sorted = [...members].sort((a, b) => xs[a] - xs[b] || ys[a] - ys[b]);
    const kept = [];
    let least = Infinity;
    for (const i of sorted) {
      if (ys[i] < least) {
        kept.push(i);
        least = ys[i];
      }
    }
    return kept;
  }

  function drawFront() {
    const colors = theme();
    const names = [$("axis-x").value, $("axis-y").value, $("axis-c").value];
    const [xs, ys, cs] = names.map(values);
    const front = [], rest = [];
    D.candidates.forEach((c, i) => (c.front ? front : rest).push(i));
    const pick = (list, members) => members.map((i) => list[i]);
    const points = (members, more) => ({
      type: "scatter",
      mode: "markers",
      x: pick(xs, members),
      y: pick(ys, members),
      customdata: members,
      text: members.map((i) => designHover(D.candidates[i])),
      hovertemplate: "%{text}<extra></extra>",
      ...more,
    });
    const stairs = staircase(xs, ys, front.length ? front : rest);
    const c = METRICS[names[2]];
    // measured points, each with a line to the prediction it came from
    const moved = D.candidates.flatMap((one, i) => (one.was ? [i] : []));
    const before = (name, i) => (D.candidates[i].was[name] === undefined ? D.candidates[i][name] : D.candidates[i].was[name]) * METRICS[name].scale;
    const lines = (k, list) => moved.flatMap((i) => [before(names[k], i), list[i], null]);
    const failed = D.candidates.flatMap((one, i) => (one.status === "failed" || one.status === "infeasible" ? [i] : []));
    const traces = [
      points(rest, { name: "dominated", marker: { size: 7, color: colors.faint, opacity: 0.55 }, visible: rest.length ? true : "legendonly", showlegend: rest.length > 0 }),
      { type: "scatter", mode: "lines", x: pick(xs, stairs), y: pick(ys, stairs), line: { shape: "hv", color: colors.faint, width: 1.2 }, hoverinfo: "skip", showlegend: false },
      points(front, {
        name: "Pareto front",
        marker: {
          size: 10, color: pick(cs, front), colorscale: "Viridis", line: { color: colors.soft, width: 0.8 },
          showscale: front.length > 1,
          colorbar: { title: { text: c.label + ", " + c.unit, side: "right", font: { size: 12, color: colors.soft } }, thickness: 10, outlinewidth: 0, tickformat: c.format, ticksuffix: c.suffix, len: 0.9 },
        },
      }),
      ...(moved.length ? [
        { type: "scatter", mode: "lines", x: lines(0, xs), y: lines(1, ys), line: { color: colors.soft, width: 1, dash: "dot" }, hoverinfo: "skip", showlegend: false },
        { type: "scatter", mode: "markers", name: "predicted before", x: moved.map((i) => before(names[0], i)), y: moved.map((i) => before(names[1], i)), marker: { symbol: "circle-open", size: 9, color: colors.soft }, hoverinfo: "skip" },
        points(moved, { name: "measured", marker: { symbol: "diamond", size: 12, color: colors.accent, line: { color: colors.paper, width: 1 } } }),
      ] : []),
      ...(failed.length ? [points(failed, { name: "failed or infeasible", marker: { symbol: "x", size: 11, color: "#d55e00" } })] : []),
      points([D.best], { name: "best", marker: { symbol: "star", size: 17, color: colors.star, line: { color: colors.paper, width: 1 } } }),
      points([chosen], { name: "shown below", hoverinfo: "skip", hovertemplate: null, marker: { symbol: "circle-open", size: 21, color: colors.accent, line: { width: 2.5, color: colors.accent } } }),
    ];
    return Plotly.react($("plot-front"), traces, layout(colors, {
      xaxis: metricAxis(colors, names[0], xs),
      yaxis: metricAxis(colors, names[1], ys),
      hovermode: "closest",
    }), CONFIG);
  }

  function showDesign() {
    const c = D.candidates[chosen];
    const ms = c.latency / (c.clock * 1e6);
    const rows = [
      ["Array", c.dim + " × " + c.dim, "PEs"],
      ["Dataflow", { WS: "weight-stationary", OS: "output-stationary", both: "WS and OS" }[c.flow] || c.flow, ""],
      ["Scratchpad", grouped(String(c.spad)), "KiB"],
      ["Accumulator", grouped(String(c.acc)), "KiB"],
      ["Clock", sig(c.clock / 1e3), "GHz"],
      ["DRAM", sig(c.dram), "bytes/cycle"],
      ["Latency", si(ms, "s"), si(c.latency, "cycles")],
      ["Energy", joules(c.energy), ""],
      ["EDP", edpText(c.edp), "µJ·cycles"],
      ["Area", sig(c.area), "mm²"],
      ["Power", si(c.power, "W"), "average"],
      ["Found after", grouped(String(c.samples)), "evaluations"],
    ];
    const best = D.candidates[D.best];
    if (chosen !== D.best && best.edp > 0) rows.push(["EDP against the best", sig(c.edp / best.edp) + "×", ""]);
    const list = h("dl");
    for (const [name, value, unit] of rows) list.append(h("dt", {}, name), h("dd", {}, value + " ", h("small", {}, unit)));
    $("design").replaceChildren(h("h3", {}, designName(c)), h("p", { class: "where" }, status(c) + " · " + c.source + " · hash " + c.hash.slice(0, 8)), list);
    $("showing-name").textContent = designName(c) + ", " + c.spad + " KiB scratchpad, " + c.acc + " KiB accumulator" + (chosen === D.best ? " (best)" : "");
    $("back").hidden = chosen === D.best;
    if (designTable) designTable.mark((row) => row.id === chosen);
  }

  function listDesigns() {
    const number = (key) => (c) => c[key];
    const column = (title, unit, key, text) => ({ title, unit, num: true, sort: number(key), cell: (c) => text(c[key]) });
    designTable = fillTable($("designs"), [
      { title: "Design", sort: (c) => c.id, num: false, cell: (c) => h("button", { type: "button", onclick: (event) => { event.stopPropagation(); select(c.id); } }, "#" + c.id) },
      { title: "Status", class: "limit", sort: status, cell: status },
      column("Array side", "PEs", "dim", String),
      column("Scratchpad", "KiB", "spad", (v) => grouped(String(v))),
      column("Accumulator", "KiB", "acc", (v) => grouped(String(v))),
      column("Latency", "cycles", "latency", (v) => si(v, "").trim()),
      column("Energy", "J", "energy", joules),
      column("EDP", "µJ·cycles", "edp", edpText),
      column("Area", "mm²", "area", (v) => sig(v)),
      column("Found after", "evaluations", "samples", (v) => grouped(String(v))),
    ], D.candidates, { pick: (c) => select(c.id) });
    $("designs-count").textContent = plural(D.candidates.length, "design");
  }

  // ---------------------------------------------------------------- the search
  function drawHistory() {
    const colors = theme();
    const name = D.objective.metrics[0];
    const m = METRICS[name];
    const xs = bySeconds ? D.history.seconds : D.history.samples;
    const ys = D.history.best.map((v) => (v === null ? null : v * m.scale));
    const traces = [{
      type: "scatter", mode: ys.length > 60 ? "lines" : "lines+markers", x: xs, y: ys, name: "best so far",
      text: D.history.phase.map(esc), hovertemplate: "%{y:.4~g} " + m.unit + "<br>%{x} " + (bySeconds ? "s" : "evaluations") + "<br>%{text}<extra></extra>",
      line: { shape: "hv", color: colors.accent, width: 2 }, marker: { size: 5 },
    }];
    if (name === "edp" && xs.length) {
      // the history is of predictions
      D.bounds.filter(bound => bound.predicted).forEach((bound, place) => traces.push({
        type: "scatter", mode: "lines", x: [xs[0], xs[xs.length - 1]], y: [bound.edp, bound.edp], name: esc(bound.name) + " bound",
        hovertemplate: edpText(bound.edp) + " " + m.unit + "<extra>" + esc(bound.name) + " bound</extra>",
        line: { color: colors.faint, width: 1.5, dash: place ? "dash" : "dot" },
      }));
    }
    const all = traces.flatMap((t) => t.y).filter((v) => v !== null);
    return Plotly.react($("plot-history"), traces, layout(colors, {
      xaxis: axis(colors, bySeconds ? "search time, s" : "problem-mapping evaluations", { tickformat: bySeconds ? "~g" : "~s", rangemode: "tozero" }),
      yaxis: axis(colors, m.label + ", " + m.unit, { ...scaled(all), tickformat: m.format, ticksuffix: m.suffix }),
      hovermode: "closest",
    }), CONFIG);
  }

  function showBounds() {
    const best = D.candidates[D.best];
    const line = (name, edp, remark, limit) => {
      const bar = h("div", { class: limit ? "bar limit" : "bar" });
      bar.style.width = (best.edp > 0 ? Math.min(100, (100 * edp) / best.edp) : 0) + "%";
      return h("div", { class: "bound" }, h("div", { class: "line" }, h("span", {}, name), h("b", {}, edpText(edp) + " µJ·cycles")), bar, remark ? h("p", {}, remark) : null);
    };
    const items = [line("best design, " + D.source, best.edp, null, false)];
    for (const bound of D.bounds) {
      const ratio = bound.edp > 0 ? "The best design is at " + sig(best.edp / bound.edp) + "× this. " : "";
      items.push(line(bound.name + " bound", bound.edp, ratio + bound.explanation, true));
    }
    if (!D.bounds.length) items.push(h("p", { class: "hint" }, "No bound was computed for this workload."));
    $("bounds").replaceChildren(...items);
  }

  // ---------------------------------------------------------------- layers
  /** Rows of the chosen design as objects; numbers are of all runs unless `one` says otherwise. */
  function layerRows() {
    const dim = D.candidates[chosen].dim;
    return rowsShown.map((row, i) => {
      const [mapping, latency, energy, executed, dram, ...rest] = row;
      const task = D.tasks[i];
      const busy = rest.slice(0, LIMITS.length), parts = rest.slice(LIMITS.length, LIMITS.length + RESOURCES.length);
      return {
        i, task, mapping, style: rest[LIMITS.length + RESOURCES.length] || "", latency: latency * task.count, energy: energy * task.count, one: latency, executed, dram, busy,
        parts: parts.map((v) => v * task.count),
        limit: busy.indexOf(Math.max(...busy)),
        use: latency > 0 ? task.macs / latency / (dim * dim) : 0,
      };
    });
  }
  const shareOf = (rows, key) => {
    const total = rows.reduce((sum, row) => sum + row[key], 0) || 1;
    return (row) => row[key] / total;
  };
  const several = D.workload.length > 1;
  const layerName = (task) => (several ? task.network + ": " : "") + task.name;

  function drawLayers(rows) {
    const colors = theme();
    const timeShare = shareOf(rows, "latency"), energyShare = shareOf(rows, "energy");
    let shown = rows;
    if (rows.length > BARS && !$("all-bars").checked) {
      const heavy = new Set([...rows].sort((a, b) => timeShare(b) + energyShare(b) - timeShare(a) - energyShare(a)).slice(0, BARS).map((r) => r.i));
      shown = rows.filter((r) => heavy.has(r.i));
    }
    const rest = rows.length - shown.length;
    const sum = (value) => shown.reduce((total, row) => total + value(row), 0);
    $("bars-note").hidden = rest === 0;
    $("bars-note").textContent = "The " + BARS + " heaviest of " + rows.length + " layers. The other " + rest + " take " +
      percent(1 - sum(timeShare)) + " of the time and " + percent(1 - sum(energyShare)) + " of the energy.";
    const labels = shown.map((r) => esc(cut(layerName(r.task), 36)));
    const ticks = labels.map((_, place) => place);
    const hover = (row) => "<b>" + esc(cut(layerName(row.task), 60)) + "</b><br>" + esc(row.task.problem) + ", " + plural(row.task.count, "run");
    const timeText = shown.map((r) => hover(r) + "<br>" + si(r.latency, "cycles") + " (" + percent(timeShare(r)) + " of the time)<br>" +
      r.busy.map((t, k) => LIMITS[k].label + " busy " + percent(r.one > 0 ? t / r.one : 0)).join("<br>"));
    const traces = [];
    const bar = (resource) => ({ type: "bar", orientation: "h", y: ticks, legendgroup: resource.key, name: resource.label, marker: { color: resource.color }, hovertemplate: "%{hovertext}<extra></extra>" });
    LIMITS.forEach((limit, k) => {
      traces.push({ ...bar(limit), x: shown.map((r) => (r.limit === k ? r.latency : 0)), hovertext: timeText, showlegend: !RESOURCES.includes(limit) });
    });
    RESOURCES.forEach((resource, k) => {
      const energyText = shown.map((r) => hover(r) + "<br>" + resource.label + ": " + joules(r.parts[k]) + " of " + joules(r.energy));
      traces.push({ ...bar(resource), x: shown.map((r) => r.parts[k] * 1e-12), hovertext: energyText, xaxis: "x2" });
    });
    const element = $("plot-layers");
    const height = Math.max(240, 24 * labels.length + 110);
    element.style.height = height + "px";
    return Plotly.react(element, traces, layout(colors, {
      barmode: "stack", height, bargap: 0.28,
      margin: { l: 40, r: 16, t: 12, b: 48 },
      xaxis: axis(colors, "latency, cycles", { domain: [0, 0.485], tickformat: "~s", rangemode: "tozero" }),
      xaxis2: axis(colors, "energy, J", { domain: [0.515, 1], tickformat: "~s", ticksuffix: "J", rangemode: "tozero", anchor: "y" }),
      yaxis: axis(colors, "", { tickvals: ticks, ticktext: labels, range: [labels.length - 0.5, -0.5], showgrid: false, fixedrange: true, title: undefined }),
      hovermode: "closest",
    }), CONFIG);
  }

  function drawRoof(rows) {
    const colors = theme();
    const c = D.candidates[chosen];
    const peak = c.dim * c.dim;
    const timeShare = shareOf(rows, "latency");
    const placed = rows.filter((r) => r.dram > 0 && r.one > 0).map((r) => ({ r, x: r.task.macs / r.dram, y: r.task.macs / r.one }));
    const xs = placed.map((p) => p.x), ridge = peak / c.dram;
    const left = Math.min(ridge, ...xs) / 3, right = Math.max(ridge, ...xs) * 3;
    const traces = [{
      type: "scatter", mode: "lines", x: [left, ridge, right], y: [left * c.dram, peak, peak], 
      name: "roof: " + grouped(String(peak)) + " MACs/cycle, " + sig(c.dram) + " DRAM bytes/cycle",
      line: { color: colors.soft, width: 2 }, hoverinfo: "skip",
    }];
    LIMITS.forEach((resource, limit) => {
      const members = placed.filter((p) => p.r.limit === limit);
      traces.push({
        type: "scatter", mode: "markers", name: resource.label + "-limited", x: members.map((p) => p.x), y: members.map((p) => p.y),
        visible: members.length > 0, customdata: members.map((p) => p.r.i),
        text: members.map(({ r, x, y }) => "<b>" + esc(cut(layerName(r.task), 60)) + "</b><br>" + esc(r.task.problem) + "<br>" + sig(y) + " MACs/cycle (" + percent(r.use) + " of the array)<br>" + sig(x) + " MACs/DRAM byte<br>" + percent(timeShare(r)) + " of the time"),
        hovertemplate: "%{text}<extra></extra>",
        marker: { color: resource.color, opacity: 0.85, size: members.map((p) => 8 + 26 * Math.sqrt(timeShare(p.r))), line: { color: colors.paper, width: 1 } },
      });
    });
    return Plotly.react($("plot-roof"), traces, layout(colors, {
      xaxis: axis(colors, "MACs per DRAM byte", { type: "log", range: [Math.log10(left), Math.log10(right)], tickformat: "~g" }),
      yaxis: axis(colors, "MACs per cycle", { type: "log", tickformat: "~g" }),
      hovermode: "closest",
    }), CONFIG);
  }

  function listLayers(rows) {
    const timeShare = shareOf(rows, "latency"), energyShare = shareOf(rows, "energy");
    const columns = [
      { title: "#", num: true, sort: (r) => r.i, cell: (r) => String(r.i + 1) },
      {
        title: "Layer", sort: (r) => layerName(r.task),
        cell: (r) => h("div", { class: "name", title: r.task.operators.join("\n") + (r.task.more ? "\n… " + r.task.more + " more" : "") }, layerName(r.task), h("div", { class: "sub2" }, r.task.kind + " · " + r.task.problem)),
      },
      { title: "Runs", num: true, sort: (r) => r.task.count, cell: (r) => count(r.task.count) },
      { title: "Latency", unit: "cycles", num: true, sort: (r) => r.latency, cell: (r) => [si(r.latency, "").trim(), h("div", { class: "sub2" }, percent(timeShare(r)))] },
      { title: "Energy", unit: "J", num: true, sort: (r) => r.energy, cell: (r) => [joules(r.energy), h("div", { class: "sub2" }, percent(energyShare(r)))] },
      {
        title: "Limited by", class: "limit", sort: (r) => LIMITS[r.limit].label,
        cell: (r) => { const dot = h("span", { class: "dot" }); dot.style.background = LIMITS[r.limit].color; return [dot, LIMITS[r.limit].label, r.style ? h("div", { class: "sub2" }, r.style + " code") : null]; },
      },
      { title: "Array in use", num: true, sort: (r) => r.use, cell: (r) => percent(r.use) },
      { title: "DRAM words", unit: "one run", num: true, sort: (r) => r.dram, cell: (r) => si(r.dram, "").trim() },
      { title: "Mapping", class: "map", cell: (r) => r.mapping.split(" - ").map((level) => { const [head, ...loops] = level.split(" "); return h("span", {}, h("b", {}, head), " " + loops.join(" ") + " "); }) },
    ];
    layerTable = fillTable($("layers"), columns, rows);
    applyFilter();
  }
  function applyFilter() {
    const wanted = $("filter").value.trim().toLowerCase();
    if (layerTable) layerTable.show((r) => !wanted || (layerName(r.task) + " " + r.task.operators.join(" ") + " " + r.task.problem + " " + r.task.kind).toLowerCase().includes(wanted));
  }

  function unpack() {
    if (!unpacked) {
      unpacked = (async () => {
        const bytes = Uint8Array.from(atob($("packed").textContent.trim()), (c) => c.charCodeAt(0));
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
        const all = JSON.parse(await new Response(stream).text());
        for (const rows of Object.values(all.rows)) for (const row of rows) row[0] = all.texts[row[0]];
        return all.rows;
      })();
    }
    return unpacked;
  }

  async function select(id) {
    chosen = id;
    showDesign();
    const drawing = drawFront();
    let rows = null, reason = "";
    if (id === D.best) rows = D.layers;
    else if (!D.candidates[id].packed) reason = "The layers of this design are not in the page; its mappings are in candidates.parquet.";
    else {
      try {
        rows = (await unpack())[id];
      } catch (error) {
        reason = "This browser cannot unpack the layers of designs other than the best (" + error.message + ").";
      }
    }
    if (chosen !== id) return; // another design was clicked meanwhile
    rowsShown = rows;
    await drawing;
    await showLayers(reason);
    document.body.dataset.shown = String(id);
  }

  async function showLayers(reason) {
    if (!rowsShown) {
      layerTable = null;
      for (const plot of ["plot-layers", "plot-roof"]) {
        Plotly.purge($(plot));
        $(plot).style.height = "";
        $(plot).replaceChildren(h("p", { class: "warn" }, reason));
      }
      $("layers").replaceChildren(h("tbody", {}, h("tr", {}, h("td", {}, reason))));
      return;
    }
    for (const plot of ["plot-layers", "plot-roof"]) {
      const warning = $(plot).querySelector("p.warn");
      if (warning) warning.remove();
    }
    const rows = layerRows();
    listLayers(rows);
    await Promise.all([drawLayers(rows), drawRoof(rows)]);
  }

  // ---------------------------------------------------------------- the rest
  function showHost() {
    if (!D.host.length) {
      $("host-section").hidden = true;
      return;
    }
    const cycles = D.host.reduce((sum, op) => sum + op.count * op.cycles, 0);
    const known = D.host.every((op) => op.energy !== null);
    const energy = D.host.reduce((sum, op) => sum + op.count * (op.energy || 0), 0);
    const best = D.candidates[D.best];
    $("host-hint").textContent = "The array cannot run these operators. Predicted by a simple model and not part of any number above: " + si(cycles, "cycles") +
      (best.latency > 0 ? " (" + percent(cycles / best.latency) + " of the best design's latency)" : "") + (known ? ", " + joules(energy) : "") + ".";
    fillTable($("host"), [
      { title: "Operator", sort: (op) => op.operator, class: "wrap", cell: (op) => op.operator },
      { title: "Network", sort: (op) => op.network, class: "wrap", cell: (op) => op.network },
      { title: "Kind", sort: (op) => op.kind, cell: (op) => op.kind },
      { title: "Runs", num: true, sort: (op) => op.count, cell: (op) => count(op.count) },
      { title: "Latency", unit: "cycles", num: true, sort: (op) => op.count * op.cycles, cell: (op) => si(op.count * op.cycles, "").trim() },
      { title: "Energy", unit: "J", num: true, sort: (op) => (op.energy === null ? -1 : op.count * op.energy), cell: (op) => (op.energy === null ? "–" : joules(op.count * op.energy)) },
    ], D.host);
  }

  function showNetworks() {
    fillTable($("networks"), [
      { title: "Network", sort: (n) => n.name, class: "wrap", cell: (n) => [n.name, h("div", { class: "sub2" }, n.source)] },
      { title: "Weight", num: true, sort: (n) => n.weight, cell: (n) => count(n.weight) },
      { title: "MACs", num: true, sort: (n) => n.macs, cell: (n) => si(n.macs, "").trim() },
      { title: "Weights", unit: "words", num: true, sort: (n) => n.words, cell: (n) => si(n.words, "").trim() },
      { title: "Tensor operators", num: true, sort: (n) => n.operators, cell: (n) => grouped(String(n.operators)) },
      { title: "Unique problems", num: true, sort: (n) => n.problems, cell: (n) => grouped(String(n.problems)) },
      { title: "Latency on the best", unit: "cycles", num: true, sort: (n) => n.latency, cell: (n) => si(n.latency, "").trim() },
      { title: "Energy on the best", unit: "J", num: true, sort: (n) => n.energy, cell: (n) => joules(n.energy) },
    ], D.workload);
    const missing = D.workload.flatMap((n) => n.unsupported.map((item) => [n.name, ...item]));
    if (missing.length) {
      $("unsupported").replaceChildren(
        h("p", { class: "warn" }, plural(missing.length, "operator") + " could not be costed and " + (missing.length === 1 ? "is" : "are") + " left out of every number:"),
        h("ul", {}, missing.map(([network, kind, node, reason]) => h("li", {}, network + ": " + kind + " (" + node + ")" + (reason ? ", " + reason : "")))));
    }
  }

  function showTexts() {
    for (const [label, value, remark] of D.cards) {
      $("cards").append(h("li", {}, h("span", { class: "label" }, label), h("span", { class: "value" }, value), h("span", { class: "remark" }, remark)));
    }
    if (D.notes.length) {
      $("notes").hidden = false;
      $("notes").append(...D.notes.map((note) => h("li", {}, note)));
    }
    $("command").textContent = D.command;
    $("accelerator").textContent = D.accelerator;
    $("space").textContent = D.space;
    $("space-box").hidden = !D.space;
    fillTable($("facts"), [
      { title: "Fact", cell: (row) => row[0] },
      { title: "Value", class: "wrap", cell: (row) => row[1] },
    ], D.facts);
    $("copy").addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(D.command);
        $("copy").textContent = "copied";
      } catch {
        getSelection().selectAllChildren($("command")); // the reader can copy it by hand
      }
    });
  }

  function controls() {
    for (const [id, first] of [["axis-x", D.objective.x], ["axis-y", D.objective.y], ["axis-c", null]]) {
      const names = id === "axis-c" ? ["area", "latency", "energy", "edp", "power", "dim", "spad", "acc", "samples"] : ["latency", "energy", "area", "edp", "edap", "power"];
      const start = first || ["area", "latency", "energy"].find((name) => name !== D.objective.x && name !== D.objective.y);
      $(id).append(...names.map((name) => h("option", { value: name, selected: name === start }, METRICS[name].label)));
      $(id).value = start;
      $(id).addEventListener("change", drawFront);
    }
    const toggle = (seconds) => {
      bySeconds = seconds;
      $("by-samples").setAttribute("aria-pressed", String(!seconds));
      $("by-seconds").setAttribute("aria-pressed", String(seconds));
      drawHistory();
    };
    $("by-samples").addEventListener("click", () => toggle(false));
    $("by-seconds").addEventListener("click", () => toggle(true));
    $("back").addEventListener("click", () => select(D.best));
    $("all-bars").parentElement.hidden = D.tasks.length <= BARS;
    $("all-bars").addEventListener("change", () => rowsShown && drawLayers(layerRows()));
    $("filter").addEventListener("input", applyFilter);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
  }

  async function drawAll() {
    await Promise.all([drawFront(), drawHistory()]);
    if (rowsShown) await showLayers("");
  }

  async function start() {
    showTexts();
    controls();
    showDesign();
    listDesigns();
    designTable.mark((row) => row.id === chosen);
    showBounds();
    showHost();
    showNetworks();
    await drawAll();
    $("plot-front").on("plotly_click", (event) => {
      const id = event.points[0].customdata;
      if (id !== undefined) select(id);
    });
    document.body.dataset.shown = String(chosen);
    document.body.dataset.ready = "yes";
  }
  start().catch((error) => {
    $("failure").hidden = false;
    $("failure").textContent = "Part of this page could not be drawn: " + error.message;
    throw error;
  });
})();
