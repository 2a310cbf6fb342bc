  // Where time and energy go in the design in view: bars, bottlenecks, roofline, the table.
  const BARS = 30; // layers shown before the reader asks for all
  let layerTable = null;

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
    const labels = shown.map((r) => esc(cut(layerName(r.task), narrow() ? 16 : 36)));
    const ticks = labels.map((_, place) => place);
    const hover = (row) => "<b>" + esc(cut(layerName(row.task), 60)) + "</b><br>" + esc(row.task.problem) + ", " + plural(row.runs, "run");
    const timeText = shown.map((r) => hover(r) + "<br>" + si(r.latency, "cycles") + " (" + percent(timeShare(r)) + " of the time)<br>" +
      r.busy.map((t, k) => LIMITS[k].label + " busy " + percent(r.one > 0 ? t / r.one : 0)).join("<br>"));
    const time = axisUnit(shown.map((r) => r.latency), "cycles"), work = axisUnit(shown.map((r) => r.energy * 1e-12), "J");
    const traces = [];
    const bar = (resource) => ({ type: "bar", orientation: "h", y: ticks, legendgroup: resource.label, name: resource.label, marker: { color: resource.color }, hovertemplate: "%{hovertext}<extra></extra>" });
    const parts = new Set(COMPONENTS.map((one) => one.label));
    LIMITS.forEach((limit, k) => {
      const mine = shown.map((r) => (r.limit === k ? r.latency : 0));
      traces.push({ ...bar(limit), x: mine.map((v) => v / time.factor), hovertext: timeText, showlegend: !parts.has(limit.label) && mine.some((v) => v > 0) });
    });
    COMPONENTS.forEach((resource, k) => {
      const energyText = shown.map((r) => hover(r) + "<br>" + resource.label + ": " + joules(r.parts[k]) + " of " + joules(r.energy));
      traces.push({ ...bar(resource), x: shown.map((r) => (r.parts[k] * 1e-12) / work.factor), hovertext: energyText, xaxis: "x2" });
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

  /** By the resource that binds: how many layers, how much of the time, and what twice of it would give. */
  function showBottlenecks(rows) {
    const total = rows.reduce((sum, r) => sum + r.latency, 0);
    const known = rows.every((r) => r.detail);
    const found = LIMITS.map((limit, k) => {
      const mine = rows.filter((r) => r.limit === k);
      const doubled = known ? rows.reduce((sum, r) => sum + r.runs * r.detail.doubled[k], 0) : NaN;
      return { limit, k, layers: mine.length, share: mine.reduce((sum, r) => sum + r.latency, 0) / (total || 1), doubled };
    }).sort((a, b) => b.share - a.share);
    fillTable($("bottlenecks"), [
      { title: "What binds", cell: (b) => [dotOf(b.limit.color), b.limit.label, h("div", { class: "sub2" }, LIMIT_NOTE[D.limits[b.k]])] },
      { title: "Layers", num: true, cell: (b) => b.layers + " of " + rows.length },
      { title: "Share of time", num: true, cell: (b) => percent(b.share) },
      { title: "With twice of it", unit: "whole workload", num: true, cell: (b) => (Number.isFinite(b.doubled) ? [si(b.doubled, "cycles"), h("div", { class: "sub2" }, b.doubled < total * 0.995 ? sig(total / b.doubled) + "× as fast" : "no gain")] : "–") },
    ], found, { caption: "Layers by what binds them, in the design in view" });
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
      name: "roof: " + grouped(peak) + " MACs/cycle," + (narrow() ? "<br>" : " ") + sig(c.dram) + " DRAM bytes/cycle",
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
    const ys = [left * c.dram, peak, ...placed.map((p) => p.y)];
    return plot($("plot-roof"), traces, {
      xaxis: axis(colors, "MACs per DRAM byte", { ...Baco.logTicks(left, right), type: "log", range: [Math.log10(left), Math.log10(right)], tickformat: "~g" }),
      yaxis: axis(colors, "MACs per cycle", { ...Baco.logTicks(Math.min(...ys), Math.max(...ys)), type: "log", tickformat: "~g" }),
      margin: { l: 56, r: 16, t: narrow() ? 84 : 48, b: 48 },
      hovermode: "closest",
    });
  }

  function listLayers(rows) {
    const timeShare = shareOf(rows, "latency"), energyShare = shareOf(rows, "energy");
    const columns = [
      { title: "#", num: true, class: "wide-only", sort: (r) => r.i, cell: (r) => String(r.i + 1) },
      {
        title: "Layer", first: true, sort: (r) => layerName(r.task),
        cell: (r) => h("div", { class: "name", title: r.task.operators.join("\n") + (r.task.more ? "\n… " + r.task.more + " more" : "") }, h("button", { type: "button", class: "link" }, layerName(r.task)), h("div", { class: "sub2" }, r.task.kind + " · " + r.task.problem)),
      },
      { title: "Runs", num: true, sort: (r) => r.runs, cell: (r) => count(r.runs) },
      { title: "Latency", unit: "cycles", num: true, first: true, sort: (r) => r.latency, cell: (r) => [si(r.latency), h("div", { class: "sub2" }, percent(timeShare(r)))] },
      { title: "Energy", num: true, first: true, sort: (r) => r.energy, cell: (r) => [joules(r.energy), h("div", { class: "sub2" }, percent(energyShare(r)))] },
      { title: "Limited by", class: "limit", sort: (r) => LIMITS[r.limit].label, cell: (r) => [dotOf(LIMITS[r.limit].color), LIMITS[r.limit].label, r.style ? h("div", { class: "sub2" }, r.style + " code") : null] },
      { title: "Array in use", num: true, sort: (r) => r.use, cell: (r) => percent(r.use) },
      { title: "DRAM words", unit: "one run", num: true, sort: (r) => r.dram, cell: (r) => si(r.dram) },
      { title: "Mapping", class: "map", cell: (r) => r.mapping.split(" - ").map((level) => { const [head, ...loops] = level.split(" "); return h("span", {}, h("b", {}, head), " " + loops.join(" ") + " "); }) },
    ];
    layerTable = fillTable($("layers"), columns, rows, { caption: "Layers of the design in view, all runs of each", pick: openLayer });
    applyFilter();
  }
  function applyFilter() {
    const wanted = $("filter").value.trim().toLowerCase();
    if (layerTable) layerTable.show((r) => !wanted || (layerName(r.task) + " " + r.task.operators.join(" ") + " " + r.task.problem + " " + r.task.kind).toLowerCase().includes(wanted));
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
      $("layers").replaceChildren(h("tbody", {}, h("tr", {}, h("td", {}, reason))));
      $("bottlenecks").replaceChildren();
      return;
    }
    for (const plot of plots) {
      const warning = $(plot).querySelector("p.warn");
      if (warning) warning.remove();
    }
    listLayers(rowsShown);
    showBottlenecks(rowsShown);
    await Promise.all([drawLayers(rowsShown), drawRoof(rowsShown)]);
  }
