// Where the time goes: a stacked bar a strategy at the chosen concurrency, by effect or, of a step, by part.

function stacked(kinds, amounts) {
  let at = 0;
  return kinds.map((kind, i) => {
    const from = at;
    at += amounts[i];
    return { kind, from, to: at, amount: amounts[i] };
  }).filter((piece) => piece.amount > 0);
}

// `amountsOf(row)`: picoseconds summed over the samples, one a kind.
function attributionFigure(section, { id, title, kinds, amountsOf, reading }) {
  const mode = { share: false };
  const rowsOf = () => [...feasibleRows(point())].sort((a, b) => a.median_ps - b.median_ps);
  const meanOf = (row) => row.sum_ps / data.samples;

  function draw(svg, width) {
    addPatterns(svg, id);
    const rows = rowsOf();
    const shares = kinds.map((_, i) => Math.max(0, ...rows.map((row) => amountsOf(row)[i] / row.sum_ps)));
    const legend = kinds.filter((_, i) => shares[i] > 0.0005).map((kind) => ({ text: kind.name, width: 22, draw: (g) => block(g, id, kind.look, 0, -6, 22, 12) }));
    const legendHeight = drawLegend(svg, legend, 0, 0, width);
    if (rows.length === 0) {
      svg.append("text").attr("class", "dim").attr("y", legendHeight + 20).text("No strategy is feasible here.");
      return legendHeight + 40;
    }
    const kPitch = 50, kBar = 24, top = legendHeight + 14, bottom = top + rows.length * kPitch;
    const most = mode.share ? 1 : Math.max(...rows.map(meanOf));
    const x = d3.scaleLinear().domain([0, most]).range([0, width - 2]);
    const bound = point().bound_ps;
    rows.forEach((row, r) => {
      const y = top + r * kPitch;
      svg.append("path").attr("d", strategyShape(row.strategy)).attr("transform", `translate(6,${y + 7})`).style("fill", strategyColour(row.strategy));
      const value = `${timeText(meanOf(row))}${row.winner ? " · fastest" : ""}`;
      svg.append("text").attr("class", row.winner ? "strong" : "dim").attr("x", width).attr("y", y + 11).attr("text-anchor", "end").text(value);
      svg.append("text").attr("class", "name").attr("x", 18).attr("y", y + 11).text(fitted(rowName(row), width - textWidth(value) - 40, "name"));
      const g = svg.append("g");
      const scale = mode.share ? 1 / row.sum_ps : 1 / data.samples;
      const nodes = stacked(kinds, amountsOf(row)).map((piece) => {
        const from = x(piece.from * scale), length = x(piece.to * scale) - from;
        const mark = block(g, id, piece.kind.look, from, y + 18, length, kBar).attr("class", "mark");
        const share = piece.amount / row.sum_ps;
        const label = fitted(piece.kind.name, length - 10);
        const wide = `${piece.kind.name} ${percentText(share)}`;
        const text = textWidth(wide) <= length - 10 ? wide : label === piece.kind.name ? label : textWidth(percentText(share)) <= length - 8 ? percentText(share) : "";
        if (text) {
          mark.append("rect").attr("x", from + 3).attr("y", y + 22).attr("width", textWidth(text) + 4).attr("height", 16).attr("rx", 3).style("fill", piece.kind.look[0]);
          mark.append("text").attr("class", "on-mark").attr("x", from + 5).attr("y", y + 34).text(text);
        }
        tells(mark.node(), () => ({ title: `${strategyName(row.strategy)}: ${piece.kind.name}`, lines: [["share", percentText(share)], ["mean time", timeText(piece.amount / data.samples)]] }));
        return mark.node();
      });
      roving(g.node(), `${strategyName(row.strategy)}, ${timeText(meanOf(row))}`, nodes);
    });
    if (!mode.share && bound > 0) {
      const at = x(Math.min(bound, most));
      svg.append("path").attr("class", "notch").attr("d", rows.map((_, r) => `M${at} ${top + r * kPitch + 13}v5m0 ${kBar}v4`).join(""));
      const label = `bound ${timeText(bound)}`;
      const flip = at + textWidth(label) + 6 > width;
      svg.append("text").attr("class", "dim").attr("x", at + (flip ? -5 : 5)).attr("y", bottom + 8).attr("text-anchor", flip ? "end" : "start").text(label);
    }
    return bottom + 14;
  }

  addFigure(section, {
    id, draw, title: () => `${title}, at ${tokensText(point().concurrency)}`,
    reading: () => reading(rowsOf()),
    follows: true,
    table: () => ({
      columns: [{ name: "tokens" }, { name: "strategy", text: true }, { name: "mean_us", digits: 3 }, ...kinds.map((kind) => ({ name: `${kind.key}_us`, digits: 3 }))],
      rows: data.points.flatMap((p) => feasibleRows(p).map((row) => [p.concurrency, strategyName(row.strategy), row.sum_ps / data.samples / kPsPerUs,
        ...amountsOf(row).map((ps) => ps / data.samples / kPsPerUs)])),
    }),
    controls: (redraw) => [segments("Length of bars", `${id}-mode`, [["time", "Time"], ["share", "Share"]], "time", (value) => {
      mode.share = value === "share";
      redraw();
    })],
  });
}

function largestShares(kinds, amounts, total, count) {
  return kinds.map((kind, i) => [kind.name, amounts[i] / total]).sort((a, b) => b[1] - a[1]).slice(0, count)
    .filter(([, share]) => share > 0).map(([name, share]) => `${name} (${percentText(share)})`);
}

function addAttribution(section) {
  attributionFigure(section, {
    id: "chart-effects", title: "What each strategy waits for", kinds: effects, amountsOf: (row) => row.attribution_ps_sum,
    reading: (rows) => {
      if (rows.length === 0) return "No strategy is feasible at this concurrency.";
      const say = (row) => `${strategyName(row.strategy)} spends most on ${listText(largestShares(effects, row.attribution_ps_sum, row.sum_ps, 2))}`;
      const rest = rows.length > 1 ? `; ${say(rows[1])}` : "";
      return `${say(rows[0])}${rest}. Every picosecond has one cause, so a bar's pieces sum to the mean time over the samples.`;
    },
  });
  if (parts.length === 0) return;
  attributionFigure(section, {
    id: "chart-parts", title: "What of the step", kinds: parts, amountsOf: (row) => row.parts_ps_sum,
    reading: (rows) => (rows.length === 0 ? "No strategy is feasible at this concurrency."
      : `With ${strategyName(rows[0].strategy)} most of the step is ${listText(largestShares(parts, rows[0].parts_ps_sum, rows[0].sum_ps, 3))}.`),
  });
}
