// The page of a serving study: misses and latency against the load, the latency's distribution, sizes of steps, who made them.

const series = data.strategies.map((s, i) => ({ ...s, i })).filter((s) => s.points.length > 0);
const shownSeries = series.filter((s) => s.shown !== undefined);
const goalMs = data.setup.goals.latency_ms, mostMissed = data.setup.goals.most_missed;
function msText(ms) { return `${fixed(ms, ms < 10 ? 2 : 1)}\u00a0ms`; }
function loadText(load) { return `${+load.toPrecision(6)} ${data.load}`; }

function fillHead() {
  document.getElementById("subject").append(element("strong", { text: data.model }), ` on ${data.devices} × ${data.device_title}`);
  document.getElementById("headline").append(...breakable(data.headline));
  const sentences = document.getElementById("sentences");
  for (const s of data.strategies) sentences.append(element("li", { text: s.result }));
  const facts = [["Arrivals", data.setup.arrivals], ["Goals", data.goals], ["Server", data.server], ["Steps", data.steps],
    ["Counted", `${data.turn}s that come from ${data.setup.warm_up_s} s to ${data.setup.horizon_s} s`], ["Routing", `${data.routing}, seed ${data.seed}`],
    ["Weights, activations", `${data.weights}, ${data.activations}`], ["Launch", data.launch], ["Constants", data.calibration]];
  for (const [name, value] of facts) document.getElementById("facts").append(element("div", {}, element("dt", { text: name }), element("dd", { text: value })));
}

function seriesLegend(list) {
  return list.map((s) => ({ text: s.strategy, kind: "name", width: 26, draw: (g) => {
    g.append("path").attr("d", "M0 0H26").style("stroke", strategyColour(s.i)).attr("stroke-width", 2).attr("stroke-dasharray", strategyDash(s.i));
    g.append("path").attr("d", strategyShape(s.i)).attr("transform", "translate(13,0)").style("fill", strategyColour(s.i));
  } }));
}

// Axes, a line with marks a series, a dashed level. spec: {x, y, xTicks, yTicks, xName, yText(v), lines: [{s, marks: [{x, y, about}]}], level: {y, text}}
function drawLines(svg, width, spec) {
  const legendHeight = drawLegend(svg, seriesLegend(spec.lines.map((l) => l.s)), 0, 0, width);
  const left = 64, right = 16, top = legendHeight + 12, height = width < 560 ? 250 : 320, bottom = top + height;
  const x = spec.x.copy().range([left + 14, width - right - 14]), y = spec.y.copy().range([bottom, top]);
  const axes = svg.append("g").attr("aria-hidden", "true");
  for (const v of spec.yTicks) {
    axes.append("path").attr("class", "grid").attr("d", `M${left} ${y(v)}H${width - right}`);
    axes.append("text").attr("class", "dim").attr("x", left - 8).attr("y", y(v)).attr("dy", ".34em").attr("text-anchor", "end").text(spec.yText(v));
  }
  let last = -Infinity;
  for (const v of spec.xTicks) {
    axes.append("path").attr("class", "grid").attr("d", `M${x(v)} ${top}V${bottom}`);
    const text = String(+v.toPrecision(4));
    if (x(v) - last < textWidth(text) + 8) continue;
    last = x(v);
    axes.append("text").attr("class", "dim").attr("x", x(v)).attr("y", bottom + 18).attr("text-anchor", "middle").text(text);
  }
  axes.append("text").attr("class", "dim").attr("x", (left + width - right) / 2).attr("y", bottom + 38).attr("text-anchor", "middle").text(spec.xName);
  if (spec.level && spec.level.y >= spec.y.domain()[0] && spec.level.y <= spec.y.domain()[1]) {
    axes.append("path").attr("class", "bound").attr("d", `M${left} ${y(spec.level.y)}H${width - right}`);
    axes.append("text").attr("class", "dim").attr("x", width - right).attr("y", y(spec.level.y) - 5).attr("text-anchor", "end").text(spec.level.text);
  }
  for (const { s, marks } of spec.lines) {
    const g = svg.append("g");
    const at = (m) => [x(m.x), y(Math.max(spec.y.domain()[0], Math.min(spec.y.domain()[1], m.y)))];
    g.append("path").attr("d", d3.line()(marks.map(at))).attr("fill", "none").style("stroke", strategyColour(s.i)).attr("stroke-width", 2).attr("stroke-dasharray", strategyDash(s.i));
    const nodes = marks.map((m) => {
      const mark = g.append("g").attr("class", "mark");
      mark.append("circle").attr("class", "hit").attr("cx", at(m)[0]).attr("cy", at(m)[1]).attr("r", 11);
      mark.append("path").attr("d", strategyShape(s.i, m.strong ? 95 : 52)).attr("transform", `translate(${at(m)})`).style("fill", strategyColour(s.i)).style("stroke", "var(--panel)").attr("stroke-width", 1);
      tells(mark.node(), m.about);
      return mark.node();
    });
    roving(g.node(), s.strategy, nodes);
  }
  return bottom + 46;
}

