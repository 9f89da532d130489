// The speed-up ladder: from the slower strategy's time down to the faster one's, a rung an effect.

function addLadder(section) {
  const climbed = data.ladders.filter((l) => l.rungs);
  if (climbed.length === 0) {
    if (data.ladders.length > 0) section.append(element("p", { class: "note", text: `There is no speed-up ladder: ${data.ladders[0].reason}` }));
    return;
  }
  const mode = { reverse: false };
  const ladder = () => climbed.find((l) => l.concurrency === point().concurrency) || climbed[0];
  const rungsOf = () => (mode.reverse ? ladder().reverse_rungs : ladder().rungs).filter((rung) => rung.slower_ps !== 0 || rung.faster_ps !== 0);
  const gain = (rung) => rung.slower_ps - rung.faster_ps;

  function draw(svg, width) {
    const l = ladder(), rungs = rungsOf(), id = "chart-ladder";
    addPatterns(svg, id);
    const legendHeight = drawLegend(svg, [
      { text: "a strategy's whole time", width: 22, draw: (g) => block(g, id, ["var(--line-2)", "solid"], 0, -6, 22, 12) },
      { text: "saved by the faster", width: 22, draw: (g) => block(g, id, ["#7fd1b9", "solid"], 0, -6, 22, 12) },
      { text: "lost by it", width: 22, draw: (g) => block(g, id, ["#f2a65a", "diagonal"], 0, -6, 22, 12) },
    ], 0, 0, width);
    let at = l.slower_ps;
    const steps = [{ name: l.slower, from: 0, to: l.slower_ps, whole: true }];
    for (const rung of rungs) {
      steps.push({ name: rung.title, from: at, to: at - gain(rung), rung });
      at -= gain(rung);
    }
    steps.push({ name: l.faster, from: 0, to: l.faster_ps, whole: true });
    const most = Math.max(...steps.map((s) => Math.max(s.from, s.to)));
    const kPitch = 42, kBar = 18, top = legendHeight + 12;
    const x = d3.scaleLinear().domain([0, most]).range([0, width - 2]);
    const g = svg.append("g");
    const nodes = steps.map((step, i) => {
      const y = top + i * kPitch, low = Math.min(step.from, step.to), high = Math.max(step.from, step.to);
      const saved = step.from - step.to;
      const value = step.whole ? timeText(step.to) : `${saved >= 0 ? "−" : "+"}${timeText(Math.abs(saved))}`;
      svg.append("text").attr("class", step.whole ? "name strong" : "dim").attr("y", y + 11).text(fitted(step.name, width - textWidth(value) - 16, step.whole ? "name" : ""));
      svg.append("text").attr("class", step.whole ? "strong" : "dim").attr("x", width).attr("y", y + 11).attr("text-anchor", "end").text(value);
      if (i + 1 < steps.length) svg.append("path").attr("class", "link").attr("d", `M${x(step.to)} ${y + 17 + kBar}V${y + 17 + kPitch}`);
      const look = step.whole ? ["var(--line-2)", "solid"] : saved >= 0 ? ["#7fd1b9", "solid"] : ["#f2a65a", "diagonal"];
      const mark = block(g, id, look, x(low), y + 17, Math.max(1.5, x(high) - x(low)), kBar).attr("class", "mark");
      tells(mark.node(), () => ({ title: step.name, lines: step.whole ? [["time", timeText(step.to)]] : [[saved >= 0 ? "saves" : "loses", timeText(Math.abs(saved))],
        ["of the difference", percentText(saved / (l.slower_ps - l.faster_ps))], [`costs ${l.slower}`, timeText(step.rung.slower_ps)], [`costs ${l.faster}`, timeText(step.rung.faster_ps)]] }));
      return mark.node();
    });
    roving(g.node(), `From ${l.slower} to ${l.faster}`, nodes);
    return top + steps.length * kPitch + 4;
  }

  addFigure(section, {
    id: "chart-ladder", draw, follows: true,
    title: () => `Why ${ladder().faster} is ${fixed(ladder().slower_ps / ladder().faster_ps, 2)} times as fast as ${ladder().slower}, at ${tokensText(ladder().concurrency)}`,
    reading: () => {
      const l = ladder(), whole = l.slower_ps - l.faster_ps;
      const best = [...rungsOf()].sort((a, b) => gain(b) - gain(a)).slice(0, 2).filter((r) => gain(r) > 0);
      const said = best.map((r) => `${r.title} (${percentText(gain(r) / whole)})`);
      return `Of the ${timeText(whole)} between them ${listText(said)} make the most. Each rung is what leaving one effect out of both simulations changes, in the order shown; the rungs sum to the difference exactly.`;
    },
    table: () => ({
      columns: [{ name: "tokens" }, { name: "order", text: true }, { name: "effect", text: true }, { name: `${ladder().slower}_us`, digits: 3 }, { name: `${ladder().faster}_us`, digits: 3 }, { name: "saved_us", digits: 3 }],
      rows: [["stated", ladder().rungs], ["reverse", ladder().reverse_rungs]].flatMap(([order, rungs]) => rungs.map((rung) => [ladder().concurrency, order, rung.title,
        rung.slower_ps / kPsPerUs, rung.faster_ps / kPsPerUs, gain(rung) / kPsPerUs])),
    }),
    controls: (redraw) => [segments("Order of the effects", "ladder-mode", [["stated", "Stated order"], ["reverse", "Reverse"]], "stated", (value) => {
      mode.reverse = value === "reverse";
      redraw();
    })],
  });
}
