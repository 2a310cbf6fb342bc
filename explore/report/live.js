  // The best objective so far, as a curve; no plotting library, so that the page is small.
  const { $, readJson, h, svg, sig, si, edpText, run } = Baco;
  const D = readJson("data");

  run(async () => {
    const points = D.history.best.map((value, i) => [D.history.samples[i], value]).filter(([, value]) => value !== null);
    if (points.length < 2) {
      $("curve").append(h("p", { class: "hint" }, "No curve yet."));
      return;
    }
    const width = 640, height = 240, last = points[points.length - 1][0], first = points[0][0];
    const values = points.map(([, value]) => Math.log10(value)), least = Math.min(...values), most = Math.max(...values);
    const x = (at) => (width * (at - first)) / Math.max(1, last - first), y = (value) => 4 + ((height - 8) * (most - value)) / (most - least || 1);
    let line = "M" + x(points[0][0]) + " " + y(values[0]);
    points.slice(1).forEach(([at], i) => { line += "H" + x(at) + "V" + y(values[i + 1]); });
    const curve = svg("path", { d: line, fill: "none", stroke: "var(--accent)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" });
    const picture = svg("svg", { viewBox: "0 0 " + width + " " + height, preserveAspectRatio: "none", role: "img", "aria-label": "Best objective so far against evaluations" }, curve);
    picture.setAttribute("style", "display:block;width:100%;height:240px;border-left:1px solid var(--faint);border-bottom:1px solid var(--faint)");
    const ends = (left, right) => h("p", { class: "hint" }, left + " → " + right);
    $("curve").append(ends(edpText(10 ** values[0]), edpText(10 ** values[values.length - 1])), picture, h("p", { class: "hint" }, "from " + si(first) + " to " + si(last) + " evaluations; logarithmic upwards"));
  });
