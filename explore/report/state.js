  // What the report's page knows: the data, what is chosen, how quantities are called.
  const { $, readJson, unpack, esc, cut, grouped, sig, si, joules, percent, edpText, count, plural, bytes, h, svg, download, csv, copyButton } = Baco;
  const { fillTable, emptyTable, theme, plot, narrow, onPaper, axis, axisUnit, scaled, onLook, run } = Baco;
  const D = readJson("data");

  const RESOURCE = readJson("resources"); // label and color of what time and energy go to, by name
  const resource = (key) => ({ key, ...RESOURCE[key] });
  // What energy goes to, in the order of the numbers of a part.
  const COMPONENTS = D.components.map(resource);
  // What bounds latencies, in the order of a layer's terms: resources as above, or what the instruction-aware model tells apart.
  const LIMITS = D.limits.map(resource);
  // What limits a part of a program: a resource, or what the part is where no single resource is known to.
  const WAITS = [...LIMITS, ...["group", "operator", "host"].map(resource)];
  const waitOf = (key) => WAITS.find((one) => one.key === key);
  const LIMIT_NOTE = {
    compute: "passes of the array", accumulator: "its ports", scratchpad: "its ports", dram: "its bandwidth",
    memory: "the channel of main memory that loads and stores share", load: "the load unit and its memory port",
    store: "the store unit and its memory port", issue: "the host core, writing commands",
    group: "operators that run as one unit", operator: "additions, poolings and the like, on the accelerator",
    host: "operators that it computes by itself",
  };
  const BLOCKS = { array: "array", accumulator: "accumulator", scratchpad: "scratchpad", tables: "tables of functions", logic: "further logic", memory_interface: "memory interface" };
  const METRICS = {
    edp: { label: "energy-delay product", unit: D.edpUnit, scale: 1, format: "" },
    latency: { label: "latency", unit: "cycles", scale: 1, prefixed: true },
    energy: { label: "energy", unit: "J", scale: 1e-12, prefixed: true },
    area: { label: "area", unit: "mm²", scale: 1, format: "~g" },
    edap: { label: "energy-delay-area product", unit: D.edpUnit + "·mm²", scale: 1, format: "" },
    power: { label: "power", unit: "W", scale: 1, prefixed: true },
    dim: { label: "array side", unit: "PEs", scale: 1, format: "~g" },
    spad: { label: "scratchpad", unit: "KiB", scale: 1, format: "~g" },
    acc: { label: "accumulator", unit: "KiB", scale: 1, format: "~g" },
    samples: { label: "found after", unit: "evaluations", scale: 1, format: "~s" },
  };
  // What is minimised by a function of the user's has its name, and no unit.
  for (const name of D.objective.metrics) METRICS[name] ||= { label: name, unit: "", scale: 1, format: "" };
  /** A metric's values as an axis or a scale of colours has them: divided so that its unit's prefix fits, what to call it, how ticks are written. */
  function metricScale(name, values, type) {
    const m = METRICS[name];
    const { factor, unit } = m.prefixed ? axisUnit(values, m.unit, type) : { factor: 1, unit: m.unit };
    return { of: (v) => v / factor, title: m.label + (unit ? ", " + unit : ""), format: m.prefixed ? "~g" : m.format };
  }
  /** The known error in the mean of what predicts a metric, to stand behind its unit. */
  const within = (name, of = "design") => " ± " + percent(D.errors[of][name].mean);
  const DIMS = ["R", "S", "P", "Q", "C", "K", "N"];
  const TENSORS = [
    { key: "W", label: "weights", color: "#0072b2" },
    { key: "I", label: "inputs", color: "#009e73" },
    { key: "O", label: "outputs", color: "#cc79a7" },
  ];
  const LEVELS = ["registers", "accumulator", "scratchpad", "DRAM"];

  // ---------------------------------------------------------------- what is chosen
  let chosen = D.best; // place of the design in view
  let pinned = []; // places of designs that are compared
  let rowsShown = null; // parts of the program of the design in view, the layers first, one a task; null while unknown
  let everything = null; // promise of the deflated block

  const designName = (c) => (c.label || "#" + c.id) + " · " + c.dim + " × " + c.dim;
  const status = (c) => (c.label ? "Gemmini's own tiling" : c.id === D.best ? "best" : c.front ? "on the front" : "dominated");
  /** What was predicted of a design, whether it was measured since or not. */
  const predictedOf = (c) => c.was || c;
  const several = D.workload.length > 1;
  const layerName = (one) => (several ? one.network + ": " : "") + one.name;

  /** The block that holds a design; null where the page does not carry it. Rejects where a browser cannot unpack. */
  async function blockOf(id) {
    if (!D.candidates[id].packed) return null;
    if (id === D.best) return D.shown;
    everything ||= unpack("packed");
    return everything;
  }
  /** Parts of the program of a design as objects: what `rowsShown` holds. */
  async function layersOf(id) {
    const all = await blockOf(id), design = D.candidates[id];
    if (all === null) return null;
    const layers = all.rows[id].map((row, i) => layerRow(all.mappings[row.mapping], row, D.tasks[i], i, design));
    const rows = [...layers, ...all.besides[all.beside[id]].map((row, i) => otherRow(all.units[row.unit], row, layers.length + i, design))];
    rows.waits = all.bottlenecks[id];
    rows.graphs = all.graph[id].map((place) => all.graphs[place]);
    rows.terms = all.measured_terms[id] || null;
    return rows;
  }
  /** Correctly rounded sum, as `math.fsum` gives it (Shewchuk's partial sums): files that the page saves are equal to the last digit. */
  function exactSum(values) {
    const partials = []; // that do not overlap, the least first
    for (let x of values) {
      let kept = 0;
      for (let y of partials) {
        if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
        const high = x + y, low = y - (high - x);
        if (low) partials[kept++] = low;
        x = high;
      }
      partials.length = kept;
      partials.push(x);
    }
    let sum = 0, low = 0;
    while (partials.length && !low) {
      const x = sum, y = partials.pop();
      sum = x + y;
      low = y - (sum - x);
    }
    // halfway between two numbers what is left decides
    const next = partials[partials.length - 1] || 0;
    if (low * next > 0 && sum + 2 * low - sum === 2 * low) sum += 2 * low;
    return sum;
  }
  /** Numbers of a part: of all runs unless they are called `one`. */
  function numbersOf(row, macs, design) {
    const { cycles: one, runs, dram_words: dram, measured = null } = row;
    const oneParts = COMPONENTS.map(({ key }) => row.energy[key] || 0), oneEnergy = exactSum(oneParts);
    return {
      macs, dram, one, oneEnergy, oneParts, runs, measured, latency: one * runs, energy: oneEnergy * runs, parts: oneParts.map((v) => v * runs),
      use: one > 0 && macs > 0 ? macs / one / (design.dim * design.dim) : 0,
    };
  }
  function layerRow(mapping, row, task, i, design) {
    const { executed, style, groups = [], detail } = row, busy = D.limits.map((name) => row.busy[name]);
    return {
      i, task, mapping, executed, busy, style, groups, detail, ...numbersOf(row, task.macs, design),
      network: task.network, name: task.name, kind: "layer", fn: task.kind, on: "accelerator", what: task.kind + " · " + task.problem, operators: task.operators,
      limit: D.limits[busy.indexOf(Math.max(...busy))], counted: row.runs > 0,
    };
  }
  function otherRow({ network, name, kind, function: fn, on, operators, macs }, row, i, design) {
    return {
      i, network, name, kind, fn, on, operators, groups: [], what: kind === "group" ? "runs as one unit" : fn, ...numbersOf(row, macs, design),
      limit: on === "host" ? "host" : kind, counted: D.whole && row.runs > 0,
    };
  }
  /** What runs: parts of the predicted program, and of the measured one. */
  const running = (rows) => rows.filter((row) => row.counted || row.measured);
  /** Share of the whole program, as predicted. */
  const shareOf = (key) => {
    const total = predictedOf(D.candidates[chosen])[key] || 1;
    return (row) => (row.counted ? row[key] / total : 0);
  };
  const dotOf = (color) => { const dot = h("span", { class: "dot" }); dot.style.background = color; return dot; };
  const barOf = (share, color) => { const bar = h("div", { class: "bar" }); bar.style.width = 100 * Math.min(1, share) + "%"; bar.style.background = color; return h("div", { class: "track" }, bar); };

  /** The design in view and those pinned, in the address, so that a reader can send or keep it. */
  function writeAddress() {
    const name = (id) => (D.candidates[id].label ? "gemmini" : String(id));
    const parts = chosen === D.best && !pinned.length ? [] : ["design=" + name(chosen)];
    if (pinned.length) parts.push("pin=" + pinned.map(name).join(","));
    try {
      history.replaceState(null, "", parts.length ? "#" + parts.join("&") : location.pathname + location.search);
    } catch { /* some browsers refuse this for files */ }
  }
  let unknown = []; // what the address asks for and is not there, in its own words
  /** Takes over what is pinned; returns the place of the design to show. */
  function readAddress() {
    unknown = [];
    const place = (what) => (text) => {
      const found = D.candidates.findIndex((c) => (c.label ? "gemmini" : String(c.id)) === text);
      if (found < 0) unknown.push(what + cut(text, 24));
      return found;
    };
    let design = D.best;
    pinned = [];
    for (const part of location.hash.replace(/^#/, "").split("&").filter(Boolean)) {
      const [name, value] = part.split("=");
      if (value === undefined) continue; // a place in the page
      if (name === "design") design = place("design ")(value);
      else if (name === "pin") pinned = value.split(",").filter(Boolean).map(place("pinned design ")).filter((id, at, all) => id >= 0 && all.indexOf(id) === at).slice(0, MOST_PINNED);
      else unknown.push(cut(part, 24));
    }
    return design >= 0 ? design : D.best;
  }
