  // One layer: its loop nest, the array, the memories, words and bytes, busy cycles. All numbers come with the page.

  /** The loops of a mapping, outermost first, indented as Timeloop prints them. */
  function loopNest(row) {
    const lines = [];
    let depth = 0;
    const say = (text) => lines.push("  ".repeat(depth) + text);
    for (const level of row.mapping.text.split(" - ")) {
      const [head, ...loops] = level.split(" ");
      const number = Number(head[1]), kept = head.slice(3, -1);
      say(LEVELS[number] + " [ " + [...kept].map((t) => TENSORS.find((one) => one.key === t).label).join(", ") + " ]");
      for (const loop of loops) {
        const spatial = loop.endsWith("X"), factor = Number(loop.slice(1, spatial ? -1 : undefined));
        if (factor > 1) {
          say("| " + (spatial ? "parallel-for " : "for ") + loop[0] + " in [0:" + factor + ")" + (spatial ? (number === 1 ? "  (rows)" : "  (columns)") : ""));
          depth++;
        }
      }
    }
    say("multiply-accumulate");
    return lines.join("\n");
  }

  function drawArray(row, dim) {
    const { rows, columns } = row.detail ? row.detail.lanes : row.mapping;
    const size = 150, part = (n) => (size * Math.min(n, dim)) / dim;
    const picture = svg("svg", { viewBox: "-1 -1 152 152", width: 152, height: 152, role: "img", "aria-label": rows + " by " + columns + " of " + dim + " by " + dim + " elements in use" });
    picture.append(svg("rect", { x: 0, y: 0, width: size, height: size, class: "array" }));
    picture.append(svg("rect", { x: 0, y: 0, width: part(columns), height: part(rows), class: "used" }));
    const step = size / Math.min(dim, 16);
    for (let at = step; at < size - 0.1; at += step) picture.append(svg("path", { d: "M0 " + at + "H" + size + "M" + at + " 0V" + size, class: "grid" }));
    return h("div", { class: "figure" }, picture, h("div", {}, h("p", {}, row.mapping.lane + (rows > row.mapping.rows ? ", with several pixels of the window" : "") + ": " + rows + " of " + dim + " rows"), h("p", {}, "K: " + columns + " of " + dim + " columns"),
      h("p", { class: "sub2" }, percent((Math.min(rows, dim) * Math.min(columns, dim)) / (dim * dim)) + " of the array in a pass; over the whole layer, waits included, " + percent(row.use))));
  }

  function memories(row, design) {
    const held = row.detail.held;
    if (!held.length) return [h("p", { class: "hint" }, "This mapping cannot be compiled for this accelerator as it is, so nothing is known of where its tiles lie.")];
    return [["scratchpad", design.spad * 1024], ["accumulator", design.acc * 1024]].map(([memory, capacity]) => {
      const mine = held.filter((one) => one.memory === memory);
      const used = mine.reduce((sum, one) => sum + one.bytes * one.copies, 0);
      const track = h("div", { class: "track tall" });
      for (const { tensor, bytes: size, copies } of mine) {
        for (let copy = 0; copy < copies; copy++) {
          const part = h("div", { class: "part", title: TENSORS.find((one) => one.key === tensor).label + ", copy " + (copy + 1) });
          part.style.width = (100 * size) / Math.max(capacity, used) + "%";
          part.style.background = TENSORS.find((one) => one.key === tensor).color;
          part.style.opacity = copy ? 0.6 : 1;
          track.append(part);
        }
      }
      const legend = mine.map(({ tensor, bytes: size, copies }) => {
        const t = TENSORS.find((one) => one.key === tensor);
        return h("span", {}, dotOf(t.color), t.label + " " + (copies > 1 ? copies + " × " : "") + bytes(size));
      });
      return h("div", { class: "memory" }, h("div", { class: "line" }, h("span", {}, memory), h("b", {}, bytes(used) + " of " + bytes(capacity) + " (" + percent(used / capacity) + ")")), track, h("div", { class: "legend" }, legend));
    });
  }

  function tiles(row) {
    const table = h("table");
    const line = (name, sizes) => ({ name, sizes });
    const whole = row.task.sizes, { scratchpad, accumulator } = row.mapping.tiles;
    fillTable(table, [
      { title: "", cell: (r) => r.name },
      ...DIMS.map((d) => ({ title: d, num: true, cell: (r) => count(r.sizes[d] || 1) })),
    ], [line("whole layer", whole), line("tile in the scratchpad", scratchpad), line("tile in the accumulator", accumulator)], { caption: "Extent of every dimension" });
    return h("div", { class: "scroll" }, table);
  }

  const MOVED = { weights: "weights", inputs: "inputs", addends: "bias, residual and sums that come back", results: "results" };

  function traffic(row) {
    const table = h("table");
    const { words, moved } = row.detail;
    const size = (level, t) => words[level][t] * D.widths[level][t];
    const cell = (level, t) => (words[level][t] ? [si(words[level][t]), h("div", { class: "sub2" }, bytes(size(level, t)))] : "–");
    fillTable(table, [
      { title: "Level", cell: (level) => LEVELS[level] },
      ...TENSORS.map((t) => ({ title: t.label, unit: "words", num: true, cell: (level) => cell(level, t.key) })),
      { title: "all", unit: "words", num: true, cell: (level) => si(Object.values(words[level]).reduce((a, b) => a + b, 0)) },
    ], [3, 2, 1, 0], { caption: "Traffic by level and tensor, one run" });
    const parts = [h("div", { class: "scroll" }, table), h("p", { class: "hint" }, "Read and written in one run, as the mapping's loop nest has it.")];
    if (Object.keys(moved).length) {
      parts.push(h("p", { class: "hint" }, "The channel of main memory moves " + bytes(Object.values(moved).reduce((a, b) => a + b, 0)) + " in this code (" + Object.entries(moved).map(([name, v]) => MOVED[name] + " " + bytes(v)).join(", ") + "): what stays in the scratchpad is not loaded again, unused parts of bursts count."));
    }
    return parts;
  }

  function busyBars(row) {
    return D.limits.map((name, k) => {
      const gain = row.detail ? 1 - row.detail.doubled[name] / row.one : 0;
      const twice = row.detail ? (gain > 0.0005 ? "with twice of it " + percent(gain) + " less time" : "twice of it: no gain") : "";
      return h("div", { class: "memory" }, h("div", { class: "line" }, h("span", {}, LIMITS[k].label + (LIMITS[k].key === row.limit ? " (binds)" : "")), h("b", {}, si(row.busy[k], "cycles") + ", " + percent(row.one > 0 ? row.busy[k] / row.one : 0))),
        barOf(row.one > 0 ? row.busy[k] / row.one : 0, LIMITS[k].color), twice ? h("div", { class: "sub2" }, twice) : null);
    });
  }

  /** A group, or an operator that is no layer. */
  function otherParts(row) {
    const design = D.candidates[chosen], table = h("table");
    const parts = COMPONENTS.map((one, k) => ({ one, value: row.oneParts[k] })).filter((part) => part.value > 0);
    fillTable(table, [
      { title: "Energy goes to", cell: (part) => [dotOf(part.one.color), part.one.label] },
      { title: "one run", num: true, cell: (part) => joules(part.value) },
    ], parts, { caption: "Energy of one run, by component" });
    const members = row.operators.map((name) => {
      const layer = rowsShown.find((one) => one.kind === "layer" && one.network === row.network && one.operators.includes(name));
      return h("li", {}, name, layer ? h("span", { class: "sub2" }, " · " + layer.what) : null);
    });
    return [
      h("p", { class: "sub" }, designName(design) + " · " + row.what + " · on the " + row.on + " · " + plural(row.runs, "run")),
      h("p", {}, row.counted || !D.whole && row.runs ? "One run is predicted to take " + si(row.one, "cycles") + " and " + joules(row.oneEnergy) + "." : "Only the measured program has it."),
      row.kind === "group" ? h("div", { class: "part-of" }, h("h3", {}, "Members, in order"), h("ul", {}, members), h("p", { class: "hint" }, "What lies between them stays on chip, so that their time is not told apart.")) : null,
      parts.length ? h("div", { class: "scroll" }, table) : null,
    ];
  }

  function openLayer(row) {
    const box = $("layer");
    box.replaceChildren(h("div", { class: "head" }, h("h2", {}, layerName(row)), h("button", { type: "button", onclick: () => box.close() }, "close")), ...(row.kind === "layer" ? layerParts(row) : otherParts(row)).filter((one) => one));
    box.showModal();
  }

  function layerParts(row) {
    const design = D.candidates[chosen];
    const shape = "--mapping '" + row.mapping.text + "'";
    const nest = h("pre", { tabindex: 0 }, loopNest(row));
    const option = h("pre", { class: "wraps" }, shape);
    const part = (title, ...content) => h("div", { class: "part-of" }, h("h3", {}, title), ...content);
    const body = [
      h("p", { class: "sub" }, designName(design) + " · " + row.task.kind + " · " + row.task.problem + " · " + plural(row.runs, "run") + (row.style ? " · " + row.style + " code" : "")),
      row.groups.length ? h("p", {}, (row.counted ? "Some of its runs are" : "It runs") + " in group " + row.groups.join("; ") + ": what follows is of a run by itself.") : null,
      h("p", {}, "One run by itself is predicted to take " + si(row.one, "cycles") + within("latency", "part") + " and " + joules(row.oneEnergy) + within("energy", "part") + "; what binds: " + waitOf(row.limit).label + "."),
      h("div", { class: "split" },
        h("div", {}, part("Loop nest", nest), part("As an option", option, h("p", {}, copyButton("copy as --mapping", () => shape, () => option))), part("Tile sizes", tiles(row))),
        h("div", {}, part("The array", drawArray(row, design.dim)), row.detail ? part("Occupancy of the memories", ...memories(row, design)) : null, part("Busy cycles, of " + si(row.one), ...busyBars(row)))),
      row.detail ? part("Words and bytes", ...traffic(row)) : h("p", { class: "hint" }, "Occupancy, words by tensor and what doubling gives are in this page for the designs nearest to the best only."),
    ];
    return body;
  }
