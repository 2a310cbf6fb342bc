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
    return Promise.all([drawDesigns(), showCompared()]);
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
      total("Area", "mm²" + within("area"), (c) => c.area, (v) => sig(v)),
      total("Latency", "cycles" + within("latency"), (c) => c.latency, (v) => si(v)),
      total("Energy", within("energy").trim(), (c) => c.energy, joules),
      total("EDP", D.edpUnit + within("edp"), (c) => c.edp, edpText),
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
    $("compare-note").textContent = missing ? "The parts of some of these designs are not in the page." : "Predicted cycles of all runs of a part; the dot is what limits it.";
    const known = layers.map((one, k) => ({ rows: one, k })).filter((one) => one.rows);
    const key = (r) => JSON.stringify([r.network, r.name, r.kind === "group"]);
    const places = layers.map((one) => new Map((one || []).filter((r) => r.counted || r.groups.length).map((r) => [key(r), r])));
    const keys = [...new Set(places.flatMap((one) => [...one.values()]).sort((a, b) => (a.kind === "layer" && b.kind === "layer" ? a.i - b.i : (b.kind === "layer") - (a.kind === "layer"))).map(key))];
    const rows = keys.map((name) => { const of = places.map((one) => one.get(name)); return { one: of.find((r) => r), of }; });
    const runs = (r) => r && r.counted;
    const most = (row) => Math.max(...row.of.map((r) => (runs(r) ? r.latency : 0)), 1);
    fillTable($("compare-layers"), [
      { title: "Part", sort: (row) => layerName(row.one), cell: (row) => h("div", { class: "name" }, layerName(row.one), h("div", { class: "sub2" }, row.one.what)) },
      ...known.map(({ k }) => ({
        title: title(designs[k]), unit: "cycles", num: true, sort: (row) => (runs(row.of[k]) ? row.of[k].latency : -1),
        cell: (row) => {
          const r = row.of[k], color = r && waitOf(r.limit).color;
          if (!r) return "–";
          if (!r.counted) return h("span", { class: "sub2" }, "in group");
          return [dotOf(color), si(r.latency), k && runs(row.of[0]) ? h("span", { class: "sub2" }, " " + ratio(r.latency, row.of[0].latency)) : null, barOf(r.latency / most(row), color)];
        },
      })),
    ], rows, { caption: "Parts of their programs, all runs of each" });
  }