// ---- against the load

function pointLines(s, p) {
  const lines = [["miss", p.stopped_early ? `more than ${percentText(mostMissed)}: stopped early` : percentText(p.miss_share)]];
  if (p.latency) lines.push(["50, 95, 99 %", `${msText(p.latency.p50_ms)}, ${msText(p.latency.p95_ms)}, ${msText(p.latency.p99_ms)}`]);
  lines.push(["step", p.step ? msText(p.step.mean_ms) : "–"], ["sequences a step", fixed(p.mean_sequences, 1)], ["busy", percentText(p.utilisation)], [`${data.turn}s`, p.turns.toLocaleString("en-US")]);
  return lines;
}
function loads() { return [...new Set(series.flatMap((s) => s.points.map((p) => p.load)))].sort((a, b) => a - b); }
function loadScale() {
  const all = loads();
  return all.length === 1 ? d3.scaleLog().domain([all[0] / 1.6, all[0] * 1.6]) : d3.scaleLog().domain([all[0], all[all.length - 1]]);
}
const kLoadMode = { what: "p99_ms" };
const kLoadModes = [["p50_ms", "50 %"], ["p95_ms", "95 %"], ["p99_ms", "99 %"], ["misses", "Misses"]];

function loadReading() {
  const best = d3.greatest(series.filter((s) => s.sustainable !== undefined), (s) => s.sustainable);
  const found = best ? `${best.strategy} keeps misses at ${percentText(mostMissed)} or less up to ${loadText(best.sustainable)}. ` : "";
  return `${found}Loads at which a run was stopped, since too many had missed, are left out of the latencies.`;
}

function drawLoad(svg, width) {
  const misses = kLoadMode.what === "misses";
  const usable = (p) => (misses ? true : p.latency && !p.stopped_early);
  const value = (p) => (misses ? (p.stopped_early ? Math.max(p.miss_share, mostMissed * 1.5) : p.miss_share) : p.latency[kLoadMode.what]);
  const lines = series.map((s) => ({ s, marks: s.points.filter(usable).map((p) => ({ x: p.load, y: value(p), strong: p.load === s.sustainable,
    about: () => ({ title: `${s.strategy} at ${loadText(p.load)}`, lines: pointLines(s, p) }) })) })).filter((l) => l.marks.length > 0);
  const values = lines.flatMap((l) => l.marks.map((m) => m.y));
  const high = Math.max(...values, misses ? mostMissed * 2 : 0, !misses && goalMs ? goalMs : 0) * 1.1;
  const y = misses ? d3.scaleLinear().domain([0, high]) : d3.scaleLog().domain([Math.min(...values) / 1.2, high]);
  return drawLines(svg, width, { x: loadScale(), y, xTicks: loads(), yTicks: misses ? y.ticks(6) : logTicks(...y.domain()), xName: data.load,
    yText: misses ? percentText : (v) => `${v} ms`, lines,
    level: misses ? { y: mostMissed, text: "limit" } : goalMs ? { y: goalMs, text: "deadline" } : null });
}

const kPointColumns = [{ name: data.load }, { name: "strategy", text: true }, { name: "miss_share", digits: 4 }, { name: "stopped_early", text: true }, { name: "p50_ms", digits: 2 }, { name: "p95_ms", digits: 2 },
  { name: "p99_ms", digits: 2 }, { name: "first_token_p50_ms", digits: 2 }, { name: "first_token_p99_ms", digits: 2 }, { name: "per_token_p50_ms", digits: 2 }, { name: "per_token_p99_ms", digits: 2 },
  { name: "step_ms", digits: 3 }, { name: "sequences", digits: 2 }, { name: "busy", digits: 3 }, { name: "tokens_out_per_s", digits: 1 }, { name: "turns" }];
function pointTable() {
  const of = (quantiles, key) => (quantiles ? quantiles[key] : null);
  return { columns: kPointColumns, rows: series.flatMap((s) => s.points.map((p) => [p.load, s.strategy, p.miss_share, p.stopped_early ? "yes" : "", of(p.latency, "p50_ms"), of(p.latency, "p95_ms"),
    of(p.latency, "p99_ms"), of(p.first_token, "p50_ms"), of(p.first_token, "p99_ms"), of(p.per_token, "p50_ms"), of(p.per_token, "p99_ms"), of(p.step, "mean_ms"), p.mean_sequences, p.utilisation,
    p.tokens_out_per_s, p.turns])) };
}

function addLoad(section) {
  addFigure(section, { id: "chart-load", title: () => `${kLoadModes.find(([k]) => k === kLoadMode.what)[1]} of ${data.turn}s${kLoadMode.what === "misses" ? "" : ": done within"}`, reading: loadReading, draw: drawLoad, table: pointTable,
    controls: (redraw) => [segments("What is shown", "load-mode", kLoadModes, kLoadMode.what, (value) => {
      kLoadMode.what = value;
      redraw();
    })] });
}

