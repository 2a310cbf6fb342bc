  // The page as a whole: how the search went, the tables below, controls, and what happens when a design is chosen.
  let bySeconds = false;

  function drawHistory() {
    const colors = theme();
    const name = D.objective.metrics[0];
    const m = METRICS[name];
    const xs = bySeconds ? D.history.seconds : D.history.samples;
    const found = D.history.best.map((v) => (v === null ? null : v * m.scale));
    const scale = metricScale(name, found, scaled(found).type);
    const ys = found.map((v) => (v === null ? null : scale.of(v)));
    const traces = [{
      type: "scatter", mode: ys.length > 60 ? "lines" : "lines+markers", x: xs, y: ys, name: "best so far",
      text: D.history.phase.map(esc), hovertemplate: scale.title + ": %{y:.4~g}<br>%{x} " + (bySeconds ? "s" : "evaluations") + "<br>%{text}<extra></extra>",
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
    return plot($("plot-history"), traces, {
      xaxis: axis(colors, bySeconds ? "search time, s" : "problem-mapping evaluations", { tickformat: bySeconds ? "~g" : "~s", rangemode: "tozero" }),
      yaxis: axis(colors, scale.title, { ...scaled(all), tickformat: scale.format }),
      margin: { l: 56, r: 16, t: 48, b: 48 },
      hovermode: "closest",
    });
  }

  function showBounds() {
    const best = D.candidates[D.best];
    const line = (name, edp, remark, limit) => {
      const bar = h("div", { class: limit ? "bar limit" : "bar" });
      bar.style.width = (best.edp > 0 ? Math.min(100, (100 * edp) / best.edp) : 0) + "%";
      return h("div", { class: "bound" }, h("div", { class: "line" }, h("span", {}, name), h("b", {}, edpText(edp) + " " + D.edpUnit)), bar, remark ? h("p", {}, remark) : null);
    };
    const items = [line("best design, " + D.source, best.edp, null, false)];
    for (const bound of D.bounds) {
      const ratio = bound.edp > 0 ? "The best design is at " + sig(best.edp / bound.edp) + "× this. " : "";
      items.push(line(bound.name + " bound", bound.edp, ratio + bound.explanation, true));
    }
    if (!D.bounds.length) items.push(h("p", { class: "hint" }, "No bound was computed for this workload."));
    $("bounds").replaceChildren(...items);
  }

  /** What is part of no cost here: the host's operators where costs are of layers alone. */
  function showHost(rows) {
    const apart = D.whole || !rows ? [] : rows.filter((row) => row.kind !== "layer" && row.runs > 0);
    $("host-section").hidden = !apart.length;
    if (!apart.length) return;
    const total = (key) => apart.reduce((sum, row) => sum + row[key], 0);
    const design = predictedOf(D.candidates[chosen]);
    $("host-hint").textContent = "The array cannot run these operators. Predicted by a simple model; part of the whole program above, and of no other number: the host core runs for " + si(total("latency"), "cycles") +
      (design.latency > 0 ? " (" + percent(total("latency") / design.latency) + " of the design's latency)" : "") + ", " + joules(total("energy")) + ".";
    fillTable($("host"), [
      { title: "Operator", first: true, sort: (row) => row.name, class: "wrap", cell: (row) => row.name },
      { title: "Network", sort: (row) => row.network, class: "wrap", cell: (row) => row.network },
      { title: "Kind", sort: (row) => row.fn, cell: (row) => row.fn },
      { title: "On", sort: (row) => row.on, cell: (row) => row.on },
      { title: "Runs", num: true, sort: (row) => row.runs, cell: (row) => count(row.runs) },
      { title: "Latency", unit: "cycles", num: true, first: true, sort: (row) => row.latency, cell: (row) => si(row.latency) },
      { title: "Energy", num: true, first: true, sort: (row) => row.energy, cell: (row) => joules(row.energy) },
    ], apart, { caption: "Operators beside the layers, all runs of each" });
  }

  function showNetworks() {
    const networkError = D.source === "predicted" ? within("latency") : "";
    fillTable($("networks"), [
      { title: "Network", first: true, sort: (n) => n.name, class: "wrap", cell: (n) => [n.name, h("div", { class: "sub2" }, n.source)] },
      { title: "Weight", num: true, sort: (n) => n.weight, cell: (n) => count(n.weight) },
      { title: "MACs", num: true, sort: (n) => n.macs, cell: (n) => si(n.macs) },
      { title: "Weights", unit: "words", num: true, sort: (n) => n.words, cell: (n) => si(n.words) },
      { title: "Tensor operators", num: true, sort: (n) => n.operators, cell: (n) => grouped(n.operators) },
      { title: "Unique problems", num: true, sort: (n) => n.problems, cell: (n) => grouped(n.problems) },
      { title: "Accelerator", unit: "cycles on the best", error: networkError, num: true, sort: (n) => n.latency, cell: (n) => si(n.latency) },
      { title: "Host", unit: "cycles", num: true, sort: (n) => n.host, cell: (n) => si(n.host) },
      { title: "Whole program", unit: "cycles", num: true, first: true, sort: (n) => n.latency + n.host, cell: (n) => si(n.latency + n.host) },
      { title: "Energy on the best", num: true, first: true, sort: (n) => n.energy, cell: (n) => joules(n.energy) },
    ], D.workload, { caption: "Networks of the workload, on the best design" });
    const missing = D.workload.flatMap((n) => n.unsupported.map((one) => ({ network: n.name, ...one })));
    if (missing.length) {
      $("unsupported").replaceChildren(
        h("p", { class: "warn" }, plural(missing.length, "operator") + " could not be costed and " + (missing.length === 1 ? "is" : "are") + " left out of every number:"),
        h("ul", {}, missing.map(({ network, operator, node, reason }) => h("li", {}, network + ": " + operator + " (" + node + ")" + (reason ? ", " + reason : "")))));
    }
  }

  function showTexts() {
    const { latency, energy, area, clock } = D.errors.design;
    const known = (what, error) => what + " " + percent(error.mean) + " (" + error.subject + ")";
    $("errors-hint").textContent = "± is how far what predicts a figure is off in the mean, where it was compared with what is measured: " + known("cycles", latency) + ", " + known("energy", energy) + ", " + known("area", area) + (clock ? ", " + known("clock", clock) : "") + "." +
      (D.candidates.some((c) => c.tie) ? " Designs marked as ties are within that of the best." : "");
    for (const { label, value, remark } of D.cards) {
      $("cards").append(h("li", {}, h("span", { class: "label" }, label), h("span", { class: "value" }, value), h("span", { class: "remark" }, remark)));
    }
    if (D.notes.length) {
      $("notes").hidden = false;
      $("notes").append(...D.notes.map((note) => h("li", {}, note)));
    }
    $("command").textContent = D.command;
    $("command-box").append(copyButton("copy", () => D.command, () => $("command")));
    $("accelerator").textContent = D.accelerator;
    $("space").textContent = D.space;
    $("space-box").hidden = !D.space;
    fillTable($("facts"), [
      { title: "Fact", cell: (row) => row.fact },
      { title: "Value", class: "wrap", cell: (row) => row.value },
    ], D.facts, { caption: "What the result came from" });
  }

  /** What the address names and the report does not hold is said, not passed over. */
  function showAddress() {
    $("address").hidden = !unknown.length;
    $("address").textContent = "The address of this page asks for what the report does not hold: " + unknown.slice(0, 5).join(", ") + (unknown.length > 5 ? " and " + (unknown.length - 5) + " more" : "") + "." + (unknown.some((one) => one.startsWith("design ")) ? " The best design is shown." : "");
  }

  function drawDesigns() {
    drawParameters();
    return drawFront();
  }

  async function select(id) {
    if (id !== chosen) {
      unknown = [];
      showAddress();
    }
    chosen = id;
    writeAddress();
    showDesign();
    showCommands();
    const drawing = drawDesigns();
    let rows = null, reason = "";
    try {
      rows = await layersOf(id);
      if (rows === null) reason = "The layers of this design are not in the page; its mappings are in candidates.parquet.";
    } catch (error) {
      reason = "This browser cannot unpack the layers of designs other than the best (" + error.message + ").";
    }
    if (chosen !== id) return; // another design was clicked meanwhile
    rowsShown = rows;
    await drawing;
    filterDesigns();
    await showLayers(reason);
    showGraph();
    showHost(rows);
    document.body.dataset.shown = String(id);
  }

  function controls() {
    for (const [id, first] of [["axis-x", D.objective.x], ["axis-y", D.objective.y], ["axis-c", null]]) {
      const names = id === "axis-c" ? ["area", "latency", "energy", "edp", "power", "dim", "spad", "acc", "samples"] : ["latency", "energy", "area", "edp", "edap", "power"];
      const start = first || ["area", "latency", "energy"].find((name) => name !== D.objective.x && name !== D.objective.y);
      $(id).append(...names.map((name) => h("option", { value: name, selected: name === start }, METRICS[name].label)));
      $(id).value = start;
      $(id).addEventListener("change", drawFront);
    }
    const sides = [...new Set(D.candidates.map((c) => c.dim))].sort((a, b) => a - b);
    $("filter-dim").append(h("option", { value: "" }, "any"), ...sides.map((side) => h("option", { value: side }, side + " × " + side)));
    for (const [id, event] of [["every-mapping", "change"], ["only-front", "change"], ["filter-dim", "change"], ["filter-area", "input"]]) {
      $(id).addEventListener(event, () => { filterDesigns(); drawDesigns(); });
    }
    $("zoom-all").addEventListener("change", drawFront);
    $("save-designs").addEventListener("click", saveDesigns);
    const toggle = (seconds) => {
      bySeconds = seconds;
      $("by-samples").setAttribute("aria-pressed", String(!seconds));
      $("by-seconds").setAttribute("aria-pressed", String(seconds));
      drawHistory();
    };
    $("by-samples").addEventListener("click", () => toggle(false));
    $("by-seconds").addEventListener("click", () => toggle(true));
    $("back").addEventListener("click", () => select(D.best));
    $("all-bars").addEventListener("change", () => rowsShown && drawLayers(rowsShown));
    $("filter").addEventListener("input", applyFilter);
    $("graph-network").append(...D.workload.map((n, place) => h("option", { value: place }, n.name)));
    $("graph-network").value = "0";
    $("graph-network").parentElement.hidden = D.workload.length < 2;
    $("graph-network").addEventListener("change", showGraph);
    $("graph-all").addEventListener("change", showGraph);
    addEventListener("hashchange", () => { chosen = readAddress(); changePins(); select(chosen); showAddress(); });
    onLook(() => {
      const drawn = [drawDesigns(), drawHistory(), ...(rowsShown ? [drawLayers(rowsShown), drawRoof(rowsShown)] : [])];
      showGraph();
      return Promise.all(drawn);
    });
  }

  run(async () => {
    showTexts();
    showWhy();
    showMeasured();
    chosen = readAddress();
    showAddress();
    controls();
    listDesigns();
    showDesign();
    showBounds();
    showNetworks();
    await Promise.all([drawHistory(), select(chosen), showCompared()]);
    $("plot-front").on("plotly_click", (event) => {
      const id = event.points[0].customdata;
      if (id !== undefined) select(id);
    });
  });
