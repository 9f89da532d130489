// Puts a crossover page together.

function fillVerdict() {
  document.getElementById("subject").append(element("strong", { text: data.model }), ` on ${data.device_title}, ${data.what}`);
  const sentences = document.getElementById("sentences");
  if (isMap) {
    document.getElementById("headline").append(...breakable(mapHeadline()));
    for (const l of study.lines.slice(0, 12)) sentences.append(element("li", { text: `${lineName(l)}: ${l.sentence}` }));
    if (study.lines.length > 12) sentences.append(element("li", { text: `and ${study.lines.length - 12} lines more, in the table of borders.` }));
  } else {
    const [first, ...rest] = study.lines[0].sentence.split(/(?<=\.) (?=[A-Z])/);
    document.getElementById("headline").append(...breakable(first.replace(/\.$/, "")));
    for (const text of rest) sentences.append(element("li", { text }));
  }
  const shard = study.model.tp === 1 && study.model.ep === 1 ? "the whole layer" : `one device of tp ${study.model.tp} × ep ${study.model.ep}`;
  const facts = [["Weights, activations", `${study.model.weights}, ${study.model.activations}`], ["Routing", `${data.routing}, ${plural(study.samples, "sample")}, seed ${data.seed}`],
    ["Launch", study.launch], ["Shard", shard], ["Constants", study.calibration], ["Device file", `${study.device.file}, ${study.device.hash}`]];
  if (study.device.overrides.length > 0) facts.push(["Set", study.device.overrides.join(", ")]);
  if (study.model.overrides) facts.push(["Model with", study.model.overrides.join(", ")]);
  const list = document.getElementById("facts");
  for (const [name, value] of facts) list.append(element("div", {}, element("dt", { text: name }), element("dd", { text: value })));
}

// "grouped_gemm wins from concurrency 4 to 9 on, by experts"
function mapHeadline() {
  const named = study.lines.filter((l) => l.crossings.length > 0);
  if (named.length === 0) return `The winner does not change along ${study.axis} on any of ${study.lines.length} lines`;
  const firsts = named.map((l) => l.crossings[0].first_after);
  const sorted = [...new Set(firsts)].sort((a, b) => parseFloat(a) - parseFloat(b));
  const where = sorted.length === 1 ? sorted[0] : `${sorted[0]} to ${sorted[sorted.length - 1]}`;
  return `The winner first changes at ${study.axis} ${where}, by ${listText(study.line_axes)}${named.length < study.lines.length ? `; on ${study.lines.length - named.length} of ${study.lines.length} lines it does not` : ""}`;
}

function spansTable() {
  const columns = [...study.line_axes.map((name) => ({ name, text: true })), { name: "from", text: true }, { name: "to", text: true }, { name: "fastest", text: true },
    { name: "lead, least", digits: 3 }, { name: "lead, most", digits: 3 }, { name: "over", text: true }, { name: "", text: true }];
  const rows = study.lines.flatMap((l) => l.spans.map((s) => [...study.line_axes.map((name) => l.coordinates[name]), s.from, s.to, s.winner ?? "nothing feasible",
    s.next_best.length ? s.lead_min : null, s.next_best.length ? s.lead_max : null, s.next_best.join(", "), s.contested ? "lead under the predicted error" : ""]));
  return { columns, rows };
}

function addSpans(section) {
  const known = study.lines.some((l) => l.places.some((p) => p.lead_error !== null));
  section.append(element("p", { class: "lede", text: known
    ? "The error of a lead is that of both strategies' predicted times, by the held-out errors of their fits; a lead under it is one standard error or less away from a tie, and should be measured."
    : "No held-out error is known for these strategies on this device, so nothing is said about how sure a border is. Strategies that lie close should be measured." }));
  section.append(element("div", { class: "card" }, buildTable(spansTable(), "Spans of the axis with one winner", { tall: study.lines.length > 6 })));
}

if (!isMap) for (const node of document.querySelectorAll(".of-map")) node.remove();
fillVerdict();
if (isMap) {
  const select = document.getElementById("line");
  study.lines.forEach((l, i) => select.append(element("option", { value: i, text: lineName(l) })));
  select.value = String(chosen.index);
  select.addEventListener("change", () => choose(Number(select.value)));
  chosen.listeners.push(() => { select.value = String(chosen.index); });
  addMap(document.getElementById("map"));
}
addAxisChart(document.getElementById("times"));
addSpans(document.getElementById("spans"));
document.getElementById("foot").append(element("p", {
  text: `moesim ${data.version}. Device file hash ${data.device_hash}, seed ${data.seed}: the same inputs give the same page, byte for byte. This file needs no network and loads nothing.`,
}), element("p", { text: "Charts are drawn by D3, whose licence stands in this file." }));
