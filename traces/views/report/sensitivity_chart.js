// The tornado: what the result hangs on, a bar a constant from the result at its p5 to that at its p95, the largest first.

const kMostFactors = 20;

function addSensitivity(section) {
  const s = data.sensitivity;
  const ratio = s.result.ratio !== undefined, base = ratio ? s.result.ratio : s.result.time_us;
  const shown = s.effects.slice(0, kMostFactors);
  const resultText = (value) => (value === null ? "infeasible" : ratio ? fixed(value, 3) : `${fixed(value, 2)}\u00a0µs`);
  const change = (value) => (value === null ? "infeasible" : `${value < base ? "−" : "+"}${fixed(Math.abs(value / base - 1) * 100, 1)}\u00a0%`);
  const low = base * (1 - s.result.error_bar.down), high = base * (1 + s.result.error_bar.up);
  const lowLook = ["#5aa7e0", "solid"], highLook = ["#f2a65a", "diagonal"];

  function draw(svg, width) {
    const id = "chart-sensitivity";
    addPatterns(svg, id);
    const legendHeight = drawLegend(svg, [
      { text: "at the constant's p5", width: 22, draw: (g) => block(g, id, lowLook, 0, -6, 22, 12) },
      { text: "at its p95", width: 22, draw: (g) => block(g, id, highLook, 0, -6, 22, 12) },
      { text: "all together", width: 22, draw: (g) => g.append("path").attr("class", "measure").attr("d", "M0 0H22M0 -4V4M22 -4V4") },
    ], 0, 0, width);
    const wide = width > 640, labels = wide ? Math.min(300, 14 + Math.max(...shown.map((e) => textWidth(e.constant, "name")), textWidth("all together"))) : 0;
    const kBar = 16, pitch = wide ? 24 : 40, offset = wide ? 3 : 17, top = legendHeight + 12, bottom = top + (shown.length + 1) * pitch;
    const ends = shown.flatMap((e) => [e.low.result, e.high.result]).filter((v) => v !== null);
    const x = d3.scaleLinear().domain([Math.min(low, base, ...ends), Math.max(high, base, ...ends)]).range([labels + 4, width - 8]);
    const axis = svg.append("g").attr("aria-hidden", "true");
    for (const tick of x.ticks(wide ? 7 : 4)) {
      axis.append("path").attr("class", "grid").attr("d", `M${x(tick)} ${top}V${bottom}`);
      axis.append("text").attr("class", "dim").attr("x", x(tick)).attr("y", bottom + 15).attr("text-anchor", "middle").text(+tick.toPrecision(4));
    }
    axis.append("path").attr("class", "axis").attr("d", `M${x(base)} ${top}V${bottom}`);
    if (ratio && x.domain()[0] < 1 && x.domain()[1] > 1) axis.append("path").attr("class", "bound").attr("d", `M${x(1)} ${top}V${bottom}`);
    const g = svg.append("g");
    const nodes = shown.map((e, i) => {
      const y = top + i * pitch, mark = g.append("g").attr("class", "mark");
      mark.append("rect").attr("class", "hit").attr("x", 0).attr("y", y).attr("width", width).attr("height", pitch);
      mark.append("text").attr("class", "name").attr("y", wide ? y + 15 : y + 11).text(fitted(e.constant, wide ? labels - 8 : width, "name"));
      for (const [end, look] of [[e.low, lowLook], [e.high, highLook]]) {
        if (end.result === null) continue;
        const from = Math.min(x(base), x(end.result)), to = Math.max(x(base), x(end.result));
        if (to - from > 0.2) block(mark, id, look, from, y + offset, Math.max(1, to - from), kBar);
      }
      const flips = [e.low, e.high].filter((end) => end.flips_at !== undefined).map((end) => ["winner changes", `${end.flips_to || "none"} from ${+end.flips_at.toPrecision(4)}`]);
      tells(mark.node(), () => ({ title: `${e.constant}: ${e.text[1]}`, lines: [["kind", e.kind], [`at p5, ${e.text[0]}`, `${resultText(e.low.result)} (${change(e.low.result)})`],
        [`at p95, ${e.text[2]}`, `${resultText(e.high.result)} (${change(e.high.result)})`], ["range by", e.range_by], ...flips] }));
      return mark.node();
    });
    const y = top + shown.length * pitch + offset + kBar / 2;
    svg.append("text").attr("class", "strong").attr("y", wide ? y + 5 : y - kBar / 2 - 4).text("all together");
    svg.append("path").attr("class", "measure").attr("d", `M${x(low)} ${y}H${x(high)}M${x(low)} ${y - 5}v10M${x(high)} ${y - 5}v10`);
    axis.append("text").attr("class", "dim").attr("x", width).attr("y", bottom + 33).attr("text-anchor", "end").text(ratio ? s.result.result : `${s.result.result}, µs`);
    roving(g.node(), "Constants by the size of their effect", nodes);
    return bottom + 40;
  }

  addFigure(section, {
    id: "chart-sensitivity", draw,
    title: `What it hangs on: ${s.result.result} at ${tokensText(s.concurrency)}`,
    reading: () => `${resultText(base)} with the constants as they are; with all of them as uncertain as they are, ${resultText(low)} to ${resultText(high)} (p5 to p95, root of the sum of squares). Each bar is one constant at the ends of its own range, the others as they are.${s.effects.length > shown.length ? ` The ${plural(s.effects.length - shown.length, "smaller one")} stand in the table.` : ""}`,
    table: () => ({
      columns: [{ name: "constant", text: true }, { name: "kind", text: true }, { name: "p5", text: true }, { name: "value", text: true }, { name: "p95", text: true },
        { name: "result at p5", digits: ratio ? 4 : 3 }, { name: "result at p95", digits: ratio ? 4 : 3 }, { name: "winner at p5", text: true }, { name: "winner at p95", text: true }, { name: "range by", text: true, wide: true }],
      rows: s.effects.map((e) => [e.constant, e.kind, ...e.text, e.low.result, e.high.result, e.low.winner, e.high.winner, e.range_by]),
    }),
  });
  const list = element("ul", { class: "note" });
  for (const sentence of s.flips) list.append(element("li", { text: `${sentence}.` }));
  section.append(element("p", { class: "note", text: "What could change the winner:" }), list);
  const bar = (b) => `−${fixed(b.down * 100, 1)} / +${fixed(b.up * 100, 1)}`;
  section.append(element("div", { class: "card" }, element("h3", { text: "Error bars by what stands behind them" }), buildTable({
    columns: [{ name: "result", text: true }, { name: "value", digits: 3 }, { name: "all, %", text: true }, { name: "device, %", text: true }, { name: "fitted, %", text: true }, { name: "workload, %", text: true }],
    rows: [...(ratio ? [s.result] : []), ...s.times].map((r) => [r.result, r.ratio === undefined ? r.time_us : r.ratio, bar(r.error_bar), bar(r.by_group.device), bar(r.by_group.fitted), bar(r.by_group.workload)]),
  }, "Error bars by group of constants")));
}
