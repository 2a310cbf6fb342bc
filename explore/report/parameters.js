  // The hardware parameters: how much each matters, slices through the designs, all of them in parallel.
  const SLICE = { width: 260, height: 170, left: 62, right: 10, top: 8, bottom: 34 };
  const PARALLEL = { height: 300, top: 46, bottom: 26, step: 104, most: 400 };
  const PARAMETER = Object.fromEntries(D.parameters.map((one) => [one.key, one]));

  /** Place of values between 0 and 1, logarithmic where numbers span more than a factor of three, names one behind the other; and ticks, no nearer than the gap. */
  function placing(values, numeric, gap = 0.08) {
    const distinct = [...new Set(values)].sort(numeric ? (a, b) => a - b : undefined);
    if (!numeric) return { of: (v) => (distinct.indexOf(v) + 0.5) / distinct.length, ticks: distinct };
    const least = distinct[0], most = distinct[distinct.length - 1];
    const on = least > 0 && most > 3 * least ? Math.log : (v) => v;
    const of = (v) => (most > least ? (on(v) - on(least)) / (on(most) - on(least)) : 0.5);
    // both ends, and between them what has room
    const ticks = [least];
    if (distinct.length <= 8) for (const v of distinct) if (of(v) - of(ticks[ticks.length - 1]) >= gap && 1 - of(v) >= gap) ticks.push(v);
    return { of, ticks: most > least ? [...ticks, most] : ticks };
  }
  const objectiveOf = (c) => c[D.objective.metrics[0]] * METRICS[D.objective.metrics[0]].scale;
  const metricText = (name, v) => (METRICS[name].prefixed ? si(v, METRICS[name].unit) : v >= 1e6 ? edpText(v) : sig(v));
  const valueText = (v) => (typeof v === "number" ? sig(v, 4).replace(/\.0+$/, "") : v);
  /** Designs that the pictures of parameters show: those of the list that a search found. */
  const drawnDesigns = () => D.candidates.map((_, id) => id).filter((id) => listed(id) && !D.candidates[id].label);
  const kindOf = (id) => (id === D.best ? "best" : isFront(id) ? "front" : "dominated");

  function showImportance() {
    const found = D.importance;
    $("importance-hint").textContent = found
      ? "Share of the differences in " + METRICS[D.objective.metrics[0]].label + " among the best designs of " + plural(found.accelerators, "accelerator") + " that goes with each parameter alone. A sum of one function a parameter explains " +
        percent(found.explained) + " of them; the rest is how parameters act together. Searches look longest where designs are good: this is no sample of the whole space."
      : "Too few accelerators, or too equal ones, to tell how much each parameter matters.";
    const bars = found ? Object.entries(found.shares) : [];
    $("importance").replaceChildren(...bars.map(([key, share]) => h("div", { class: "memory" },
      h("div", { class: "line", title: PARAMETER[key].description }, h("span", {}, PARAMETER[key].label), h("b", {}, percent(share))), barOf(share, theme().accent))));
  }

  /** One picture: a parameter across, the objective up. */
  function slice(parameter, ids, up) {
    const { width, height, left, right, top, bottom } = SLICE;
    const values = ids.map((id) => D.candidates[id].hardware[parameter.key]);
    const across = placing(values, parameter.numeric, 0.2);
    const x = (v) => left + 6 + (width - left - right - 12) * across.of(v), y = (v) => top + (height - top - bottom) * (1 - up.of(v));
    const picture = svg("svg", { viewBox: "0 0 " + width + " " + height, class: "chart", role: "img", "aria-label": parameter.label + " against " + METRICS[D.objective.metrics[0]].label });
    for (const v of up.ticks.length > 2 ? [up.ticks[0], up.ticks[up.ticks.length - 1]] : up.ticks) picture.append(svg("text", { x: left - 5, y: y(v) + 4, "text-anchor": "end" }, metricText(D.objective.metrics[0], v)));
    picture.append(svg("path", { d: "M" + left + " " + top + "V" + (height - bottom + 5) + "H" + (width - right), class: "axis" }));
    for (const v of across.ticks) picture.append(svg("text", { x: x(v), y: height - bottom + 18, "text-anchor": "middle" }, valueText(v)));
    picture.append(svg("text", { x: left, y: height - 3, class: "title" }, parameter.label));
    const order = { dominated: 0, front: 1, best: 2 };
    for (const id of [...ids].sort((a, b) => (a === chosen) - (b === chosen) || order[kindOf(a)] - order[kindOf(b)])) {
      const c = D.candidates[id];
      picture.append(svg("circle", { cx: x(c.hardware[parameter.key]), cy: y(objectiveOf(c)), r: id === chosen ? 5 : 3.5, class: "dot-" + kindOf(id) + (id === chosen ? " chosen" : ""), onclick: () => select(id) },
        svg("title", {}, designName(c) + ": " + valueText(c.hardware[parameter.key]) + ", " + metricText(D.objective.metrics[0], objectiveOf(c)))));
    }
    return picture;
  }
  function drawSlices() {
    const ids = drawnDesigns();
    const up = placing(ids.map((id) => objectiveOf(D.candidates[id])), true);
    $("slices").replaceChildren(...D.parameters.map((one) => slice(one, ids, up)));
  }

  /** One line a design through all parameters and costs. */
  function drawParallel() {
    const ids = drawnDesigns().sort((a, b) => D.candidates[a].value - D.candidates[b].value).slice(0, PARALLEL.most);
    const costs = [...new Set([...D.objective.metrics, "latency", "energy", "area"])];
    const axes = [
      ...D.parameters.map((one) => ({ title: one.label, numeric: one.numeric, of: (c) => c.hardware[one.key], text: valueText })),
      ...costs.map((name) => ({ title: METRICS[name].label, numeric: true, of: (c) => c[name] * METRICS[name].scale, text: (v) => metricText(name, v) })),
    ];
    const { height, top, bottom } = PARALLEL;
    const step = onPaper() ? 640 / axes.length : Math.max(PARALLEL.step, ($("parallel").clientWidth - 20) / axes.length);
    const width = step * axes.length;
    const picture = svg("svg", { viewBox: "0 0 " + width + " " + height, width, height, class: "chart", role: "img", "aria-label": "Designs as lines through their parameters and costs" });
    const y = (share) => top + (height - top - bottom) * (1 - share);
    axes.forEach((axis, k) => {
      axis.x = step * (k + 0.5);
      axis.place = placing(ids.map((id) => axis.of(D.candidates[id])), axis.numeric);
    });
    const order = { dominated: 0, front: 1, best: 2 };
    for (const id of [...ids].sort((a, b) => (a === chosen) - (b === chosen) || order[kindOf(a)] - order[kindOf(b)])) {
      const c = D.candidates[id];
      const points = axes.map((axis) => axis.x + " " + y(axis.place.of(axis.of(c))));
      picture.append(svg("path", { d: "M" + points.join("L"), class: "line-" + kindOf(id) + (id === chosen ? " chosen" : ""), onclick: () => select(id) }, svg("title", {}, designName(c) + " (" + status(c) + ")")));
    }
    for (const axis of axes) {
      picture.append(svg("path", { d: "M" + axis.x + " " + top + "V" + (height - bottom), class: "axis" }));
      const words = axis.title.split(", ");
      words.forEach((word, k) => picture.append(svg("text", { x: axis.x, y: 14 + 14 * k, "text-anchor": "middle", class: "title" }, cut(word, 16))));
      const ticks = axis.place.ticks;
      for (const v of ticks) picture.append(svg("text", { x: axis.x, y: y(axis.place.of(v)) + (ticks.length === 2 && axis.numeric ? (v === ticks[0] ? 16 : -6) : 4), "text-anchor": "middle", class: "tick" }, axis.text(v)));
    }
    $("parallel").replaceChildren(picture);
    $("parallel-hint").textContent = "A line is " + ($("every-mapping").checked ? "a design" : "an accelerator under its best mappings") + ": the best thick, the front in colour. The filters above hold here, too; click a line to see that design." +
      (ids.length === PARALLEL.most ? " The best " + PARALLEL.most + " are drawn." : "");
  }

  function drawParameters() {
    $("parameters-section").hidden = !D.parameters.length;
    if (!D.parameters.length) return;
    showImportance();
    drawSlices();
    drawParallel();
  }
