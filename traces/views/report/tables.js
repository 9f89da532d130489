// What is said in words and tables: the verdict, how accurate it is, and all inputs.

function fillVerdict() {
  const subject = document.getElementById("subject");
  subject.append(element("strong", { text: data.model }), ` on ${data.device_title}, ${data.what}`);
  document.getElementById("headline").append(...breakable(data.headline));
  const sentences = document.getElementById("sentences");
  if (data.verdicts.length > 1) for (const verdict of data.verdicts) sentences.append(element("li", { text: verdict.sentence }));
  const shard = data.tp === 1 && data.ep === 1 ? "the whole layer" : `one device of tp ${data.tp} × ep ${data.ep}`;
  const facts = [["Weights, activations", `${data.weights}, ${data.activations}`], ["Routing", `${data.routing}, ${plural(data.samples, "sample")}, seed ${data.seed}`],
    ["Launch", data.launch], ["Shard", shard], ["Constants", data.calibration]];
  const list = document.getElementById("facts");
  for (const [name, value] of facts) list.append(element("div", {}, element("dt", { text: name }), element("dd", { text: value })));
  document.getElementById("winners").append(buildTable(winnersTable(), "The fastest strategy at each concurrency", { showCaption: true, tall: data.points.length > 16 }));
}

function winnersTable() {
  const step = parts.length > 0;
  const columns = [{ name: "tokens" }, { name: "fastest", text: true }, { name: `time, ${timeUnit.name}`, digits: 2 }, { name: `p95, ${timeUnit.name}`, digits: 2 }, { name: "% of bound", digits: 1 },
    ...(step ? [{ name: "tokens/s, each", digits: 1 }] : []), { name: "next best", text: true }, { name: "lead, ×", digits: 2 },
    ...(hasIntervals() ? [{ name: "error bar, ± %", digits: 1 }, { name: "is the fastest with, %", digits: 0 }] : []), { name: "limited by", text: true }];
  const bar = (row) => (!hasIntervals() ? [] : row && row.interval ? [row.interval.half_width_pct, row.interval.fastest === null ? null : row.interval.fastest * 100] : [null, null]);
  const rows = data.points.map((p) => {
    const sorted = [...feasibleRows(p)].sort((a, b) => a.median_ps - b.median_ps);
    const best = sorted.find((row) => row.winner);
    if (!best) return [p.concurrency, "none is feasible", null, null, null, ...(step ? [null] : []), "", null, ...bar(), ""];
    const next = sorted.find((row) => !row.winner && !row.picked_samples);
    return [p.concurrency, rowName(best), inUnit(best.median_ps), inUnit(best.p95_ps), best.bound_fraction * 100, ...(step ? [best.tokens_per_s_per_sequence] : []),
      next ? rowName(next) : null, next ? next.median_ps / best.median_ps : null, ...bar(best), largestShares(effects, best.attribution_ps_sum, best.sum_ps, 1).join("")];
  });
  return { columns, rows };
}

function markNotes() {
  const notes = [], marks = new Set(data.points.flatMap((p) => p.rows.map(rowMark)));
  if (marks.has(" †")) notes.push("† not fitted: the device's constants alone.");
  if (marks.has(" ‡")) notes.push("‡ more tokens than the fit saw.");
  return notes;
}

