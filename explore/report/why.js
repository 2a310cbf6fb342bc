
  // Why this design, and what else: what limits it, what a step in its hardware would change, what to take instead.

  const WORD = { edp: "EDP", edap: "EDP × area" };
  const wordOf = (name) => WORD[name] || name;
  const sentence = (text) => text[0].toUpperCase() + text.slice(1);
  /** A ratio as what it is more or less. */
  const changeOf = (ratio) => {
    const text = ((ratio - 1) * 100).toFixed(1);
    return Number(text) === 0 ? "0%" : (ratio > 1 ? "+" : "") + text + "%";
  };
  /** A column of words, and one of a figure, which may not be known. */
  const wordsColumn = (title, of, more) => ({ title, class: "wrap", sort: of, cell: of, ...more });
  const known = (value) => value !== null && value !== undefined;
  const figureColumn = (title, of, shown, more) => ({
    title, num: true, sort: (row) => (known(of(row)) ? of(row) : -Infinity), cell: (row) => (known(of(row)) ? shown(of(row)) : "–"), ...more,
  });
  const sizesColumn = wordsColumn("Array, KiB", ({ of }) => of.dim + "×" + of.dim + ", " + grouped(of.spad) + " + " + grouped(of.acc));

  /** The best, its alternatives and the baseline: costs over those of the best. */
  function otherDesigns({ alternatives, baseline }, names) {
    const of = (place) => D.candidates[place];
    const rows = [{ label: "#" + D.best + ", the best", of: of(D.best), ratios: Object.fromEntries(names.map((name) => [name, 1])) }];
    for (const { id, text, ratios } of alternatives) rows.push({ label: "#" + id + ": " + text.replace(/ \([^(]*$/, ""), of: of(id), ratios });
    if (!baseline) return rows;
    const against = (name) => (baseline.ratios[name] ? 1 / baseline.ratios[name] : 0);
    const { name: called, equal_area: equal } = baseline;
    if (equal) {
      const ratios = Object.fromEntries(names.map((name) => [name, equal.ratios[name] * against(name)]));
      rows.push({ label: "#" + equal.id + ", the best no larger than " + called, of: of(equal.id), ratios });
    }
    const machine = D.candidates.find((one) => one.label);
    rows.push({ label: machine.note, of: machine, ratios: Object.fromEntries(names.map((name) => [name, against(name)])) });
    return rows;
  }

  function showWhy() {
    const why = D.explanation;
    $("why").hidden = !why;
    if (!why) return;
    const [limited, stepped] = why.text, near = why.neighbours;
    const names = [...new Set([...D.objective.metrics, "latency", "energy", "area"])];
    $("why-limits").textContent = sentence(limited) + " (predicted).";
    $("why-baseline").textContent = why.baseline ? sentence(why.baseline.text) + "." : "";
    fillTable($("alternatives"), [
      wordsColumn("Design", (row) => row.label, { first: true }),
      sizesColumn,
      figureColumn("Area", (row) => row.of.area, sig, { unit: "mm²" }),
      ...names.map((name) => figureColumn(sentence(wordOf(name)) + " ×", (row) => row.ratios[name], sig, { first: true })),
    ], otherDesigns(why, names), { caption: "What else was found" });
    $("why-steps").textContent = sentence(stepped) + ".";
    $("steps-box").hidden = !near;
    if (!near) return;
    $("steps-hint").textContent = "Every neighbour with layers mapped for it anew, against this design mapped in the same way (" + wordOf(D.objective.metrics[0]) + " " +
      sig(near.reference.ratios[D.objective.metrics[0]], 4) + " times that of the search), predicted. Better mappings than these may exist: what a step gains is a least, what it costs a most.";
    fillTable($("steps"), [
      wordsColumn("One step", (row) => row.text, { first: true }),
      ...names.map((name) => figureColumn(sentence(wordOf(name)), (row) => row.ratios[name], changeOf, { first: true })),
      wordsColumn("Remark", (row) => row.remark),
    ], near.steps, { caption: "One step of each parameter, layers mapped anew" });
  }
