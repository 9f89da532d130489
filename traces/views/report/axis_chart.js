// Times of the strategies along the axis on one line, with the border and the zone in which none is clearly ahead.

const axisMode = { relative: false };

// Of the map's numbers those of this line.
function axisTable() {
  const { columns, rows } = mapTable();
  const first = d3.sum(study.lines.slice(0, chosen.index), (l) => l.places.length);
  return { columns, rows: rows.slice(first, first + line().places.length) };
}

function drawAxis(svg, width) {
  addHatch(svg, "axis");
  const places = line().places, narrow = width < 560;
  const left = narrow ? 44 : 56, right = 14;
  const fastest = places.map((p) => Math.min(...p.times_ps.filter((t) => t !== null)));
  const shown = (ps, i) => (axisMode.relative ? ps / fastest[i] : inUnit(ps));
  const legend = data.strategies.map((name, s) => ({ text: name + (places.some((p) => p.times_ps[s] !== null) ? "" : " (infeasible)"), kind: "name", width: 26, draw: (g) => {
    g.append("path").attr("d", "M0 0H26").style("stroke", strategyColour(s)).attr("stroke-width", 2).attr("stroke-dasharray", strategyDash(s));
    g.append("path").attr("d", strategyShape(s)).attr("transform", "translate(13,0)").style("fill", strategyColour(s));
  } }));
  if (anyContested) legend.push(zoneLegend("axis"));
  const top = drawLegend(svg, legend, 0, 0, width) + 14, bottom = top + (narrow ? 280 : 360);
  const inset = narrow ? 12 : 22;
  const x = axisScale(left + inset, width - right - inset);
  const values = places.flatMap((p, i) => p.times_ps.filter((t) => t !== null).map((t) => shown(t, i))).filter((v) => v > 0);
  const y = d3.scaleLog().domain(values.length ? [Math.min(...values) / 1.12, Math.max(...values) * 1.12] : [1, 10]).range([bottom, top]);
  const axes = svg.append("g").attr("aria-hidden", "true");
  const at = extents(line(), x);
  for (const run of runs(places, (a, b) => a.contested === b.contested)) {
    if (!places[run.first].contested) continue;
    for (const fill of ["var(--shade)", "url(#axis-diagonal)"]) {
      axes.append("rect").attr("class", "zone").attr("x", at[run.first][0]).attr("y", top).attr("width", Math.max(2, at[run.last][1] - at[run.first][0])).attr("height", bottom - top).style("fill", fill).style("fill-opacity", 0.6);
    }
  }
  for (const v of logTicks(...y.domain())) {
    axes.append("path").attr("class", "grid").attr("d", `M${left} ${y(v)}H${width - right}`);
    axes.append("text").attr("class", "dim").attr("x", left - 8).attr("y", y(v)).attr("dy", ".34em").attr("text-anchor", "end").text(v >= 1000 ? v.toLocaleString("en-US") : String(+v.toPrecision(3)));
  }
  axes.append("path").attr("class", "axis").attr("d", `M${left} ${top}V${bottom}H${width - right}`);
  drawAxisTicks(axes, x, bottom);
  axes.append("text").attr("class", "dim haloed").attr("x", left + 6).attr("y", top + 13).text(axisMode.relative ? "time / fastest" : `time, ${timeUnit.name}`);
  for (const run of runs(places, (a, b) => a.winner === b.winner).slice(1)) {
    axes.append("path").attr("class", "axis crossover").attr("d", `M${at[run.first][0]} ${top}V${bottom}`).attr("stroke-dasharray", "5 3");
  }
  data.strategies.forEach((name, s) => {
    const list = places.map((p, i) => ({ p, i })).filter(({ p }) => p.times_ps[s] !== null);
    if (list.length === 0) return;
    const g = svg.append("g");
    const path = d3.line().x(({ p }) => x(along(p.number))).y(({ p, i }) => y(shown(p.times_ps[s], i)));
    g.append("path").attr("class", "series").attr("d", path(list)).attr("fill", "none").style("stroke", strategyColour(s)).attr("stroke-width", 2).attr("stroke-dasharray", strategyDash(s));
    roving(g.node(), name, list.map(({ p, i }) => {
      const mark = g.append("g").attr("class", "mark"), place = [x(along(p.number)), y(shown(p.times_ps[s], i))];
      mark.append("circle").attr("class", "hit").attr("cx", place[0]).attr("cy", place[1]).attr("r", 10);
      mark.append("path").attr("d", strategyShape(s, p.winner === name ? 90 : 46)).attr("transform", `translate(${place})`).style("fill", strategyColour(s)).style("stroke", "var(--panel)").attr("stroke-width", 1);
      tells(mark.node(), () => ({ title: `${name} at ${study.axis} ${p.at}: ${timeText(p.times_ps[s])}${p.winner === name ? ", fastest" : ""}`, lines: placeLines(p) }));
      return mark.node();
    }));
  });
  return bottom + 46;
}

function addAxisChart(section) {
  addFigure(section, {
    id: "chart-axis",
    title: () => `Time of ${data.what}, by ${study.axis}${isMap ? `, at ${lineName(line())}` : ""}`,
    reading: () => `${line().sentence} Lower is better; the broken line is where the winner changes.`,
    draw: drawAxis,
    table: axisTable,
    follows: true,
    controls: (redraw) => [segments("Vertical axis", "axis-mode", [["absolute", "Time"], ["relative", "× of the fastest"]], "absolute", (value) => {
      axisMode.relative = value === "relative";
      redraw();
    })],
  });
  const notes = study.lines.flatMap((l) => Object.entries(l.infeasible).map(([name, reason]) => `${isMap ? `${lineName(l)}: ` : ""}${name}: ${reason}`));
  if (notes.length === 0) return;
  const list = element("ul", { class: "note" });
  for (const text of notes) list.append(element("li", { text }));
  section.append(element("p", { class: "note", text: "Not feasible anywhere:" }), list);
}
