// Time against concurrency, a line a strategy: log-log, with the bound, the spread, measured points and who wins where.

function crossovers() {
  const found = [];
  for (let i = 1; i < data.verdicts.length; ++i) {
    const before = data.verdicts[i - 1], after = data.verdicts[i];
    if (before.winner && after.winner && before.winner !== after.winner) found.push({ from: before.to, to: after.from, before: before.winner, after: after.winner });
  }
  return found;
}

function timeReading() {
  const last = data.points[data.points.length - 1], first = data.points[0];
  const cross = crossovers();
  const where = cross.map((c) => `between ${c.from} and ${c.to} tokens (${c.before} to ${c.after})`);
  const lead = data.points.length === 1 ? `At ${tokensText(first.concurrency)} only.`
    : cross.length === 0 ? `${data.verdicts.find((v) => v.winner).winner} is fastest at every concurrency from ${first.concurrency} to ${tokensText(last.concurrency)}${data.verdicts.every((v) => v.winner) ? "" : " at which a strategy is feasible"}.`
    : `The lines cross ${listText(where)}.`;
  const best = feasibleRows(point()).find((row) => row.winner);
  const share = best ? ` At ${tokensText(point().concurrency)} the fastest reaches ${percentText(best.bound_fraction)} of what the device could do at best.` : "";
  return `${lead}${share} Lower is better; a stroke upwards from a mark is the 95th percentile over the routings.`;
}

function rowLines(p, row) {
  const blame = row.attribution_ps_sum.map((ps, i) => [effects[i].name, ps / row.sum_ps]).sort((a, b) => b[1] - a[1])[0];
  const lines = [["median", timeText(row.median_ps)], ["95th percentile", timeText(row.p95_ps)], ["bound", timeText(p.bound_ps)],
    ["of bound", percentText(row.bound_fraction)], ["from memory", `${bytesText(row.memory_read_bytes)}, ${fixed(row.achieved_tb_per_s, 2)} TB/s`],
    ["most of all", `${blame[0]} ${percentText(blame[1])}`]];
  if (row.tokens_per_s_per_sequence) lines.push(["tokens/s, each", fixed(row.tokens_per_s_per_sequence, 1)]);
  if (row.implementation) lines.push(["constants of", row.implementation]);
  return lines;
}

function timeTable() {
  const columns = [{ name: "tokens" }, { name: "strategy", text: true }, { name: "winner", text: true }, { name: "median_us", digits: 3 },
    { name: "p95_us", digits: 3 }, { name: "bound_us", digits: 3 }, { name: "bound_by", text: true }, { name: "share_of_bound", digits: 4 },
    { name: "distinct_experts", digits: 2 }, { name: "rows_per_expert", digits: 3 }, { name: "memory_read_mb", digits: 2 }, { name: "tb_per_s", digits: 3 },
    { name: "implementation", text: true }, { name: "infeasible", text: true, wide: true }];
  const rows = data.points.flatMap((p) => p.rows.map((row) => {
    const head = [p.concurrency, strategyName(row.strategy), row.winner ? "yes" : ""];
    const bound = [p.bound_ps / kPsPerUs, p.bound_by];
    const routed = [p.distinct_experts, p.rows_per_expert];
    if (row.median_ps === undefined) return [...head, null, null, ...bound, null, ...routed, null, null, "", row.reason];
    return [...head, row.median_ps / kPsPerUs, row.p95_ps / kPsPerUs, ...bound, row.bound_fraction, ...routed, row.memory_read_bytes / 1e6,
      row.achieved_tb_per_s, row.implementation || "", ""];
  }));
  for (const m of data.measured.points) {
    rows.push([m.concurrency, strategyName(m.strategy), "measured", m.us, null, null, "", null, null, null, null, null, m.implementation, ""]);
  }
  return { columns, rows };
}

const timeMode = { relative: false };

