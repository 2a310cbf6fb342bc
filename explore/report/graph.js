  // The network as a graph: what the accelerator runs, what rides along on its way out, what the host runs.
  const UNITS = 60; // shown at first

  /** Lanes of the edges that skip units: for every unit the lanes that begin, end or pass there. */
  function lanesOf(units) {
    const last = units.map(() => -1); // the last reader that is not the next unit
    units.forEach((unit, i) => unit.sources.forEach((source) => { if (source >= 0 && source < i - 1) last[source] = i; }));
    const free = [], lane = units.map(() => -1), rows = [];
    let width = 0;
    units.forEach((unit, i) => {
      const ends = [];
      for (let source = 0; source < i; source++) if (lane[source] >= 0 && last[source] >= i && unit.sources.includes(source)) ends.push(lane[source]);
      const through = units.flatMap((_, source) => (source < i && lane[source] >= 0 && last[source] > i ? [lane[source]] : []));
      let start = -1;
      if (last[i] >= 0) {
        start = free.length ? free.shift() : width++;
        lane[i] = start;
      }
      // freed behind: a lane that ends here is not begun anew in the same row
      for (let source = 0; source < i; source++) if (last[source] === i) free.push(lane[source]);
      free.sort((a, b) => a - b);
      rows.push({ ends, through, start, joined: unit.sources.includes(i - 1) });
    });
    return { rows, width };
  }

  function showGraph() {
    if (!rowsShown) {
      $("graph").replaceChildren();
      $("graph-hint").textContent = "";
      return;
    }
    const place = Number($("graph-network").value || 0);
    const network = D.workload[place], everyone = rowsShown.graphs[place];
    const units = everyone.slice(0, $("graph-all").checked || onPaper() ? Infinity : UNITS);
    const rest = everyone.length - units.length;
    $("graph-more").hidden = everyone.length <= UNITS;
    const { rows, width } = lanesOf(units);
    const measured = D.candidates[chosen].was !== undefined;
    // one run of the network: a group once, at its first member, for all that it runs
    const time = (row, repeat) => (measured && row.measured ? (row.measured.cycles / row.measured.runs) : row.one) * repeat;
    const runs = (row) => (measured && row.measured ? row.measured.runs : row.runs) / network.weight;
    const times = units.map((unit) => (unit.entry === null || unit.group ? 0 : time(rowsShown[unit.entry], unit.repeat)));
    const groupTime = (unit) => time(rowsShown[unit.entry], runs(rowsShown[unit.entry]));
    const most = Math.max(1, ...times, ...units.filter((unit) => unit.group).map(groupTime));
    const step = 9, left = 8 + width * step;
    const where = (on, value) => h("div", { class: "where" }, h("span", {}, on + " "), h("b", {}, si(value, "cycles")), barOf(value / most, RESOURCE[on === "host" ? "host" : "compute"].color));
    let box = null, inside = null;
    const lines = [];
    units.forEach((unit, i) => {
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
      knot.style.background = RESOURCE[unit.on === "host" ? "host" : "compute"].color;
      knot.style.left = left - 4 + "px";
      gutter.append(knot);
      const rides = unit.rides.length ? h("div", { class: "sub2" }, "rides along: " + unit.rides.join(", ")) : null;
      const row = unit.entry !== null ? rowsShown[unit.entry] : null;
      const name = row ? h("button", { type: "button", class: "link", onclick: () => openLayer(row) }, unit.name) : unit.name;
      const last = unit.group ? h("div", { class: "where" }, "in the group") : row ? where(unit.on, times[i]) : h("div", { class: "where" }, "no code of its own");
      const line = h("div", { class: "unit" }, gutter, h("div", { class: "what" }, name, " ", h("small", {}, unit.kind + (unit.repeat > 1 ? ", " + grouped(unit.repeat) + " times" : "")), rides), last);
      if (unit.group === null) lines.push(line);
      else {
        if (unit.group !== inside) {
          const head = h("div", { class: "unit" }, h("div", { class: "what" }, h("b", {}, "group"), " ", h("small", {}, "one unit" + (runs(row) !== 1 ? ", " + plural(runs(row), "run") : ""))), where(unit.on, groupTime(unit)));
          box = h("div", { class: "box", role: "group", "aria-label": "group " + unit.group }, head);
          lines.push(box);
        }
        box.append(line);
      }
      inside = unit.group;
    });
    if (rest > 0) lines.push(h("p", { class: "hint" }, plural(rest, "unit") + " more below."));
    $("graph").replaceChildren(...lines);
    const groups = new Set(everyone.filter((unit) => unit.group).map((unit) => unit.group)).size;
    const by = (on) => everyone.filter((unit) => unit.on === on && !unit.group).length;
    const members = everyone.filter((unit) => unit.group).length;
    const rides = everyone.reduce((sum, unit) => sum + unit.rides.length, 0);
    $("graph-hint").textContent = (measured ? "The measured program: " : "The predicted program: ") + plural(by("accelerator"), "operator") + " on the accelerator by themselves, " + members + " in " + plural(groups, "group") + " that run as one unit, " + rides + " riding along on the way out of the accumulator, " + by("host") + " on the host core. A bar is the time of all runs in one run of the network; lines are tensors.";
  }
