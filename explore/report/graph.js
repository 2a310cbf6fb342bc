  // The network as a graph: what the accelerator runs, what rides along on its way out, what the host runs.
  const UNITS = 60; // shown at first

  /** Lanes of the edges that skip units: for every unit the lanes that begin, end or pass there. */
  function lanesOf(units) {
    const last = units.map(() => -1); // the last reader that is not the next unit
    units.forEach((unit, i) => unit.from.forEach((source) => { if (source >= 0 && source < i - 1) last[source] = i; }));
    const free = [], lane = units.map(() => -1), rows = [];
    let width = 0;
    units.forEach((unit, i) => {
      const ends = [];
      for (let source = 0; source < i; source++) if (lane[source] >= 0 && last[source] >= i && unit.from.includes(source)) ends.push(lane[source]);
      const through = units.flatMap((_, source) => (source < i && lane[source] >= 0 && last[source] > i ? [lane[source]] : []));
      let start = -1;
      if (last[i] >= 0) {
        start = free.length ? free.shift() : width++;
        lane[i] = start;
      }
      // freed behind: a lane that ends here is not begun anew in the same row
      for (let source = 0; source < i; source++) if (last[source] === i) free.push(lane[source]);
      free.sort((a, b) => a - b);
      rows.push({ ends, through, start, joined: unit.from.includes(i - 1) });
    });
    return { rows, width };
  }

  function showGraph() {
    const place = Number($("graph-network").value || 0);
    const network = D.workload[place];
    const units = network.units.slice(0, $("graph-all").checked || onPaper() ? Infinity : UNITS);
    const rest = network.units.length - units.length;
    $("graph-more").hidden = network.units.length <= UNITS;
    const { rows, width } = lanesOf(units);
    const times = units.map((unit) => {
      if (unit.task >= 0) return rowsShown ? rowsShown[unit.task].one * unit.repeat : NaN;
      return unit.cycles * unit.repeat;
    });
    const most = Math.max(1, ...times.filter((v) => Number.isFinite(v)));
    const step = 9, left = 8 + width * step;
    const lines = units.map((unit, i) => {
      const gutter = h("div", { class: "gutter", "aria-hidden": true });
      gutter.style.width = left + 12 + "px";
      const edge = (kind, x, wide) => { const e = h("i", { class: kind }); e.style.left = x + "px"; if (wide) e.style.width = wide + "px"; gutter.append(e); };
      const x = (lane) => 4 + (width - 1 - lane) * step;
      if (rows[i].joined) edge("up", left);
      if (i + 1 < units.length && rows[i + 1].joined) edge("down", left);
      for (const lane of rows[i].through) edge("through", x(lane));
      for (const lane of rows[i].ends) { if (!rows[i].through.includes(lane)) edge("up", x(lane)); edge("across", x(lane), left - x(lane)); }
      if (rows[i].start >= 0) { edge("down", x(rows[i].start)); edge("across", x(rows[i].start), left - x(rows[i].start)); }
      const knot = h("i", { class: "knot " + unit.on });
      knot.style.background = RESOURCE[unit.on === "host" ? "host" : "array"].color;
      knot.style.left = left - 4 + "px";
      gutter.append(knot);
      const rides = unit.rides.length ? h("div", { class: "sub2" }, "rides along: " + unit.rides.join(", ")) : null;
      const name = unit.task >= 0 && rowsShown ? h("button", { type: "button", class: "link", onclick: () => openLayer(rowsShown[unit.task]) }, unit.name) : unit.name;
      return h("div", { class: "unit" }, gutter,
        h("div", { class: "what" }, name, " ", h("small", {}, unit.kind + (unit.repeat > 1 ? ", " + grouped(unit.repeat) + " times" : "")), rides),
        h("div", { class: "where" }, h("span", {}, unit.on + " "), h("b", {}, Number.isFinite(times[i]) ? si(times[i], "cycles") : "–"), barOf((times[i] || 0) / most, RESOURCE[unit.on === "host" ? "host" : "array"].color)));
    });
    if (rest > 0) lines.push(h("p", { class: "hint" }, plural(rest, "unit") + " more below."));
    $("graph").replaceChildren(...lines);
    const sums = { accelerator: 0, host: 0 };
    network.units.forEach((unit) => { sums[unit.on]++; });
    const rides = network.units.reduce((sum, unit) => sum + unit.rides.length, 0);
    $("graph-hint").textContent = plural(sums.accelerator, "operator") + " on the accelerator, " + rides + " riding along on the way out of its accumulator, " + sums.host + " on the host core. A bar is the time of all runs in one run of the network; lines are tensors.";
  }