function addAccuracy(section) {
  const card = element("div", { class: "card" });
  section.append(card);
  if (!data.calibrated) {
    card.append(element("h3", { text: "Uncalibrated: nothing here is fitted to measured kernels" }),
      element("p", { class: "reading", text: `${data.device_title} runs uncalibrated: datasheet, published and microbenchmark numbers alone. Orders of strategies that lie far apart can be trusted more than times; how far off the times are is not known for this device.` }));
  } else {
    const known = data.accuracy.filter((a) => a.implementation !== null && a.rows > 0);
    const range = (values) => (d3.min(values) === d3.max(values) ? fixed(values[0], 1) : `${fixed(d3.min(values), 1)} to ${fixed(d3.max(values), 1)}`);
    const said = known.length === 0 ? "For none of these strategies is a held-out error known."
      : `By strategy ${range(known.map((a) => a.median_abs_pct))} % in the median and ${range(known.map((a) => a.p95_abs_pct))} % at the 95th percentile, on this device and with these weights, over all concurrencies of the fit; the table tells them apart by tokens. Two strategies that are closer than this should be measured.`;
    card.append(element("h3", { text: "Error on models that the fit had not seen" }), element("p", { class: "reading", text: said }),
      buildTable(accuracyTable(), "Held-out error by strategy"));
  }
  if (hasIntervals()) {
    const list = element("ul", { class: "note" });
    for (const note of data.uncertainty) list.append(element("li", { text: `${note}.` }));
    section.append(element("div", { class: "card" }, element("h3", { text: "Where the error bars come from" }), list));
  }
  addMeasured(section);
}

// A row of each strategy, and below it one of each band of tokens.
function accuracyTable() {
  const error = (e) => (e.rows > 0 ? [e.rows, e.median_abs_pct, e.p95_abs_pct, e.bias_pct] : [e.rows, null, null, null]);
  return {
    columns: [{ name: "strategy", text: true }, { name: "constants of", text: true }, { name: "tokens", text: true }, { name: "rows left out" }, { name: "median |error|, %", digits: 1 },
      { name: "p95, %", digits: 1 }, { name: "bias, %", digits: 1 }, { name: "here", text: true, wide: true }],
    rows: data.accuracy.flatMap((a) => {
      if (a.implementation === null) return [[a.strategy, "the device alone", "", null, null, null, null, "not fitted: its error is not known"]];
      const most = data.points[data.points.length - 1].concurrency;
      const here = a.no_fit ? a.no_fit : most > a.most_tokens ? `fitted up to ${tokensText(a.most_tokens)}; beyond, extrapolated` : `within the fit, up to ${tokensText(a.most_tokens)}`;
      return [[a.strategy, a.implementation, "all", ...error(a), here], ...a.by_band.map((band) => [a.strategy, a.implementation, band.tokens, ...error(band), ""])];
    }),
  };
}

// Bands of tokens, as the validation divides them.
const kBands = [[1, 8], [9, 64], [65, 1024], [1025, Infinity]];
function bandText([from, to]) { return to === Infinity ? `${from} and more` : `${from} to ${to}`; }

// Errors of pairs of the same implementation by strategy and band. `pairs`: {strategy, concurrency, error}.
function bandTable(pairs) {
  const rows = data.strategies.flatMap((name, s) => kBands.map((band) => {
    const errors = pairs.filter((p) => p.strategy === s && p.concurrency >= band[0] && p.concurrency <= band[1]).map((p) => p.error);
    return errors.length === 0 ? null : [name, bandText(band), errors.length, d3.median(errors.map(Math.abs)), d3.max(errors.map(Math.abs)), d3.mean(errors)];
  }).filter((row) => row !== null));
  return { columns: [{ name: "strategy", text: true }, { name: "tokens", text: true }, { name: "pairs" }, { name: "median |error|, %", digits: 1 }, { name: "largest, %", digits: 1 }, { name: "bias, %", digits: 1 }], rows };
}

