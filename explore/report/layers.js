  // Where time and energy go in the design in view: bars, bottlenecks, roofline, the table.
  const BARS = 30; // parts shown before the reader asks for all
  let layerTable = null;

  function drawLayers(all) {
    const colors = theme();
    const timeShare = shareOf("latency"), energyShare = shareOf("energy");
    const rows = running(all);
    let shown = rows;
    if (rows.length > BARS && !$("all-bars").checked) {
      const heavy = new Set([...rows].sort((a, b) => timeShare(b) + energyShare(b) - timeShare(a) - energyShare(a)).slice(0, BARS).map((r) => r.i));
      shown = rows.filter((r) => heavy.has(r.i));
    }
    const rest = rows.length - shown.length;
    const sum = (value) => shown.reduce((total, row) => total + value(row), 0);
    $("all-bars").parentElement.hidden = rows.length <= BARS;
    $("bars-note").hidden = rest === 0;
    $("bars-note").textContent = "The " + BARS + " heaviest of " + rows.length + " parts. The other " + rest + " take " +
      percent(1 - sum(timeShare)) + " of the time and " + percent(1 - sum(energyShare)) + " of the energy.";
    const labels = shown.map((r) => esc(cut(layerName(r), narrow() ? 16 : 36)));
    const ticks = labels.map((_, place) => place);
    const hover = (row) => "<b>" + esc(cut(layerName(row), 60)) + "</b><br>" + esc(row.what) + ", " + plural(row.runs, "run");
    const busy = (row) => (row.kind === "layer" ? row.busy.map((t, k) => LIMITS[k].label + " busy " + percent(row.one > 0 ? t / row.one : 0)) : [waitOf(row.limit).label]);
    const timeText = shown.map((r) => [hover(r), si(r.latency, "cycles") + " (" + percent(timeShare(r)) + " of the time)", ...busy(r)].join("<br>"));
    const time = axisUnit(shown.map((r) => (r.counted ? r.latency : 0)), "cycles"), work = axisUnit(shown.map((r) => (r.counted ? r.energy * 1e-12 : 0)), "J");
    const traces = [];
    const bar = (resource) => ({ type: "bar", orientation: "h", y: ticks, legendgroup: resource.label, name: resource.label, marker: { color: resource.color }, hovertemplate: "%{hovertext}<extra></extra>" });
    const parts = new Set(COMPONENTS.map((one) => one.label));
    WAITS.forEach((limit) => {
      const mine = shown.map((r) => (r.counted && r.limit === limit.key ? r.latency : 0));
      traces.push({ ...bar(limit), x: mine.map((v) => v / time.factor), hovertext: timeText, showlegend: !parts.has(limit.label) && mine.some((v) => v > 0), visible: mine.some((v) => v > 0) || LIMITS.includes(limit) });
    });
    COMPONENTS.forEach((resource, k) => {
      const energyText = shown.map((r) => hover(r) + "<br>" + resource.label + ": " + joules(r.parts[k]) + " of " + joules(r.energy));
      traces.push({ ...bar(resource), x: shown.map((r) => (r.counted ? (r.parts[k] * 1e-12) / work.factor : 0)), hovertext: energyText, xaxis: "x2" });
    });
    const known = shown.map((r, place) => [r, place]).filter(([r]) => r.measured && !r.measured.assumed);
    if (known.length) traces.push({
      type: "scatter", mode: "markers", name: "measured", legendgroup: "measured", x: known.map(([r]) => r.measured.cycles / time.factor), y: known.map(([, place]) => place),
      marker: { symbol: "diamond", size: 9, color: colors.accent, line: { color: colors.paper, width: 1 } },
      text: known.map(([r]) => hover(r) + "<br>" + si(r.measured.cycles, "cycles") + " measured"), hovertemplate: "%{text}<extra></extra>",
    });
    const element = $("plot-layers");
    // one under the other on narrow screens would need a scale of its own: there the gap between the two is wider
    const height = Math.max(240, (onPaper() ? 20 : 24) * labels.length + (narrow() ? 150 : 120));
    element.style.height = height + "px";
    return plot(element, traces, {
      barmode: "stack", height, bargap: 0.28,
      margin: { l: 40, r: 24, t: narrow() ? 84 : 48, b: 48 },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: narrow() ? 10.5 : 12 }, tracegroupgap: 0 },
      xaxis: axis(colors, (narrow() ? "" : "latency, ") + time.unit, { domain: [0, narrow() ? 0.46 : 0.485], tickformat: "~g", rangemode: "tozero", nticks: narrow() ? 3 : 6 }),
      xaxis2: axis(colors, (narrow() ? "" : "energy, ") + work.unit, { domain: [narrow() ? 0.54 : 0.515, 1], tickformat: "~g", rangemode: "tozero", anchor: "y", nticks: narrow() ? 3 : 6 }),
      yaxis: axis(colors, "", { tickvals: ticks, ticktext: labels, range: [labels.length - 0.5, -0.5], showgrid: false, fixedrange: true, title: undefined }),
      hovermode: "closest",
    });
  }

  /** From the headline down: what the time goes to, and what the whole program would take with twice of each. */
  function showBottlenecks(rows) {
    const c = D.candidates[chosen], total = predictedOf(c).latency;
    const gain = (b) => (b.doubled_cycles < total * 0.995 ? sig(total / b.doubled_cycles) + "× as fast" : "no gain");
    const whole = { name: "", entries: rows.filter((r) => r.counted).length, cycles: total, doubled_cycles: total };
    fillTable($("bottlenecks"), [
      { title: "What limits", cell: (b) => (b.name ? [dotOf(waitOf(b.name).color), waitOf(b.name).label, h("div", { class: "sub2" }, LIMIT_NOTE[b.name])] : [h("b", {}, D.whole ? "whole program" : "all layers"), c.was ? h("div", { class: "sub2" }, si(c.latency, "cycles") + " measured") : null]) },
      { title: "With twice of it", unit: "whole program", num: true, cell: (b) => (!b.name ? si(total, "cycles") : b.doubled_cycles === null ? "–" : [si(b.doubled_cycles, "cycles"), h("div", { class: "sub2" }, gain(b))]) },
      { title: "Time in what it limits", num: true, cell: (b) => [si(b.cycles, "cycles"), h("div", { class: "sub2" }, percent(b.cycles / (total || 1)))] },
      { title: "Parts", num: true, cell: (b) => String(b.entries) },
    ], [whole, ...rows.waits], { caption: "What limits the parts of the program of the design in view" });
  }

  /** Of the whole design: energy by component, predicted and measured, and area by block. */
  function showWhole(rows) {
    const c = D.candidates[chosen], counted = rows.filter((r) => r.counted);
    const energy = COMPONENTS.map((one, k) => ({ one, value: counted.reduce((sum, r) => sum + r.parts[k], 0), measured: rows.terms && (rows.terms[D.components[k]] || 0) })).filter((row) => row.value || row.measured);
    const whole = { one: { label: "all" }, value: predictedOf(c).energy, measured: rows.terms && c.energy };
    const cell = (value, total) => [joules(value), h("div", { class: "sub2" }, percent(value / (total || 1)))];
    fillTable($("components"), [
      { title: "Energy", cell: (row) => (row === whole ? h("b", {}, "all") : [dotOf(row.one.color), row.one.label]) },
      { title: rows.terms ? "predicted" : c.was ? "predicted" : c.source, num: true, cell: (row) => cell(row.value, whole.value) },
      ...(rows.terms ? [{ title: "measured", num: true, cell: (row) => cell(row.measured, whole.measured) }] : []),
    ], [whole, ...energy], { caption: "Energy of the whole design, by component" });
    const blocks = [["", c.area], ...Object.entries(c.blocks)];
    fillTable($("blocks"), [
      { title: "Area", cell: ([name]) => (name ? BLOCKS[name] : h("b", {}, "all")) },
      { title: "predicted", unit: "mm²", num: true, cell: ([, value]) => [sig(value), h("div", { class: "sub2" }, percent(value / c.area))] },
    ], blocks, { caption: "Area of the whole design, by block" });
  }

  function drawRoof(all) {
    const colors = theme();
    const rows = all.filter((r) => r.counted && r.macs > 0);
    const c = D.candidates[chosen];
    const peak = c.dim * c.dim;
    const timeShare = shareOf("latency");
    const placed = rows.filter((r) => r.dram > 0 && r.one > 0).map((r) => ({ r, x: r.macs / r.dram, y: r.macs / r.one }));
    const xs = placed.map((p) => p.x), ridge = peak / c.dram;
    const left = Math.min(ridge, ...xs) / 3, right = Math.max(ridge, ...xs) * 3;
    const traces = [{
      type: "scatter", mode: "lines", x: [left, ridge, right], y: [left * c.dram, peak, peak],
      name: "roof: " + grouped(peak) + " MACs/cycle," + (narrow() ? "<br>" : " ") + sig(c.dram) + " DRAM bytes/cycle",
      line: { color: colors.soft, width: 2 }, hoverinfo: "skip",
    }];
    WAITS.filter((one) => one.key !== "host" && one.key !== "operator").forEach((resource) => {
      const members = placed.filter((p) => p.r.limit === resource.key);
      traces.push({
        type: "scatter", mode: "markers", name: resource.label + (resource.key === "group" ? "" : "-limited"), x: members.map((p) => p.x), y: members.map((p) => p.y),
        visible: members.length > 0, customdata: members.map((p) => p.r.i),
        text: members.map(({ r, x, y }) => "<b>" + esc(cut(layerName(r), 60)) + "</b><br>" + esc(r.what) + "<br>" + sig(y) + " MACs/cycle (" + percent(r.use) + " of the array)<br>" + sig(x) + " MACs/DRAM byte<br>" + percent(timeShare(r)) + " of the time"),
        hovertemplate: "%{text}<extra></extra>",
        marker: { color: resource.color, opacity: 0.85, size: members.map((p) => 8 + 26 * Math.sqrt(timeShare(p.r))), line: { color: colors.paper, width: 1 } },
      });
    });
    const ys = [left * c.dram, peak, ...placed.map((p) => p.y)];
    return plot($("plot-roof"), traces, {
      xaxis: axis(colors, "MACs per DRAM byte", { ...Baco.logTicks(left, right), type: "log", range: [Math.log10(left), Math.log10(right)], tickformat: "~g" }),
      yaxis: axis(colors, "MACs per cycle", { ...Baco.logTicks(Math.min(...ys), Math.max(...ys)), type: "log", tickformat: "~g" }),
      margin: { l: 56, r: 16, t: narrow() ? 84 : 48, b: 48 },
      hovermode: "closest",
    });
  }

  function listLayers(rows) {
    const timeShare = shareOf("latency"), energyShare = shareOf("energy");
    const c = D.candidates[chosen];
    // a layer that runs in groups alone has no time of its own
    const own = (r, cell) => (r.counted ? cell(r) : "–");
    const inside = (r) => (r.groups.length ? h("div", { class: "sub2" }, (r.counted ? "also " : "") + "in group " + r.groups.join("; ")) : null);
    const names = (r) => r.operators.join("\n") + (r.task && r.task.more ? "\n… " + r.task.more + " more" : "");
    const nest = (r) => r.mapping.text.split(" - ").map((level) => { const [head, ...loops] = level.split(" "); return h("span", {}, h("b", {}, head), " " + loops.join(" ") + " "); });
    const columns = [
      { title: "#", num: true, class: "wide-only", sort: (r) => r.i, cell: (r) => String(r.i + 1) },
      {
        title: "Part", first: true, sort: (r) => layerName(r),
        cell: (r) => h("div", { class: "name", title: names(r) }, h("button", { type: "button", class: "link" }, layerName(r)), h("div", { class: "sub2" }, r.what), inside(r)),
      },
      { title: "On", sort: (r) => r.on, cell: (r) => r.on },
      { title: "Runs", num: true, sort: (r) => r.runs, cell: (r) => own(r, () => count(r.runs)) },
      { title: "Latency", unit: "cycles", error: within("latency", "part"), num: true, first: true, sort: (r) => (r.counted ? r.latency : -1), cell: (r) => own(r, () => [si(r.latency), h("div", { class: "sub2" }, percent(timeShare(r)))]) },
      ...(c.was ? [{
        title: "Measured", unit: "cycles", num: true, sort: (r) => (r.measured ? r.measured.cycles : -1),
        cell: (r) => (r.measured ? [si(r.measured.cycles), h("div", { class: "sub2" }, r.measured.assumed ? "as predicted" : percent(r.measured.cycles / (c.latency || 1)))] : "–"),
      }] : []),
      { title: "Energy", error: within("energy", "part"), num: true, first: true, sort: (r) => (r.counted ? r.energy : -1), cell: (r) => own(r, () => [joules(r.energy), h("div", { class: "sub2" }, percent(energyShare(r)))]) },
      { title: "Limited by", class: "limit", sort: (r) => waitOf(r.limit).label, cell: (r) => own(r, () => [dotOf(waitOf(r.limit).color), waitOf(r.limit).label, r.kind !== "layer" && r.on !== "host" ? h("div", { class: "sub2" }, "memory busy " + percent(Math.min(1, r.dram / c.dram / r.one))) : null, r.style ? h("div", { class: "sub2" }, r.style + " code") : null]) },
      { title: "Array in use", num: true, sort: (r) => r.use, cell: (r) => own(r, () => (r.use ? percent(r.use) : "–")) },
      { title: "DRAM words", unit: "one run", num: true, sort: (r) => r.dram || 0, cell: (r) => own(r, () => (r.dram ? si(r.dram) : "–")) },
      { title: "Mapping", class: "map", cell: (r) => (r.kind === "layer" ? nest(r) : r.kind === "group" ? r.operators.join(" → ") : "") },
    ];
    const shown = rows.filter((r) => r.counted || r.measured || (r.kind === "layer" && r.groups.length));
    layerTable = fillTable($("layers"), columns, shown, { caption: "Parts of the program of the design in view, all runs of each", pick: openLayer });
    applyFilter();
  }
  function applyFilter() {
    const wanted = $("filter").value.trim().toLowerCase();
    if (layerTable) layerTable.show((r) => !wanted || [layerName(r), r.operators.join(" "), r.what, r.fn, r.on].join(" ").toLowerCase().includes(wanted));
  }

  async function showLayers(reason) {
    const plots = ["plot-layers", "plot-roof"];
    if (!rowsShown) {
      layerTable = null;
      for (const plot of plots) {
        Plotly.purge($(plot));
        $(plot).style.height = "";
        $(plot).replaceChildren(h("p", { class: "warn" }, reason));
      }
      emptyTable($("layers"), h("caption", {}, "Parts of the program of the design in view"), h("tbody", {}, h("tr", {}, h("td", {}, reason))));
      for (const table of ["bottlenecks", "components", "blocks"]) emptyTable($(table));
      return;
    }
    for (const plot of plots) {
      const warning = $(plot).querySelector("p.warn");
      if (warning) warning.remove();
    }
    const c = D.candidates[chosen];
    $("parts-hint").textContent = (D.whole ? "The whole program" : "All layers together") + " is predicted to take " + si(predictedOf(c).latency, "cycles") + " and " + joules(predictedOf(c).energy) +
      (c.was ? "; measured were " + si(c.latency, "cycles") + " and " + joules(c.energy) + ", diamonds where they are known part by part" : "") + ". Percentages are of these.";
    listLayers(rowsShown);
    showBottlenecks(rowsShown);
    showWhole(rowsShown);
    await Promise.all([drawLayers(rowsShown), drawRoof(rowsShown)]);
  }
