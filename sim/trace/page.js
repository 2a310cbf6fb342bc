  // Lanes of commands on canvases, one a unit; what is too small to see is drawn as the share of time it takes.
  const { $, readJson, unpack, h, si, count, grouped, percent, sig, fillTable, theme, onLook, run } = Baco;
  const D = readJson("data");
  const CURVE = 36, LANE = 9, MOST_BARS = 4000, LEAST_SPAN = 20;
  const [begin, end] = D.span;
  let view = [begin, end];
  let units = [];

  /** Bars of one unit by lane, with what is needed to add up cycles between any two. */
  function makeUnit(info, bars) {
    const lanes = Array.from({ length: info.until - info.from }, () => []);
    for (const bar of bars) lanes[bar.lane - info.from].push(bar);
    const spans = [];
    for (const bar of [...bars].sort((a, b) => a.issued - b.issued)) {
      if (bar.done <= bar.issued) continue;
      const last = spans[spans.length - 1];
      if (last && bar.issued <= last[1]) last[1] = Math.max(last[1], bar.done);
      else spans.push([bar.issued, bar.done]);
    }
    return { ...info, bars, lanes: lanes.map((mine) => ({ bars: mine, busy: sums(mine.map((bar) => [bar.issued, bar.done])), there: sums(mine.map((bar) => [bar.allocated, bar.done])) })), busy: sums(spans) };
  }
  /** Of spans that are ascending and apart: a function that gives the cycles of them before a cycle. */
  function sums(spans) {
    const before = new Float64Array(spans.length + 1);
    spans.forEach(([start, stop], i) => { before[i + 1] = before[i] + stop - start; });
    return (cycle) => {
      let low = 0, high = spans.length; // spans that begin before the cycle
      while (low < high) {
        const middle = (low + high) >> 1;
        if (spans[middle][0] < cycle) low = middle + 1;
        else high = middle;
      }
      return low === 0 ? 0 : before[low - 1] + Math.min(spans[low - 1][1], cycle) - spans[low - 1][0];
    };
  }
  /** Bars of a lane that are there in the view. */
  function visible(bars) {
    let low = 0, high = bars.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (Math.max(bars[middle].done, bars[middle].allocated + 1) <= view[0]) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let i = low; i < bars.length && bars[i].allocated < view[1] && found.length <= MOST_BARS; i++) found.push(bars[i]);
    return found;
  }

  function draw() {
    const colors = theme();
    const span = view[1] - view[0];
    for (const unit of units) {
      const canvas = unit.canvas, scale = devicePixelRatio || 1, width = unit.drawing.clientWidth;
      const height = CURVE + 6 + LANE * Math.max(1, unit.lanes.length);
      canvas.width = Math.max(1, Math.round(width * scale));
      canvas.height = Math.round(height * scale);
      canvas.style.height = height + "px";
      const pen = canvas.getContext("2d");
      pen.scale(scale, scale);
      const x = (cycle) => ((cycle - view[0]) / span) * width;
      drawCurve(pen, unit, width, span, colors);
      const shown = unit.lanes.map((lane) => visible(lane.bars));
      const few = shown.reduce((sum, mine) => sum + mine.length, 0) <= MOST_BARS;
      unit.lanes.forEach((lane, k) => {
        const y = CURVE + 4 + k * LANE;
        if (few) {
          for (const bar of shown[k]) {
            pen.fillStyle = D.colours[D.names[bar.name]];
            pen.globalAlpha = 0.3;
            pen.fillRect(x(bar.allocated), y, x(bar.issued) - x(bar.allocated), LANE - 2);
            pen.globalAlpha = 1;
            pen.fillRect(x(bar.issued), y, Math.max(0.7, x(bar.done) - x(bar.issued)), LANE - 2);
          }
          return;
        }
        pen.fillStyle = colors.accent;
        for (let at = 0; at < width; at++) {
          const from = view[0] + (at * span) / width, to = view[0] + ((at + 1) * span) / width;
          const busy = (lane.busy(to) - lane.busy(from)) / (to - from), there = (lane.there(to) - lane.there(from)) / (to - from);
          pen.globalAlpha = Math.min(1, 0.75 * busy + 0.25 * there);
          pen.fillRect(at, y, 1, LANE - 2);
        }
        pen.globalAlpha = 1;
      });
      const busy = unit.busy(view[1]) - unit.busy(view[0]);
      unit.share.textContent = percent(busy / span) + " busy";
      unit.few = few;
    }
    $("window").textContent = "Cycles " + grouped(Math.floor(view[0])) + " to " + grouped(Math.ceil(view[1]) - 1) + " of " + grouped(begin) + " to " + grouped(end - 1) + ".";
    const steps = Baco.narrow() ? 2 : 5;
    $("ticks").replaceChildren(...Array.from({ length: steps + 1 }, (_, k) => h("span", {}, grouped(Math.round(view[0] + (k * span) / steps)))));
    document.body.dataset.view = view.map(Math.round).join();
  }
  function drawCurve(pen, unit, width, span, colors) {
    pen.fillStyle = colors.line;
    pen.fillRect(0, 2, width, 1);
    pen.fillRect(0, CURVE, width, 1);
    pen.fillStyle = colors.accent;
    pen.globalAlpha = 0.45;
    const bins = Math.max(1, Math.min(Math.floor(width / 2), Math.ceil(span)));
    for (let bin = 0; bin < bins; bin++) {
      const from = view[0] + (bin * span) / bins, to = view[0] + ((bin + 1) * span) / bins;
      const tall = (CURVE - 3) * ((unit.busy(to) - unit.busy(from)) / (to - from));
      pen.fillRect((bin * width) / bins, CURVE - tall, width / bins + 0.5, tall);
    }
    pen.globalAlpha = 1;
  }

  function zoom(factor, center = (view[0] + view[1]) / 2) {
    const span = Math.min(end - begin, Math.max(Math.min(LEAST_SPAN, end - begin), (view[1] - view[0]) * factor));
    const share = (center - view[0]) / (view[1] - view[0]);
    move(center - share * span, span);
  }
  function move(start, span) {
    const from = Math.max(begin, Math.min(start, end - span));
    view = [from, from + span];
    draw();
  }
  const cycleAt = (unit, event) => view[0] + ((event.clientX - unit.canvas.getBoundingClientRect().left) / unit.drawing.clientWidth) * (view[1] - view[0]);

  function tellOf(unit, event) {
    const cycle = cycleAt(unit, event), lane = Math.floor((event.clientY - unit.canvas.getBoundingClientRect().top - CURVE - 4) / LANE);
    const mine = unit.lanes[lane];
    const found = mine && visible(mine.bars).find((bar) => bar.allocated <= cycle && cycle < Math.max(bar.done, bar.allocated + 1));
    $("tip").textContent = found ? describe(found) : "\u00a0";
  }
  function describe(bar) {
    const issued = bar.unfinished && bar.issued === bar.done ? "not issued" : "issued " + grouped(bar.issued);
    return (bar.text || D.names[bar.name]) + ": allocated " + grouped(bar.allocated) + ", " + issued + ", " + (bar.unfinished ? "not done" : "done " + grouped(bar.done));
  }

  function listen(unit) {
    let drag = null;
    unit.canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, cycleAt(unit, event)); }, { passive: false });
    unit.canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, start: view[0] }; unit.canvas.setPointerCapture(event.pointerId); });
    unit.canvas.addEventListener("pointermove", (event) => {
      if (drag) move(drag.start - ((event.clientX - drag.x) / unit.drawing.clientWidth) * (view[1] - view[0]), view[1] - view[0]);
      else tellOf(unit, event);
    });
    unit.canvas.addEventListener("pointerup", () => { drag = null; });
  }

  function listCommands(bars) {
    const rows = D.names.map((name) => ({ name, number: 0, wait: 0, run: 0, longest: 0 }));
    for (const bar of bars) {
      const row = rows[bar.name];
      row.number++;
      row.wait += bar.issued - bar.allocated;
      row.run += bar.done - bar.issued;
      row.longest = Math.max(row.longest, bar.done - bar.issued);
    }
    const column = (title, key, of = (r) => r[key]) => ({ title, num: true, sort: of, cell: (r) => count(Math.round(of(r) * 10) / 10) });
    fillTable($("commands"), [
      { title: "Command", sort: (r) => r.name, cell: (r) => { const dot = h("span", { class: "dot" }); dot.style.background = D.colours[r.name]; return [dot, r.name]; } },
      column("Number", "number"), column("Cycles waiting", "wait"), column("Cycles running", "run"),
      column("Running, each", "mean", (r) => r.run / r.number), column("Longest", "longest"),
    ], rows, { caption: "Commands by name: how many, and their cycles" });
  }

  run(async () => {
    const packed = await unpack("packed");
    const unfinished = new Set(packed.unfinished);
    let cycle = 0;
    const bars = packed.lane.map((lane, i) => {
      cycle += packed.allocated[i];
      const issued = cycle + packed.wait[i];
      return { lane, name: packed.name[i], allocated: cycle, issued, done: issued + packed.run[i], unfinished: unfinished.has(i), text: packed.texts[i] };
    });
    units = D.lanes.map((info) => makeUnit(info, bars.filter((bar) => bar.lane >= info.from && bar.lane < info.until)));
    for (const unit of units) {
      unit.canvas = h("canvas", { role: "img", "aria-label": unit.unit + ": its commands over time" });
      unit.share = h("span", {});
      unit.drawing = h("div", { class: "drawing" }, unit.canvas);
      $("chart").append(h("div", { class: "unit" }, h("div", { class: "label" }, h("b", {}, unit.unit), unit.share), unit.drawing));
      listen(unit);
    }
    $("chart").append(h("div", { class: "ticks", id: "ticks" }));
    $("legend").append(...D.names.map((name) => { const dot = h("span", { class: "dot" }); dot.style.background = D.colours[name]; return h("span", {}, dot, name); }));
    listCommands(bars);
    const span = () => view[1] - view[0];
    for (const [id, action] of [["in", () => zoom(0.5)], ["out", () => zoom(2)], ["left", () => move(view[0] - span() / 2, span())], ["right", () => move(view[0] + span() / 2, span())], ["whole", () => move(begin, end - begin)]]) $(id).addEventListener("click", action);
    addEventListener("resize", draw);
    onLook(draw);
    draw();
  });
