
  // What was measured, beside what was predicted: designs, their programs, operators and layers.

  const STATUS = {
    measured: "measured", sampled: "only some layers were measured so far", failed: "an output was wrong or a simulation went wrong: a mistake in baco",
    infeasible: "it cannot be compiled or built", pending: "nothing was measured yet",
  };
  const HOW = {
    layers: "Measured: every unique layer of the network was compiled for the design, simulated whole on MACHINE, and every element of its output compared with integers; cycles from the first command to the last work, energy from what was counted, all layers times their counts.",
    programs: "Measured: the network was compiled for the design to one program, with the mappings of the search where they are best, and simulated from input to output on MACHINE and a host core; every element that any operator wrote was compared with integers. Cycles from reset to the end, energy from what was counted.",
  };
  const allDigits = (value) => grouped(value.toFixed(0));
  const microjoules = (value) => joules(value * 1e6);
  const over = (one, other) => (known(one) && other ? one / other : null);
  /** What was measured of a design, else what is estimated. */
  const reachedColumn = (title, name, error, shown, more) => ({
    title, num: true, ...more,
    sort: ({ measured, estimate }) => (measured ? measured[name] : estimate ? estimate.cost[name] : -Infinity),
    cell: ({ measured, estimate }) => {
      if (measured) return shown(measured[name]);
      if (!estimate) return "–";
      const off = known(estimate[error]) ? Math.round(100 * estimate[error]) + "%" : "?";
      return "≈ " + shown(estimate.cost[name]) + " ± " + off + ", " + Math.round(100 * estimate.measured_share) + "% measured";
    },
  });
  const part = (of, kind, place) => (row) => (row[of] ? row[of][kind][place] : null);
  const cost = (of, name) => (row) => (row[of] ? row[of][name] : null);

  function showValidated({ designs }) {
    fillTable($("validated"), [
      wordsColumn("Design", (row) => row.name + (row.candidate === null ? "" : " (#" + row.candidate + ")"), { first: true }),
      wordsColumn("Array", (row) => row.dim + " × " + row.dim),
      wordsColumn("Scratchpad + accumulator, KiB", (row) => grouped(row.scratchpad_kib) + " + " + grouped(row.accumulator_kib)),
      figureColumn("Area", (row) => row.area_mm2, sig, { unit: "mm²" }),
      wordsColumn("Status", (row) => (row.status === "measured" ? row.status : row.status + ": " + STATUS[row.status]), { first: true }),
      figureColumn("Cycles predicted by the search", cost("searched", "latency_cycles"), si),
      figureColumn("Cycles as compiled", cost("predicted", "latency_cycles"), si),
      reachedColumn("Cycles measured", "latency_cycles", "latency_error", si, { first: true }),
      figureColumn("EDP predicted by the search", cost("searched", "edp_uj_cycles"), edpText, { unit: D.edpUnit }),
      figureColumn("EDP as compiled", cost("predicted", "edp_uj_cycles"), edpText, { unit: D.edpUnit }),
      reachedColumn("EDP measured", "edp_uj_cycles", "edp_error", edpText, { unit: D.edpUnit }),
      figureColumn("EDP as compiled / measured", (row) => over(cost("predicted", "edp_uj_cycles")(row), cost("measured", "edp_uj_cycles")(row)), sig),
      figureColumn("Energy as compiled", cost("predicted", "energy_uj"), microjoules),
      reachedColumn("Energy measured", "energy_uj", "energy_error", microjoules),
      figureColumn("Energy as compiled / measured", (row) => over(cost("predicted", "energy_uj")(row), cost("measured", "energy_uj")(row)), sig),
    ], designs, { caption: "Designs chosen to be measured" });
  }

  function showPrograms({ designs }) {
    const rows = designs.flatMap((one) => one.programs.map((program) => ({ design: one.name, ...program })));
    $("programs-box").hidden = !rows.length;
    if (!rows.length) return;
    fillTable($("programs"), [
      wordsColumn("Design", (row) => row.design, { first: true }),
      wordsColumn("Network", (row) => row.network, { first: true }),
      figureColumn("Cycles of the accelerator", part("measured", "cycles", "accelerator"), allDigits),
      figureColumn("Cycles of the host", part("measured", "cycles", "host"), allDigits),
      figureColumn("Cycles, whole", part("measured", "cycles", "whole"), allDigits, { first: true }),
      figureColumn("Cycles predicted as compiled", part("predicted", "cycles", "whole"), allDigits),
      figureColumn("Predicted / measured", (row) => over(part("predicted", "cycles", "whole")(row), part("measured", "cycles", "whole")(row)), sig),
      figureColumn("Energy of the accelerator", part("measured", "energy_uj", "accelerator"), microjoules),
      figureColumn("Energy of the host", part("measured", "energy_uj", "host"), microjoules),
      figureColumn("Energy, whole", part("measured", "energy_uj", "whole"), microjoules),
      figureColumn("Energy predicted as compiled", part("predicted", "energy_uj", "whole"), microjoules),
      figureColumn("Energy, predicted / measured", (row) => over(part("predicted", "energy_uj", "whole")(row), part("measured", "energy_uj", "whole")(row)), sig),
    ], rows, { caption: "Whole programs, by part" });
  }

  /** How near programs are to the user's model: outputs and the worst operators, of each network once. */
  function showAgreement({ designs }) {
    const near = new Map(designs.flatMap((one) => one.programs).filter((one) => one.agreement).map((one) => [one.network, one.agreement]));
    $("agreement-box").hidden = !near.size;
    if (!near.size) return;
    const rows = [], MOST_DB = 300;
    for (const [network, one] of near) {
      const evidence = one.judge || "the network in floating point (" + one.reason + ")";
      rows.push(...one.outputs.map((tensor) => ({ network, ...tensor, name: tensor.name + " (output)", evidence })));
      const worst = one.operators.filter((tensor) => tensor.snr_db < MOST_DB).sort((a, b) => a.snr_db - b.snr_db);
      rows.push(...worst.map((tensor) => ({ network, ...tensor, evidence: "floating point" })));
    }
    const real = (of) => (row) => (known(row.equal) ? null : of(row));
    fillTable($("agreement"), [
      wordsColumn("Network", (row) => row.network),
      wordsColumn("Tensor", (row) => row.name, { first: true }),
      wordsColumn("Compared with", (row) => row.evidence),
      figureColumn("Signal to noise", real((row) => row.snr_db), (value) => (value >= MOST_DB ? "all is equal" : sig(value)), { unit: "dB", first: true }),
      figureColumn("Cosine", real((row) => row.cosine), (value) => value.toFixed(4)),
      { ...figureColumn("Largest error, % of the range", real((row) => row.error), (value) => sig(100 * value)),
        cell: (row) => (known(row.equal) ? sig(100 * row.equal, 4) + " % of the whole numbers equal" : sig(100 * row.error)) },
      figureColumn("Beyond the range, %", real((row) => row.saturated), (value) => sig(100 * value)),
    ], rows, { caption: "Agreement with the user's model" });
    $("agreement-warnings").replaceChildren(...[...near].filter(([, one]) => one.warning).map(([network, one]) => warning(network, " " + one.warning)));
  }
  const warning = (strong, text) => h("p", { class: "warn", role: "alert" }, h("strong", {}, strong), text);

  /** A table that is looked at on demand. */
  function folded(title, columns, rows, caption) {
    const table = h("table");
    fillTable(table, columns, rows, { caption });
    return h("details", {}, h("summary", {}, title), h("div", { class: "scroll", tabindex: 0 }, table));
  }
  const operatorsOf = (design, program) => folded("Operators of " + program.network + " on " + design.name, [
    wordsColumn("Operator", (row) => row.operator, { first: true }),
    wordsColumn("On", (row) => row.on),
    figureColumn("Cycles predicted", (row) => row.predicted_cycles, allDigits),
    figureColumn("Cycles measured", (row) => row.cycles, allDigits, { first: true }),
    figureColumn("Predicted / measured", (row) => over(row.predicted_cycles, row.cycles), sig),
    wordsColumn("Carried out as", (row) => row.what),
  ], program.operators, "Operators, in the order in which they run");
  const busyColumn = (title, name) => figureColumn(title, (row) => (row.busy ? row.busy[name] : null), (value) => Math.round(100 * value) + "%");
  const layersOfDesign = (design) => folded("Layers of " + design.name, [
    wordsColumn("Layer", (row) => row.name, { first: true }),
    figureColumn("Runs", (row) => row.count, count),
    figureColumn("Cycles predicted", (row) => row.predicted_cycles, allDigits),
    { ...figureColumn("Cycles measured", (row) => row.measured_cycles, allDigits, { first: true }), cell: (row) => (known(row.measured_cycles) ? allDigits(row.measured_cycles) : row.status) },
    figureColumn("Predicted / measured", (row) => over(row.predicted_cycles, row.measured_cycles), sig),
    figureColumn("Energy predicted", (row) => row.predicted_energy_uj, microjoules),
    figureColumn("Energy measured", (row) => row.measured_energy_uj, microjoules),
    figureColumn("Energy, predicted / measured", (row) => over(row.predicted_energy_uj, row.measured_energy_uj), sig),
    busyColumn("Array busy", "array"), busyColumn("Loads busy", "load"), busyColumn("Stores busy", "store"), busyColumn("Memory busy", "memory"), busyColumn("Waits for host", "waits_for_host"),
    wordsColumn("Carried out as", (row) => row.reason || row.schedule),
  ], design.layers, "Layers, one run of each");

  function showMeasured() {
    const found = D.validation;
    $("validation").hidden = !found;
    if (!found) return;
    const { designs, comparisons, machine } = found, items = (texts) => texts.map((text) => h("li", {}, text));
    $("validation-hint").textContent = HOW[designs.some((one) => one.programs.length) ? "programs" : "layers"].replace("MACHINE", machine) + " " + found.energy_source[0].toUpperCase() + found.energy_source.slice(1) + ".";
    const failures = designs.filter((one) => one.status === "failed" || one.status === "infeasible");
    $("validation-failures").replaceChildren(...failures.map((one) => warning(one.status.toUpperCase(), " " + one.name + ": " + one.reason)));
    $("comparisons").replaceChildren(...items(comparisons.map((one) => one.text)));
    showValidated(found);
    const changes = designs.map((one) => one.prediction_change).filter(Boolean);
    $("changes-hint").hidden = !changes.length;
    $("changes").replaceChildren(...items(changes));
    showPrograms(found);
    showAgreement(found);
    $("validation-parts").replaceChildren(...designs.flatMap((one) => (one.programs.length ? one.programs.filter((program) => program.operators.length).map((program) => operatorsOf(one, program)) : [layersOfDesign(one)])));
  }