// ---- the distribution at the shown load

function drawTail(svg, width) {
  const lines = shownSeries.map((s) => ({ s, marks: s.latency_ms.map((ms, i) => ({ x: ms, y: (i + 1) / s.latency_ms.length, about: () => ({ title: `${s.strategy} at ${loadText(s.points[s.shown].load)}`,
    lines: [[`of ${data.turn}s`, percentText((i + 1) / s.latency_ms.length)], ["are done within", msText(ms)]] }) })) }));
  const values = lines.flatMap((l) => l.marks.map((m) => m.x));
  const x = d3.scaleLinear().domain([0, Math.max(...values) * 1.03]), y = d3.scaleLinear().domain([0, 1]);
  return drawLines(svg, width, { x, y, xTicks: x.ticks(8), yTicks: y.ticks(5), xName: `ms from a ${data.turn}'s arrival to its last token`, yText: percentText, lines });
}
function tailTable() {
  return { columns: [{ name: "strategy", text: true }, { name: data.load }, { name: "share", digits: 2 }, { name: "within_ms", digits: 3 }],
    rows: shownSeries.flatMap((s) => s.latency_ms.map((ms, i) => [s.strategy, s.points[s.shown].load, (i + 1) / s.latency_ms.length, ms])) };
}
function tailReading() {
  const at = shownSeries.map((s) => `${s.strategy} at ${loadText(s.points[s.shown].load)}`);
  return `The share of ${data.turn}s that are done within a time: ${listText(at)}.`;
}

// ---- steps

function drawSizes(svg, width) {
  const all = shownSeries.map((s) => ({ s, bins: s.points[s.shown].steps_by_sequences, steps: d3.sum(s.points[s.shown].steps_by_sequences, (b) => b[1]) }));
  const lines = all.map(({ s, bins, steps }) => ({ s, marks: bins.map(([size, count]) => ({ x: size, y: count / steps, about: () => ({ title: `${s.strategy}: ${plural(size, "sequence")}`,
    lines: [["of steps", percentText(count / steps)], ["steps", count.toLocaleString("en-US")]] }) })) }));
  const sizes = lines.flatMap((l) => l.marks.map((m) => m.x));
  const x = d3.scaleLinear().domain([Math.min(...sizes) - 0.5, Math.max(...sizes) + 0.5]), y = d3.scaleLinear().domain([0, Math.max(...lines.flatMap((l) => l.marks.map((m) => m.y))) * 1.1]);
  return drawLines(svg, width, { x, y, xTicks: x.ticks(10).filter(Number.isInteger), yTicks: y.ticks(5), xName: "sequences in a step", yText: percentText, lines });
}
function sizesTable() {
  return { columns: [{ name: "strategy", text: true }, { name: data.load }, { name: "sequences" }, { name: "steps" }],
    rows: shownSeries.flatMap((s) => s.points[s.shown].steps_by_sequences.map(([size, count]) => [s.strategy, s.points[s.shown].load, size, count])) };
}
function sizesReading() {
  return `${listText(shownSeries.map((s) => `${s.strategy} has ${fixed(s.points[s.shown].mean_sequences, 1)} sequences in a step in the mean and is busy ${percentText(s.points[s.shown].utilisation)} of the time`))}.`;
}

function takenTable() {
  return { columns: [{ name: "strategy", text: true }, { name: data.load }, ...data.candidates.map((c) => ({ name: c, digits: 4 }))],
    rows: series.flatMap((s) => s.points.map((p) => {
      const all = d3.sum(data.candidates, (c) => p.steps_by_strategy[c]);
      return [s.strategy, p.load, ...data.candidates.map((c) => (all > 0 ? p.steps_by_strategy[c] / all : null))];
    })) };
}

fillHead();
addLoad(document.getElementById("load"));
if (shownSeries.length > 0) {
  addFigure(document.getElementById("tail"), { id: "chart-tail", title: `Latency of ${data.turn}s`, reading: tailReading, draw: drawTail, table: tailTable });
  addFigure(document.getElementById("steps"), { id: "chart-sizes", title: "Sequences in a step", reading: sizesReading, draw: drawSizes, table: sizesTable });
}
document.getElementById("steps").append(element("div", { class: "card" }, element("h3", { text: "Steps by strategy" }),
  element("p", { class: "reading", text: "Of the steps of each run, the share that ran under each strategy: auto takes the fastest for every step." }), buildTable(takenTable(), "Share of steps by strategy")));
document.getElementById("numbers").append(element("div", { class: "card" }, element("h3", { text: "Every load that was run" }), buildTable(pointTable(), "Every load that was run", { tall: true })));
document.getElementById("foot").append(element("p", {
  text: `moesim ${data.version}. Device file hash ${data.device_hash}, seed ${data.seed}: the same inputs give the same report, byte for byte. This file needs no network and loads nothing.`,
}), element("p", { text: "Charts are drawn by D3, whose licence stands in this file." }));
