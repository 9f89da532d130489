// The speed-up ladder: from the slower strategy's time down to the faster one's, a rung an effect.

const kCutFrom = 0.7;  // share of the longest bar

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
    const ends = steps.flatMap((s) => (s.whole ? [s.to] : [s.from, s.to])), most = Math.max(...ends), least = Math.min(...ends);
    // Of alike times the whole bars are cut, so that the rungs between can be seen.
    const cut = least > kCutFrom * most ? least - (most - least) * 0.15 : 0;
    const wide = width > 640, labels = wide ? Math.min(260, 14 + Math.max(...steps.map((s) => textWidth(s.name, s.whole ? "name" : "")))) : 0;
    const kBar = 18, pitch = wide ? 27 : 42, offset = wide ? 4 : 17, kValue = 84, top = legendHeight + 12, bottom = top + steps.length * pitch;
    const x = d3.scaleLinear().domain([cut, most]).range([labels, width - (wide ? kValue : 2)]);
    const axis = svg.append("g").attr("aria-hidden", "true");
    for (const tick of x.ticks(wide ? 8 : 4)) {
      axis.append("path").attr("class", "grid").attr("d", `M${x(tick)} ${top}V${bottom}`);
      axis.append("text").attr("class", "dim").attr("x", x(tick)).attr("y", bottom + 15).attr("text-anchor", x(tick) < 12 ? "start" : x(tick) > width - 20 ? "end" : "middle").text(fixed(inUnit(tick), inUnit(most - cut) < 10 ? 1 : 0));
    }
    const g = svg.append("g");
    const nodes = steps.map((step, i) => {
      const y = top + i * pitch, low = Math.max(cut, Math.min(step.from, step.to)), high = Math.max(step.from, step.to);
      const saved = step.from - step.to;
      const size = timeText(Math.abs(saved)), sign = /[1-9]/.test(size) ? (saved > 0 ? "−" : "+") : "";
      const value = step.whole ? timeText(step.to) : `${sign}${size}`;
      const baseline = wide ? y + offset + 13 : y + 11;
      svg.append("text").attr("class", step.whole ? "name strong" : "dim").attr("y", baseline).text(fitted(step.name, wide ? labels - 8 : width - textWidth(value) - 16, step.whole ? "name" : ""));
      svg.append("text").attr("class", step.whole ? "strong" : "dim").attr("x", width).attr("y", baseline).attr("text-anchor", "end").text(value);
      if (i + 1 < steps.length) svg.append("path").attr("class", "link").attr("d", `M${x(step.to)} ${y + offset + kBar}V${y + offset + pitch}`);
      const look = step.whole ? ["var(--line-2)", "solid"] : saved >= 0 ? ["#7fd1b9", "solid"] : ["#f2a65a", "diagonal"];
      const mark = block(g, id, look, x(low), y + offset, Math.max(1.5, x(high) - x(low)), kBar).attr("class", "mark");
      if (step.whole && cut > 0) mark.append("path").attr("class", "tear").attr("d", `M${x(cut) + 10} ${y + offset - 2}l5 5.5l-5 5.5l5 5.5l-5 5.5`);
      tells(mark.node(), () => ({ title: step.name, lines: step.whole ? [["time", timeText(step.to)]] : [[saved >= 0 ? "saves" : "loses", size],
        ["of the difference", percentText(saved / (l.slower_ps - l.faster_ps))], [`costs ${l.slower}`, timeText(step.rung.slower_ps)], [`costs ${l.faster}`, timeText(step.rung.faster_ps)]] }));
      return mark.node();
    });
    axis.append("text").attr("class", "dim").attr("x", width).attr("y", bottom + 32).attr("text-anchor", "end").text(`time, ${timeUnit.name}${cut > 0 ? "; the axis does not start at zero" : ""}`);
    roving(g.node(), `From ${l.slower} to ${l.faster}`, nodes);
    return bottom + 38;
  }

  addFigure(section, {
    id: "chart-ladder", draw, follows: true,
    title: () => `Why ${ladder().faster} is ${fixed(ladder().slower_ps / ladder().faster_ps, 2)} times as fast as ${ladder().slower}, at ${tokensText(ladder().concurrency)}`,
    reading: () => {
      const l = ladder(), whole = l.slower_ps - l.faster_ps;
      const best = [...rungsOf()].sort((a, b) => gain(b) - gain(a)).slice(0, 2).filter((r) => gain(r) > 0);
      const said = best.map((r) => `${r.title} (${percentText(gain(r) / whole)})`);
      const most = said.length === 0 ? "no effect stands out" : `the most comes from ${listText(said)}`;
      return `Of the ${timeText(whole)} between them in the first routing ${most}. Each rung is what leaving one effect out of both simulations changes, in the order shown; the rungs sum to the difference exactly.`;
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
