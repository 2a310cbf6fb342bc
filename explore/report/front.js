  // Designs to choose from: the picture, the list, the panel of the design in view.
  const NEAR = 5; // the picture shows what is within this factor of the best
  let designTable = null;
  const pins = new Map(); // boxes of the list, by design

  // Mappings found for one accelerator: the best of them stands for it.
  const groups = new Map();
  D.candidates.forEach((c, id) => groups.set(c.hash + (c.label || ""), [...(groups.get(c.hash + (c.label || "")) || []), id]));
  const mappingsOf = (id) => groups.get(D.candidates[id].hash + (D.candidates[id].label || ""));
  // what was measured stands for its accelerator: a prediction is no better for being lower
  const before = (a, b) => (D.candidates[a].source === D.candidates[b].source ? D.candidates[b].value < D.candidates[a].value : D.candidates[b].source === "measured");
  const heads = [...groups.values()].map((members) => members.reduce((a, b) => (before(a, b) ? b : a)));
  const isFront = (id) => mappingsOf(id).some((other) => D.candidates[other].front);

  const values = (name) => D.candidates.map((c) => c[name] * METRICS[name].scale);

  function designHover(c) {
    return [
      "<b>" + designName(c) + "</b> (" + status(c) + (c.tie ? ", a tie with the best" : "") + ")",
      "scratchpad " + c.spad + " KiB, accumulator " + c.acc + " KiB",
      "latency " + si(c.latency, "cycles") + " (" + si(c.latency / (c.clock * 1e6), "s") + ")",
      "energy " + joules(c.energy),
      "EDP " + edpText(c.edp) + " " + D.edpUnit,
      "area " + sig(c.area) + " mm², power " + si(c.power, "W"),
    ].join("<br>");
  }

  /** What no filter takes away: the best, Gemmini's machine, what was chosen to be measured, what is in view or pinned. */
  const always = (id) => D.candidates[id].label || D.candidates[id].status || id === D.best || id === chosen || pinned.includes(id);
  function passes(id) {
    const c = D.candidates[id];
    if (always(id)) return true;
    if (!$("every-mapping").checked && !heads.includes(id)) return false;
    if ($("only-front").checked && !isFront(id)) return false;
    if ($("filter-dim").value && String(c.dim) !== $("filter-dim").value) return false;
    const area = parseFloat($("filter-area").value);
    if (Number.isFinite(area) && c.area > area) return false;
    return true;
  }
  /** In the list a row stands for an accelerator, as measured where it was. */
  const listed = (id) => passes(id) && ($("every-mapping").checked || heads.includes(id) || id === chosen || pinned.includes(id));
  const near = (id, list) => list.every((one) => !(one[id] > NEAR * one[D.best]));

  /** Members that no other member is below and left of, from left to right. */
  function staircase(xs, ys, members) {
    const kept = [];
    let least = Infinity;
    for (const i of [...members].sort((a, b) => xs[a] - xs[b] || ys[a] - ys[b])) {
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
    let [xs, ys, cs] = names.map(values);
    let shown = D.candidates.map((_, id) => id).filter(passes);
    const all = shown.length;
    if (!$("zoom-all").checked) shown = shown.filter((id) => always(id) || near(id, [xs, ys]));
    $("front-note").hidden = shown.length === all;
    $("front-note").textContent = plural(all - shown.length, "design") + " more than " + NEAR + "× the best in " + METRICS[names[0]].label + " or " + METRICS[names[1]].label + (all - shown.length === 1 ? " is" : " are") + " outside the picture.";
    const found = shown.filter((id) => !D.candidates[id].label);
    const front = found.filter(isFront), rest = found.filter((id) => !isFront(id));
    const pickFrom = (list) => shown.map((i) => list[i]);
    const kinds = [xs, ys].map((list) => scaled(pickFrom(list)).type);
    const scales = [metricScale(names[0], pickFrom(xs), kinds[0]), metricScale(names[1], pickFrom(ys), kinds[1]), metricScale(names[2], front.map((i) => cs[i]))];
    [xs, ys, cs] = [xs, ys, cs].map((list, k) => list.map(scales[k].of));
    const pick = (list, members) => members.map((i) => list[i]);
    const points = (members, more) => ({
      type: "scatter", mode: "markers",
      x: pick(xs, members), y: pick(ys, members), customdata: members,
      text: members.map((i) => designHover(D.candidates[i])),
      hovertemplate: "%{text}<extra></extra>",
      ...more,
    });
    const stairs = staircase(xs, ys, front.length ? front : rest);
    // measured points, each with a line to the prediction it came from
    const moved = found.filter((i) => D.candidates[i].was);
    const before = (k, i) => {
      const was = D.candidates[i].was[names[k]];
      return scales[k].of((was === undefined ? D.candidates[i][names[k]] : was) * METRICS[names[k]].scale);
    };
    const lines = (k, list) => moved.flatMap((i) => [before(k, i), list[i], null]);
    const failed = found.filter((i) => ["failed", "infeasible"].includes(D.candidates[i].status));
    const machine = shown.filter((id) => D.candidates[id].label);
    const traces = [
      points(rest, { name: "dominated", marker: { size: 7, color: colors.faint, opacity: 0.55 }, visible: rest.length ? true : "legendonly", showlegend: rest.length > 0 }),
      { type: "scatter", mode: "lines", x: pick(xs, stairs), y: pick(ys, stairs), line: { shape: "hv", color: colors.faint, width: 1.2 }, hoverinfo: "skip", showlegend: false },
      points(front, {
        name: "Pareto front",
        marker: {
          size: 10, color: pick(cs, front), colorscale: "Viridis", line: { color: colors.soft, width: 0.8 },
          showscale: front.length > 1 && !narrow(),
          colorbar: { title: { text: scales[2].title, side: "right", font: { size: 12, color: colors.soft } }, thickness: 10, outlinewidth: 0, tickformat: scales[2].format, len: 0.9 },
        },
      }),
      ...(moved.length ? [
        { type: "scatter", mode: "lines", x: lines(0, xs), y: lines(1, ys), line: { color: colors.soft, width: 1, dash: "dot" }, hoverinfo: "skip", showlegend: false },
        { type: "scatter", mode: "markers", name: "predicted before", x: moved.map((i) => before(0, i)), y: moved.map((i) => before(1, i)), marker: { symbol: "circle-open", size: 9, color: colors.soft }, hoverinfo: "skip" },
        points(moved, { name: "measured", marker: { symbol: "diamond", size: 12, color: colors.accent, line: { color: colors.paper, width: 1 } } }),
      ] : []),
      ...(failed.length ? [points(failed, { name: "failed or infeasible", marker: { symbol: "x", size: 11, color: "#d55e00" } })] : []),
      ...(machine.length ? [points(machine, { name: D.candidates[machine[0]].label, marker: { symbol: "square", size: 12, color: "#cc79a7", line: { color: colors.paper, width: 1 } } })] : []),
      points([D.best], { name: "best", marker: { symbol: "star", size: 17, color: colors.star, line: { color: colors.paper, width: 1 } } }),
      ...(pinned.length ? [points(pinned, { name: "pinned", hoverinfo: "skip", hovertemplate: null, marker: { symbol: "square-open", size: 19, color: colors.ink, line: { width: 1.5, color: colors.ink } } })] : []),
      points([chosen], { name: "shown below", hoverinfo: "skip", hovertemplate: null, marker: { symbol: "circle-open", size: 21, color: colors.accent, line: { width: 2.5, color: colors.accent } } }),
    ];
    return plot($("plot-front"), traces, {
      xaxis: axis(colors, scales[0].title, { ...scaled(pick(xs, shown)), tickformat: scales[0].format }),
      yaxis: axis(colors, scales[1].title, { ...scaled(pick(ys, shown)), tickformat: scales[1].format }),
      margin: { l: 56, r: 16, t: narrow() ? 84 : 48, b: 48 },
      hovermode: "closest",
    });
  }

  function showDesign() {
    const c = D.candidates[chosen];
    const ms = c.latency / (c.clock * 1e6);
    const error = (name) => (c.source === "predicted" ? within(name) : "");
    const rows = [
      ["Array", c.dim + " × " + c.dim, "PEs"],
      ["Dataflow", { WS: "weight-stationary", OS: "output-stationary", both: "WS and OS" }[c.flow] || c.flow, ""],
      ["Units", c.units.replace("_", " "), c.units === "none" ? "" : "softmax, norms, tables"],
      ["Scratchpad", grouped(c.spad), "KiB"],
      ["Accumulator", grouped(c.acc), "KiB"],
      ["Clock", sig(c.clock / 1e3), "GHz"],
      ["DRAM", sig(c.dram), "bytes/cycle"],
      ["Latency", si(ms, "s"), si(c.latency, "cycles") + error("latency")],
      ["Energy", joules(c.energy), error("energy")],
      ["EDP", edpText(c.edp), D.edpUnit + error("edp")],
      ["Area", sig(c.area), "mm²" + within("area")],
      ["Power", si(c.power, "W"), "average"],
    ];
    if (!c.label) rows.push(["Found after", grouped(c.samples), "evaluations"]);
    const best = D.candidates[D.best];
    if (chosen !== D.best && best.edp > 0) rows.push(["EDP against the best", sig(c.edp / best.edp) + "×", ""]);
    const list = h("dl");
    for (const [name, value, unit] of rows) list.append(h("dt", {}, name), h("dd", {}, value + " ", h("small", {}, unit)));
    const pin = h("button", { type: "button", onclick: () => togglePin(chosen) }, pinned.includes(chosen) ? "unpin" : "pin to compare");
    const files = [pin, h("button", { type: "button", onclick: saveAccelerator }, "accelerator.yaml"), h("button", { type: "button", onclick: saveMappings }, "mappings.yaml"), h("button", { type: "button", onclick: saveLayers }, "layers.csv")];
    const where = c.note ? c.note : status(c) + " · " + c.source + " · hash " + c.hash.slice(0, 8);
    $("design").replaceChildren(h("h3", {}, designName(c)), h("p", { class: "where" }, where), list, h("p", { class: "buttons" }, files), ...otherMappings(chosen));
    $("showing-name").textContent = designName(c) + ", " + c.spad + " KiB scratchpad, " + c.acc + " KiB accumulator" + (chosen === D.best ? " (best)" : "");
    $("back").hidden = chosen === D.best;
    if (designTable) designTable.mark((id) => id === chosen);
  }
  /** The other mappings found for the same accelerator, to open. */
  function otherMappings(id) {
    const members = mappingsOf(id);
    if (members.length < 2) return [];
    const table = h("table");
    const sorted = [...members].sort((a, b) => D.candidates[a].value - D.candidates[b].value);
    fillTable(table, [
      { title: "Design", cell: (one) => h("button", { type: "button", onclick: () => select(one) }, "#" + one) },
      { title: "Latency", unit: "cycles", num: true, cell: (one) => si(D.candidates[one].latency) },
      { title: "Energy", num: true, cell: (one) => joules(D.candidates[one].energy) },
      { title: "EDP", num: true, cell: (one) => edpText(D.candidates[one].edp) },
    ], sorted, { caption: "Mappings found for this accelerator", most: 10 }).mark((one) => one === id);
    return [h("details", {}, h("summary", {}, members.length + " mappings on this accelerator"), h("div", { class: "scroll" }, table))];
  }

  function listDesigns() {
    const of = (key) => (id) => D.candidates[id][key];
    const column = (title, unit, key, text, first = false, error = "") => ({ title, unit, error, num: true, first, sort: of(key), cell: (id) => text(D.candidates[id][key]) });
    const order = D.candidates.map((_, id) => id).sort((a, b) => D.candidates[a].value - D.candidates[b].value || a - b);
    designTable = fillTable($("designs"), [
      {
        title: "Compare", class: "screen-only", cell: (id) => {
          const box = h("input", { type: "checkbox", "aria-label": "pin " + designName(D.candidates[id]), onclick: (event) => event.stopPropagation(), onchange: () => togglePin(id) });
          box.checked = pinned.includes(id);
          pins.set(id, box);
          return box;
        },
      },
      { title: "Design", first: true, sort: (id) => D.candidates[id].label || id, cell: (id) => h("button", { type: "button", onclick: (event) => { event.stopPropagation(); select(id); } }, D.candidates[id].label || "#" + id) },
      { title: "Status", class: "limit", sort: (id) => status(D.candidates[id]), cell: (id) => [status(D.candidates[id]), D.candidates[id].tie ? h("div", { class: "sub2" }, "a tie with the best") : null] },
      { title: "Costs are", class: "limit", sort: (id) => D.candidates[id].source, cell: (id) => [D.candidates[id].source, D.candidates[id].was ? h("div", { class: "sub2" }, "EDP predicted by the search " + edpText(D.candidates[id].was.edp)) : null] },
      { title: "Mappings", num: true, sort: (id) => mappingsOf(id).length, cell: (id) => String(mappingsOf(id).length) },
      column("Array side", "PEs", "dim", String),
      column("Scratchpad", "KiB", "spad", grouped),
      column("Accumulator", "KiB", "acc", grouped),
      column("Latency", "cycles", "latency", (v) => si(v), true, within("latency")),
      column("Energy", "", "energy", joules, true, within("energy")),
      column("EDP", D.edpUnit, "edp", edpText, true, within("edp")),
      column("Area", "mm²", "area", (v) => sig(v), true, within("area")),
      column("Found after", "evaluations", "samples", (v) => (v ? grouped(v) : "–")),
    ], order, { caption: "Designs found, best first by " + D.objective.words, pick: (id) => select(id), most: 10 });
    filterDesigns();
  }
  function filterDesigns() {
    designTable.show(listed);
    designTable.mark((id) => id === chosen);
    const shown = D.candidates.map((_, id) => id).filter(passes);
    $("designs-count").textContent = $("every-mapping").checked ? plural(shown.length, "design") : plural(heads.filter((id) => shown.includes(id)).length, "accelerator");
  }

  // ---------------------------------------------------------------- files to keep
  function saveDesigns() {
    const was = (key, scale = 1) => (c) => predictedOf(c)[key] * scale;
    const columns = [
      ["design", (c) => c.label || c.id], ["status", status], ["source", (c) => c.source], ["array_side", (c) => c.dim], ["scratchpad_kib", (c) => c.spad], ["accumulator_kib", (c) => c.acc],
      ["latency_cycles", (c) => c.latency], ["energy_uj", (c) => c.energy * 1e-6], ["edp_uj_cycles", (c) => c.edp], ["area_mm2", (c) => c.area], ["power_w", (c) => c.power],
      ["predicted_latency_cycles", was("latency")], ["predicted_energy_uj", was("energy", 1e-6)], ["evaluations", (c) => c.samples], ["config_hash", (c) => c.hash],
    ];
    const order = D.candidates.map((_, id) => id).filter(listed).sort((a, b) => D.candidates[a].value - D.candidates[b].value || a - b);
    download("designs.csv", csv([columns.map(([name]) => name), ...order.map((id) => columns.map(([, of]) => of(D.candidates[id])))]), "text/csv");
  }
  async function saveAccelerator() {
    everything ||= unpack("packed");
    download("accelerator.yaml", (await everything).accelerators[D.candidates[chosen].hash], "application/yaml");
  }
  /** What runs, one row a part; cycles and energy of one run. */
  function saveLayers() {
    if (!rowsShown) return;
    const busy = (k) => (r) => (r.kind === "layer" ? r.busy[k] : "");
    const known = (r) => r.measured && !r.measured.assumed;
    const columns = [
      ["network", (r) => r.network], ["part", (r) => r.name], ["kind", (r) => r.kind], ["function", (r) => r.fn], ["on", (r) => r.on], ["group", (r) => r.groups.join("; ")],
      ["runs", (r) => r.runs], ["latency_cycles", (r) => r.one], ["energy_uj", (r) => r.oneEnergy * 1e-6],
      ["measured_runs", (r) => (known(r) ? r.measured.runs : "")], ["measured_latency_cycles", (r) => (known(r) ? r.measured.cycles / r.measured.runs : "")],
      ["limited_by", (r) => r.limit], ["array_use", (r) => (r.use ? r.use : "")], ["dram_words", (r) => r.dram ?? ""],
      ...D.limits.map((name, k) => ["busy_" + name + "_cycles", busy(k)]),
      ...D.components.map((name, k) => ["energy_" + name + "_uj", (r) => r.oneParts[k] * 1e-6]),
      ["style", (r) => r.style || ""], ["mapping", (r) => r.mapping ? r.mapping.text : ""],
    ];
    download("layers.csv", csv([columns.map(([name]) => name), ...running(rowsShown).map((r) => columns.map(([, of]) => of(r)))]), "text/csv");
  }
  /** As best/mappings.yaml has it; strings in double quotes read alike in JSON and YAML. */
  function saveMappings() {
    if (!rowsShown) return;
    const lines = ["accelerator: " + JSON.stringify(D.candidates[chosen].hash), "layers:"];
    for (const { task, mapping } of rowsShown.slice(0, D.tasks.length)) {
      lines.push("- network: " + JSON.stringify(task.network), "  operators: " + JSON.stringify(task.operators), "  count: " + task.count, "  problem: " + JSON.stringify(task.sizes), "  mapping: " + JSON.stringify(mapping.text), "  double_buffered: " + JSON.stringify([...mapping.twice]));
    }
    download("mappings.yaml", lines.join("\n") + "\n", "application/yaml");
  }
