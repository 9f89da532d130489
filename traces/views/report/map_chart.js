// The map: a strip for each line of the grid, in the winner's colour with its shape, deeper where it leads by more.

const kFullLead = 2, kPalest = 0.3;
function depth(lead) { return kPalest + (1 - kPalest) * Math.min(1, Math.log(lead) / Math.log(kFullLead)); }

function mapTable() {
  const columns = [...study.line_axes.map((name) => ({ name, text: true })), { name: study.axis, text: true }, { name: "tokens" }, { name: "winner", text: true },
    { name: "next_best", text: true }, { name: "lead", digits: 3 }, { name: "lead_error", digits: 4 }, { name: "contested", text: true }, { name: "confidence", digits: 3 },
    { name: "distinct_experts", digits: 2 }, ...data.strategies.map((name) => ({ name: `us ${name}`, digits: 3 }))];
  const rows = study.lines.flatMap((l) => l.places.map((p) => [...study.line_axes.map((name) => l.coordinates[name]), p.at, p.tokens, p.winner ?? "", p.next_best ?? "",
    p.next_best === null ? null : p.lead, p.lead_error, p.contested ? "yes" : "", p.confidence, p.distinct_experts_mean, ...p.times_ps.map((t) => (t === null ? null : t / kPsPerUs))]));
  return { columns, rows };
}

function drawMap(svg, width) {
  addHatch(svg, "map");
  const narrow = width < 560;
  const widest = Math.max(...study.lines.map((l) => textWidth(lineLabel(l))), textWidth(study.line_axes.join(", ")));
  const left = Math.min(widest + 14, narrow ? 90 : 220), right = 12;
  const legend = data.strategies.map((name, s) => ({ text: name, kind: "name", width: 18, draw: (g) => {
    g.append("rect").attr("y", -6).attr("width", 18).attr("height", 12).style("fill", strategyColour(s));
    g.append("path").attr("d", strategyShape(s, 36)).attr("transform", "translate(9,0)").style("fill", "var(--panel)");
  } }));
  if (anyContested) legend.push(zoneLegend("map"));
  const top = drawLegend(svg, legend, 0, 0, width) + 24;
  const axes = svg.append("g").attr("aria-hidden", "true");
  axes.append("text").attr("class", "dim").attr("x", left - 8).attr("y", top - 8).attr("text-anchor", "end").text(fitted(study.line_axes.join(", "), left - 8));
  const height = Math.max(16, Math.min(44, 420 / study.lines.length));
  const x = axisScale(left, width - right);
  study.lines.forEach((l, i) => {
    const y = top + i * height, at = extents(l, x), g = svg.append("g");
    axes.append("text").attr("class", i === chosen.index ? "strong" : "dim").attr("x", left - 8).attr("y", y + height / 2).attr("dy", ".34em").attr("text-anchor", "end").text(fitted(lineLabel(l), left - 12));
    const nodes = l.places.map((p, k) => {
      const [from, to] = at[k], s = strategyIndex(p.winner);
      const mark = g.append("g").attr("class", "mark");
      const block = () => mark.append("rect").attr("x", from).attr("y", y).attr("width", Math.max(1, to - from)).attr("height", height - 1);
      if (s < 0) block().attr("class", "shade");
      else block().style("fill", strategyColour(s)).style("fill-opacity", depth(p.lead));
      if (p.contested) block().attr("fill", "url(#map-diagonal)");
      tells(mark.node(), () => ({ title: `${p.winner ?? "nothing feasible"} at ${study.axis} ${p.at}, ${lineName(l)}`, lines: placeLines(p) }), () => choose(i));
      return mark.node();
    });
    const marks = g.append("g").attr("pointer-events", "none");
    for (const run of runs(l.places, (a, b) => a.winner === b.winner)) {
      const from = at[run.first][0], to = at[run.last][1], s = strategyIndex(l.places[run.first].winner);
      if (run.first > 0) marks.append("path").attr("class", "measure border").attr("d", `M${from} ${y}v${height - 1}`);
      if (s >= 0 && to - from > 18) marks.append("path").attr("d", strategyShape(s, height > 24 ? 52 : 30)).attr("transform", `translate(${(from + to) / 2},${y + height / 2})`).style("fill", "var(--panel)").style("stroke", "var(--ink)").attr("stroke-width", 1);
    }
    roving(g.node(), lineName(l), nodes);
  });
  const bottom = top + study.lines.length * height;
  const y = top + chosen.index * height;
  svg.append("rect").attr("class", "measure").attr("fill", "none").attr("pointer-events", "none").attr("x", left - 1).attr("y", y - 1).attr("width", width - right - left + 2).attr("height", height + 1);
  drawAxisTicks(axes, x, bottom);
  return bottom + 46;
}

function addMap(section) {
  addFigure(section, {
    id: "chart-map",
    title: `Fastest strategy, by ${study.axis} and ${listText(study.line_axes)}`,
    reading: () => `A strip for each value of ${listText(study.line_axes)}, in the winner's colour and shape, deeper where it leads by more (full at ${fixed(kFullLead, 0)} times), with borders found by bisection.${anyContested ? " Hatched: the lead is under the predicted error." : ""}`,
    hint: "Choose a strip to see its times below.",
    draw: drawMap,
    table: mapTable,
    follows: true,
  });
}