function addMeasured(section) {
  if (data.measured.files.length === 0) return;
  const card = element("div", { class: "card" });
  section.append(card);
  const out = data.measured.left_out.map((l) => `${plural(l.rows, "row")} ${l.reason}`);
  card.append(element("h3", { text: "Beside what was measured" }));
  const pairs = data.measured.points.map((m) => {
    const p = data.points.find((q) => q.concurrency === m.concurrency);
    const row = p && p.rows[m.strategy];
    const simulated = row && row.median_ps !== undefined ? row.median_ps / kPsPerUs : null;
    const alike = simulated !== null && row.implementation === m.implementation;
    return { ...m, simulated, error: alike ? (simulated / m.us - 1) * 100 : null,
      note: simulated === null ? "not simulated at this concurrency" : alike ? "" : `simulated as ${row.implementation || "the device alone"}` };
  });
  const alike = pairs.filter((pair) => pair.error !== null);
  const said = alike.length === 0 ? "" : ` ${plural(alike.length, "pair")} of the same implementation: ${fixed(d3.median(alike.map((p) => Math.abs(p.error))), 1)} % off in the median. Where the constants were fitted to these very rows (see the inputs), this is not held out.`;
  card.append(element("p", { class: "reading", text: `${plural(pairs.length, "measured row")} of this very layer and shard in ${listText(data.measured.files)}.${said}${out.length > 0 ? ` Left out: ${out.join(", ")}.` : ""}` }));
  if (alike.length > 0) card.append(buildTable(bandTable(alike), "Error against measured rows by strategy and tokens"));
  if (pairs.length === 0) return;
  const columns = [{ name: "tokens" }, { name: "strategy", text: true }, { name: "implementation", text: true }, { name: "measured, µs", digits: 2 }, { name: "simulated, µs", digits: 2 }, { name: "error, %", digits: 1 }, { name: "note", text: true }];
  const rows = pairs.map((p) => [p.concurrency, strategyName(p.strategy), p.implementation, p.us, p.simulated, p.error, p.note]);
  card.append(element("details", {}, element("summary", { text: "Each pair" }), buildTable({ columns, rows }, "Measured and simulated times", { tall: true })));
}

// A list of inputs with a field that filters it.
function inputCard(section, title, reading, columns, rows, open) {
  const box = element("details", { class: "card" }, element("summary", {}, element("strong", { text: title }), ` · ${plural(rows.length, "value")}`));
  box.open = open;
  box.append(element("p", { class: "reading", text: reading }));
  const id = `filter-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const field = element("input", { type: "search", id, autocomplete: "off", spellcheck: "false" });
  if (rows.length > 12) box.append(element("p", { class: "filter" }, element("label", { for: id, text: "Filter" }), field));
  const holder = element("div");
  const show = () => {
    const wanted = field.value.toLowerCase();
    const left = rows.filter((row) => row.join(" ").toLowerCase().includes(wanted));
    holder.replaceChildren(buildTable({ columns, rows: left }, title));
  };
  field.addEventListener("input", show);
  show();
  box.append(holder);
  section.append(box);
}

function addInputs(section) {
  const word = (name, wide) => ({ name, text: true, wide });
  section.append(element("p", { class: "lede", text: "A run is a function of these values: the same ones give the same times. Each names where it comes from." }));
  inputCard(section, "The run", "What was asked for.", [word("input"), word("value", true), word("from", true)], data.inputs.run.map((r) => [r.name, r.value, r.source]), true);
  inputCard(section, "The model", "Sizes, each with the configuration's key, the family's default or the override that it comes from.", [word("field"), word("value"), word("from", true)],
    data.inputs.model.map((r) => [r.name, r.value, r.source]), false);
  const kinds = d3.nest().key((r) => r.kind).rollup((l) => l.length).entries(data.inputs.device).map((k) => `${k.value} ${k.key}`);
  inputCard(section, "The device", `Every constant of ${data.device_title}: ${listText(kinds)}.`, [word("constant"), word("value"), word("kind"), word("meaning", true), word("source", true)],
    data.inputs.device.map((r) => [r.name, r.value, r.kind, r.meaning, r.source]), false);
  if (data.inputs.fitted.length > 0) {
    inputCard(section, "Fitted constants", "What was fitted to measured kernels, with the standard error of each.", [word("implementation"), word("constant"), word("value"), word("standard error, %"), word("fitted to", true)],
      data.inputs.fitted.map((r) => [r.implementation, r.name, r.value, r.error_pct, r.source]), false);
  }
}
