  // Two to four designs side by side, as a whole and layer by layer.
  const MOST_PINNED = 4;

  function togglePin(id) {
    pinned = pinned.includes(id) ? pinned.filter((one) => one !== id) : [...pinned, id].slice(-MOST_PINNED);
    changePins();
  }
  function changePins() {
    writeAddress();
    showDesign();
    for (const [id, box] of pins) box.checked = pinned.includes(id);
    filterDesigns();
    return Promise.all([drawFront(), showCompared()]);
  }

  async function showCompared() {
    const shown = [...pinned];
    $("compare-section").hidden = shown.length < 2;
    $("compare-hint").hidden = shown.length !== 1;
    if (shown.length < 2) return;
    const designs = shown.map((id) => D.candidates[id]);
    let layers;
    try {
      layers = await Promise.all(shown.map(layersOf));
    } catch (error) {
      $("compare-note").textContent = "This browser cannot unpack the layers (" + error.message + ").";
      return;
    }
    if (shown.join() !== pinned.join()) return; // others were pinned meanwhile
    const title = (c) => designName(c) + (c.id === D.best && !c.label ? " (best)" : "");
    const ratio = (value, first) => (first > 0 ? sig(value / first) + "×" : "–");
    const total = (name, unit, of, text, less = true) => ({ name, unit, values: designs.map(of), text, less });
    const lines = [
      { name: "Scratchpad + accumulator", unit: "KiB", texts: designs.map((c) => grouped(c.spad) + " + " + grouped(c.acc)) },
      total("Area", "mm²", (c) => c.area, (v) => sig(v)),
      total("Latency", "cycles", (c) => c.latency, (v) => si(v)),
      total("Energy", "", (c) => c.energy, joules),
      total("EDP", "µJ·cycles", (c) => c.edp, edpText),
      total("Power", "", (c) => c.power, (v) => si(v, "W")),
    ];
    const cells = (line, k) => {
      if (line.texts) return line.texts[k];
      const least = Math.min(...line.values);
      return [h(line.values[k] === least ? "b" : "span", {}, line.text(line.values[k])), k ? h("div", { class: "sub2" }, ratio(line.values[k], line.values[0])) : null];
    };
    fillTable($("compare"), [
      { title: "", cell: (line) => [line.name, line.unit ? h("small", {}, ", " + line.unit) : null] },
      ...designs.map((c, k) => ({ title: title(c), num: true, cell: (line) => cells(line, k) })),
    ], lines, { caption: "The pinned designs as a whole" });
    const missing = layers.some((one) => one === null);
    $("compare-note").textContent = missing ? "The layers of some of these designs are not in the page." : "Cycles of all runs of a layer; the dot is the resource that limits it.";
    const known = layers.map((one, k) => ({ rows: one, k })).filter((one) => one.rows);
    const rows = D.tasks.map((task, i) => ({ task, i, of: layers.map((one) => one && one[i]) }));
    const most = (row) => Math.max(...row.of.map((one) => (one ? one.latency : 0)), 1);
    fillTable($("compare-layers"), [
      { title: "Layer", sort: (row) => layerName(row.task), cell: (row) => h("div", { class: "name" }, layerName(row.task), h("div", { class: "sub2" }, row.task.problem)) },
      ...known.map(({ k }) => ({
        title: title(designs[k]), unit: "cycles", num: true, sort: (row) => row.of[k].latency,
        cell: (row) => [dotOf(LIMITS[row.of[k].limit].color), si(row.of[k].latency), k && row.of[0] ? h("span", { class: "sub2" }, " " + ratio(row.of[k].latency, row.of[0].latency)) : null, barOf(row.of[k].latency / most(row), LIMITS[row.of[k].limit].color)],
      })),
    ], rows, { caption: "Their layers, all runs of each" });
  }
