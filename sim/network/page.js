  // Operators over time: one lane a unit, bars as high as the unit was busy.
  const { $, readJson, sortTables, theme, plot, narrow, widthOf, axis, onLook, run } = Baco;
  const D = readJson("data");

  function draw() {
    const colors = theme();
    const traces = D.traces.map((one) => ({
      type: "bar", orientation: "h", name: one.name,
      y: one.lane.map((lane, i) => lane + 0.45 - 0.425 * one.share[i]), width: one.share.map((share) => 0.85 * share),
      base: one.start, x: one.cycles, hovertext: one.hover, hoverinfo: "text",
      marker: { color: one.colour, line: { color: colors.paper, width: 0.3 } },
    }));
    const rows = Math.ceil((D.traces.length * 110) / Math.max(280, widthOf($("chart"))));
    const height = 540 + 20 * rows;
    $("chart").style.height = height + "px";
    const lanes = D.lanes.map((lane) => (narrow() ? lane.replace(": ", ":<br>") : lane));
    return plot($("chart"), traces, {
      barmode: "overlay", height,
      margin: { l: 56, r: 16, t: 28 + 20 * rows, b: 48 },
      xaxis: axis(colors, "cycle", { tickformat: "~s" }),
      yaxis: axis(colors, "", { title: undefined, tickvals: D.lanes.map((_, k) => k), ticktext: lanes, range: [D.lanes.length - 0.5, -0.5], fixedrange: true, nticks: 0 }),
      hovermode: "closest",
    });
  }
  run(async () => {
    sortTables();
    await draw();
    onLook(draw);
  });