function drawTime(svg, width) {
  const fastest = data.points.map((p) => Math.min(...feasibleRows(p).map((r) => r.median_ps)));
  const shown = (ps, i) => (timeMode.relative ? ps / fastest[i] : inUnit(ps));
  const usable = data.points.map((p, i) => i).filter((i) => !timeMode.relative || Number.isFinite(fastest[i]));
  const used = data.strategies.map((_, s) => s);
  const narrow = width < 560;
  const left = narrow ? 44 : 56, right = 14, plotWidth = width - left - right;

  const legend = used.map((s) => {
    const row = data.points.map((p) => p.rows[s]).find((r) => r.median_ps !== undefined);
    const marks = [...new Set(data.points.map((p) => rowMark(p.rows[s])))].filter((m) => m).join("");
    return { text: strategyName(s) + marks + (row ? "" : " (infeasible)"), kind: "name", width: 26, draw: (g) => {
      g.append("path").attr("d", "M0 0H26").style("stroke", strategyColour(s)).attr("stroke-width", 2).attr("stroke-dasharray", strategyDash(s));
      g.append("path").attr("d", strategyShape(s)).attr("transform", "translate(13,0)").style("fill", strategyColour(s));
    } };
  });
  legend.push({ text: "bound: bytes or work at the device's best rate", width: 26, draw: (g) => g.append("path").attr("class", "bound").attr("d", "M0 0H26") });
  if (data.measured.points.length > 0) {
    legend.push({ text: "measured, in its strategy's shape", width: 26, draw: (g) => g.append("path").attr("class", "measure").attr("d", strategyShape(0, 100)).attr("transform", "translate(13,0)") });
  }
  const legendHeight = drawLegend(svg, legend, 0, 0, width);

  const ribbon = legendHeight + 12, kRibbon = 22;
  const top = ribbon + kRibbon + 10, plotHeight = narrow ? 300 : 380, bottom = top + plotHeight;
  const cs = data.points.map((p) => p.concurrency);
  const span = cs.length === 1 ? [cs[0] / 1.6, cs[0] * 1.6] : [cs[0], cs[cs.length - 1]];
  const inset = narrow ? 14 : 26;
  const x = d3.scaleLog().domain(span).range([left + inset, left + plotWidth - inset]);
  const values = usable.flatMap((i) => [...feasibleRows(data.points[i]).flatMap((r) => [shown(r.median_ps, i), shown(r.p95_ps, i)]), shown(data.points[i].bound_ps, i)]);
  const measured = data.measured.points.map((m) => ({ ...m, i: cs.indexOf(m.concurrency) })).filter((m) => !timeMode.relative || (m.i >= 0 && Number.isFinite(fastest[m.i])))
    .map((m) => ({ ...m, y: timeMode.relative ? m.us * kPsPerUs / fastest[m.i] : inUnit(m.us * kPsPerUs) }));
  values.push(...measured.map((m) => m.y));
  const positive = values.filter((v) => v > 0);
  const y = d3.scaleLog().domain([Math.min(...positive) / 1.15, Math.max(...positive) * 1.15]).range([bottom, top]);

  const axes = svg.append("g").attr("aria-hidden", "true");
  for (const v of logTicks(...y.domain())) {
    axes.append("path").attr("class", "grid").attr("d", `M${left} ${y(v)}H${width - right}`);
    axes.append("text").attr("class", "dim").attr("x", left - 8).attr("y", y(v)).attr("dy", ".34em").attr("text-anchor", "end").text(v >= 1000 ? v.toLocaleString("en-US") : String(+v.toPrecision(3)));
  }
  let lastLabel = -Infinity;
  cs.forEach((c, i) => {
    axes.append("path").attr("class", i === chosen.index ? "cursor" : "grid").attr("d", `M${x(c)} ${top}V${bottom}`);
    const label = c.toLocaleString("en-US");
    if (x(c) - lastLabel < textWidth(label) + 8) return;
    lastLabel = x(c);
    axes.append("text").attr("class", i === chosen.index ? "strong" : "dim").attr("x", x(c)).attr("y", bottom + 18).attr("text-anchor", "middle").text(label);
  });
  axes.append("path").attr("class", "axis").attr("d", `M${left} ${top}V${bottom}H${width - right}`);
  axes.append("text").attr("class", "dim").attr("x", left + plotWidth / 2).attr("y", bottom + 38).attr("text-anchor", "middle").text("tokens of a decode step (one a sequence)");
  axes.append("text").attr("class", "dim haloed").attr("x", left + 6).attr("y", top + 13).text(timeMode.relative ? "time / fastest" : `time, ${timeUnit.name}`);

  drawWinners(svg, x, left, width - right, ribbon, kRibbon, bottom);

  const line = (p) => d3.line().x((d) => x(d[0])).y((d) => y(d[1]))(p);
  const bounds = usable.map((i) => [cs[i], shown(data.points[i].bound_ps, i)]).filter(([, v]) => v > 0);
  if (bounds.length > 0) {
    const ends = cs.length === 1 ? [[span[0], bounds[0][1]], [span[1], bounds[0][1]]] : bounds;
    svg.append("path").attr("class", "bound").attr("d", line(ends));
  }
  for (const s of used) {
    const list = usable.map((i) => ({ i, p: data.points[i], row: data.points[i].rows[s] })).filter((d) => d.row.median_ps !== undefined);
    if (list.length === 0) continue;
    const g = svg.append("g");
    g.append("path").attr("class", "series").attr("d", line(list.map((d) => [d.p.concurrency, shown(d.row.median_ps, d.i)]))).attr("fill", "none")
      .style("stroke", strategyColour(s)).attr("stroke-width", 2).attr("stroke-dasharray", strategyDash(s)).attr("stroke-linejoin", "round");
    const nodes = list.map(({ i, p, row }) => {
      const at = [x(p.concurrency), y(shown(row.median_ps, i))], high = y(shown(row.p95_ps, i));
      const mark = g.append("g").attr("class", "mark");
      if (at[1] - high > 1) mark.append("path").attr("d", `M${at[0]} ${at[1]}V${high}m-4 0h8`).attr("fill", "none").style("stroke", strategyColour(s)).attr("stroke-width", 1.3);
      mark.append("circle").attr("class", "hit").attr("cx", at[0]).attr("cy", at[1]).attr("r", 11);
      mark.append("path").attr("d", strategyShape(s, row.winner ? 95 : 52)).attr("transform", `translate(${at})`).style("fill", strategyColour(s)).style("stroke", "var(--panel)").attr("stroke-width", 1);
      tells(mark.node(), () => ({ title: `${rowName(row)} at ${tokensText(p.concurrency)}${row.winner ? ", fastest" : ""}`, lines: rowLines(p, row) }), () => choose(i));
      return mark.node();
    });
    roving(g.node(), strategyName(s), nodes);
  }
  if (measured.length > 0) {
    const g = svg.append("g");
    const nodes = measured.map((m) => {
      const mark = g.append("g").attr("class", "mark measured");
      mark.append("path").attr("class", "measure").attr("d", strategyShape(m.strategy, 100)).attr("transform", `translate(${x(m.concurrency)},${y(m.y)})`).attr("pointer-events", "all");
      tells(mark.node(), () => ({ title: `Measured: ${strategyName(m.strategy)} at ${tokensText(m.concurrency)}`,
        lines: [["time", timeText(m.us * kPsPerUs)], ["implementation", m.implementation], ["row", m.place]] }));
      return mark.node();
    });
    roving(g.node(), "measured points", nodes);
  }
  return bottom + 46;
}

