// What the charts of a crossover page share: the study, and the line of the map whose details are shown.

const study = data.study;
const timeUnit = unitOf(study.lines.flatMap((l) => l.places.flatMap((p) => p.times_ps)).filter((t) => t !== null));
const isMap = study.line_axes.length > 0;
const axisName = study.axis === "concurrency" ? "concurrency (tokens of a decode step)" : study.axis;

const chosen = { index: Math.max(0, study.lines.findIndex((l) => l.places.some((p) => p.winner !== null))), listeners: [] };
function line() { return study.lines[chosen.index]; }
function choose(index) {
  if (index === chosen.index) return;
  chosen.index = index;
  for (const listener of chosen.listeners) listener();
  document.getElementById("live").textContent = `Details of ${lineName(line())}`;
}

function lineName(l) { return Object.entries(l.coordinates).map(([name, value]) => `${name} ${value}`).join(", "); }
function lineLabel(l) { return Object.values(l.coordinates).join(", "); }
function strategyIndex(name) { return data.strategies.indexOf(name); }
function leadText(lead) { return `${fixed(lead, 2)} ×`; }

// Numbers of the axis may be zero, which a logarithmic scale has no place for.
const leastNumber = (() => {
  const positive = study.lines.flatMap((l) => l.places.map((p) => p.number)).filter((v) => v > 0);
  return Math.min(...positive);
})();
function along(number) { return Math.max(number, leastNumber); }
// A logarithmic scale over all lines' places, from pixel to pixel.
function axisScale(from, to) {
  const all = study.lines.flatMap((l) => l.places.map((p) => along(p.number)));
  const low = Math.min(...all), high = Math.max(...all);
  return d3.scaleLog().domain(low === high ? [low / 1.5, high * 1.5] : [low, high]).range([from, to]);
}
// Of a line's places: each up to half way (in logarithms) to its neighbours.
function extents(l, x) {
  const edges = l.places.map((p, i) => (i === 0 ? along(p.number) : Math.sqrt(along(l.places[i - 1].number) * along(p.number))));
  return l.places.map((p, i) => [x(edges[i]), x(i + 1 < l.places.length ? edges[i + 1] : along(p.number))]);
}
// Runs of places of which `same` says that they go together: [{first, last}] of indices.
function runs(places, same) {
  const found = [];
  places.forEach((p, i) => {
    if (i > 0 && same(places[i - 1], p)) found[found.length - 1].last = i;
    else found.push({ first: i, last: i });
  });
  return found;
}

// Ticks of the axis: places of the first line that leave room for each other, in the axis's own words.
function drawAxisTicks(axes, x, bottom) {
  const places = study.lines[0].places, end = x.range()[1];
  let last = -Infinity;
  places.forEach((p, i) => {
    const at = x(along(p.number)), half = textWidth(p.at) / 2, isLast = i === places.length - 1;
    if (at - half < last + 10 || (!isLast && end - at < 2 * half + 10)) return;
    last = at + half;
    axes.append("path").attr("class", "axis").attr("d", `M${at} ${bottom}v4`);
    axes.append("text").attr("class", "dim").attr("x", at).attr("y", bottom + 18).attr("text-anchor", "middle").text(p.at);
  });
  axes.append("text").attr("class", "dim").attr("x", (x.range()[0] + end) / 2).attr("y", bottom + 38).attr("text-anchor", "middle").text(axisName);
}

function placeLines(p) {
  const lines = data.strategies.map((name, s) => [name, p.times_ps[s] === null ? "infeasible" : timeText(p.times_ps[s])]);
  if (p.next_best !== null) lines.push(["lead", leadText(p.lead)]);
  if (p.lead_error !== null) lines.push(["error of the lead", `± ${percentText(p.lead_error)}`]);
  if (p.confidence !== null) lines.push(["confidence", percentText(p.confidence)]);
  lines.push(["distinct experts", fixed(p.distinct_experts_mean, 1)]);
  const launched = Object.entries(p.parameters).map(([name, value]) => `${name}=${value}`).join(", ");
  if (launched) lines.push(["launched with", launched]);
  return lines;
}

// The pattern of places where the lead is under its error, to be seen on any colour in either theme.
function addHatch(svg, id) {
  addPatterns(svg, id);
  svg.select(`#${id}-diagonal path`).style("stroke", "var(--ink)").style("stroke-opacity", 0.6);
}
function zoneLegend(id) {
  return { text: "lead under the predicted error", width: 18, draw: (g) => {
    g.append("rect").attr("y", -6).attr("width", 18).attr("height", 12).attr("class", "shade");
    g.append("rect").attr("y", -6).attr("width", 18).attr("height", 12).attr("fill", `url(#${id}-diagonal)`);
  } };
}
const anyContested = study.lines.some((l) => l.places.some((p) => p.contested));
