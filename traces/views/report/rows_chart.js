// How many rows an active expert has: whether its products are GEMVs or GEMMs.

const kMostBins = 40;

// [{from, to, experts}] of whole numbers; as many alike bins as fit.
function rowBins(histogram) {
  const most = histogram.length === 0 ? 1 : histogram[histogram.length - 1][0];
  const size = Math.ceil(most / kMostBins), bins = [];
  for (let from = 1; from <= most; from += size) bins.push({ from, to: from + size - 1, experts: 0 });
  for (const [rows, experts] of histogram) bins[Math.floor((rows - 1) / size)].experts += experts;
  return bins;
}
function binText(bin) { return bin.from === bin.to ? plural(bin.from, "row") : `${bin.from} to ${bin.to} rows`; }

function addRowsChart(section) {
  const total = () => d3.sum(point().experts_by_rows, (d) => d[1]);

  function draw(svg, width) {
    const bins = rowBins(point().experts_by_rows), all = total();
    const left = 46, right = 6, top = 18, height = 190, bottom = top + height;
    const x = d3.scaleBand().domain(bins.map((b) => b.from)).range([left, width - right]).paddingInner(0.14).paddingOuter(0.1);
    const barWidth = Math.min(x.bandwidth(), 90);
    const most = Math.max(...bins.map((b) => b.experts)) / Math.max(1, all);
    const y = d3.scaleLinear().domain([0, Math.max(most, 0.01)]).nice(4).range([bottom, top]);
    const axes = svg.append("g").attr("aria-hidden", "true");
    for (const v of y.ticks(4)) {
      axes.append("path").attr("class", "grid").attr("d", `M${left} ${y(v)}H${width - right}`);
      axes.append("text").attr("class", "dim").attr("x", left - 8).attr("y", y(v)).attr("dy", ".34em").attr("text-anchor", "end").text(percentText(v));
    }
    let last = -Infinity;
    const g = svg.append("g");
    const nodes = bins.map((bin) => {
      const centre = x(bin.from) + x.bandwidth() / 2, share = bin.experts / Math.max(1, all);
      const label = bin.from === bin.to ? String(bin.from) : `${bin.from}–${bin.to}`;
      if (centre - last > textWidth(label) + 8) {
        last = centre + textWidth(label) / 2;
        axes.append("text").attr("class", "dim").attr("x", centre).attr("y", bottom + 17).attr("text-anchor", "middle").text(label);
      }
      const mark = g.append("g").attr("class", "mark");
      mark.append("rect").attr("class", "hit").attr("x", centre - x.bandwidth() / 2).attr("y", top).attr("width", x.bandwidth()).attr("height", height);
      mark.append("rect").attr("x", centre - barWidth / 2).attr("y", y(share)).attr("width", barWidth).attr("height", bottom - y(share)).style("fill", "var(--s0)");
      if (bins.length <= 14 && bin.experts > 0) mark.append("text").attr("class", "dim").attr("x", centre).attr("y", y(share) - 5).attr("text-anchor", "middle").text(fitted(percentText(share), x.bandwidth() + 6));
      tells(mark.node(), () => ({ title: binText(bin), lines: [["share of active experts", percentText(share)], ["experts a layer", fixed(bin.experts / layersSeen(), 2)]] }));
      return mark.node();
    });
    roving(g.node(), "Rows of an active expert", nodes);
    axes.append("path").attr("class", "axis").attr("d", `M${left} ${top}V${bottom}H${width - right}`);
    axes.append("text").attr("class", "dim").attr("x", (left + width - right) / 2).attr("y", bottom + 36).attr("text-anchor", "middle").text("rows (picks) of an active expert");
    return bottom + 44;
  }

  // Layers that the histogram counts: those of all samples.
  function layersSeen() { return point().distinct_experts > 0 ? total() / point().distinct_experts : 1; }

  addFigure(section, {
    id: "chart-rows", draw, follows: true,
    title: () => `Rows of an active expert, at ${tokensText(point().concurrency)}`,
    reading: () => {
      const p = point(), one = p.experts_by_rows.find(([rows]) => rows === 1);
      const share = one ? one[1] / total() : 0;
      return `${fixed(p.distinct_experts, 1)} distinct experts are read, with ${fixed(p.rows_per_expert, 2)} rows each in the mean; ${percentText(share)} have a single row, whose product is bound by streaming its weights. ${percentText(p.duplicate_share)} of the picks find their expert loaded by another pick.`;
    },
    table: () => ({ columns: [{ name: "tokens" }, { name: "rows" }, { name: "experts_in_all_samples" }], rows: data.points.flatMap((p) => p.experts_by_rows.map(([rows, experts]) => [p.concurrency, rows, experts])) }),
  });
}