// A ribbon over the plot: whose concurrency it is, and a line down where the winner changes.
function drawWinners(svg, x, left, right, top, height, bottom) {
  const edge = (a, b) => x(Math.sqrt(a * b));
  data.verdicts.forEach((verdict, i) => {
    const from = i === 0 ? left : edge(data.verdicts[i - 1].to, verdict.from);
    const to = i === data.verdicts.length - 1 ? right : edge(verdict.to, data.verdicts[i + 1].from);
    const s = data.strategies.indexOf(verdict.winner);
    svg.append("rect").attr("class", "shade").attr("x", from).attr("y", top).attr("width", Math.max(0, to - from - 2)).attr("height", height).attr("rx", 4);
    if (s >= 0) svg.append("path").attr("d", strategyShape(s)).attr("transform", `translate(${from + 13},${top + height / 2})`).style("fill", strategyColour(s));
    svg.append("text").attr("class", "name").attr("x", from + 25).attr("y", top + height / 2).attr("dy", ".34em").text(fitted(verdict.winner || "none", to - from - 34, "name"));
    if (i > 0 && data.verdicts[i - 1].winner !== verdict.winner) svg.append("path").attr("class", "axis crossover").attr("d", `M${from - 1} ${top}V${bottom}`).attr("stroke-dasharray", "5 3");
  });
}

// Why a strategy has no time: each reason once, with the concurrencies that it holds at.
function infeasibleNotes() {
  const notes = new Map();
  for (const p of data.points) {
    for (const row of p.rows.filter((r) => r.reason !== undefined)) {
      const key = `${strategyName(row.strategy)}: ${row.reason}`;
      notes.set(key, [...(notes.get(key) || []), p.concurrency]);
    }
  }
  return [...notes].map(([text, at]) => (at.length === data.points.length ? text : `${text} (at ${listText(at.map(String))} tokens)`));
}

function addTimeChart(section) {
  addFigure(section, {
    id: "chart-time",
    title: `Time of ${data.what}, by strategy`,
    reading: timeReading,
    draw: drawTime,
    table: timeTable,
    follows: true,
    controls: (redraw) => [segments("Vertical axis", "time-mode", [["absolute", "Time"], ["relative", "× of the fastest"]], "absolute", (value) => {
      timeMode.relative = value === "relative";
      redraw();
    })],
  });
  if (markNotes().length > 0) section.append(element("p", { class: "note", text: markNotes().join(" ") }));
  const notes = infeasibleNotes();
  if (notes.length === 0) return;
  const list = element("ul", { class: "note" });
  for (const text of notes) list.append(element("li", { text }));
  section.append(element("p", { class: "note", text: "Not feasible:" }), list);
}
