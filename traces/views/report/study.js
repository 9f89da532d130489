// What the charts of `moesim report` share: the study's times, marks, effects, and the concurrency whose details are shown.

const timeUnit = unitOf(data.points.flatMap((p) => p.rows.map((r) => r.median_ps)).filter((t) => t !== undefined));

// The name, with what it took in the case of auto, and a mark where it does not rest on a fit.
function rowMark(row) {
  if (!data.calibrated || row.median_ps === undefined || row.in_calibrated_range) return "";
  return row.implementation === null ? " †" : " ‡";
}
function rowName(row) {
  const picked = row.picked_samples ? ` = ${Object.keys(row.picked_samples).join(", ")}` : "";
  return strategyName(row.strategy) + picked + rowMark(row);
}

// ---- effects and parts: a colour and a pattern each, so that neighbours differ without colour

const kEffectLooks = {
  memory_stream: ["#5aa7e0", "solid"], underfilled_stream: ["#a9d3f2", "diagonal"], memory_rereads: ["#4fb8c9", "cross"],
  cache_bandwidth: ["#7fd1b9", "dots"], matrix: ["#f2a65a", "solid"], padding: ["#f7cf9e", "diagonal"],
  vector: ["#e8d16b", "horizontal"], serial_step: ["#c99be0", "solid"], launch: ["#9aa4ae", "solid"],
  dispatch_fill: ["#c3cad1", "dots"], tail: ["#e3a9b7", "counter"], synchronisation: ["#d97f8f", "horizontal"],
  weight_load: ["#e58a5c", "counter"], helper: ["#b6bf7a", "cross"],
};
const kPartLooks = [["#5aa7e0", "solid"], ["#a9d3f2", "diagonal"], ["#c3cad1", "dots"], ["#f2a65a", "solid"], ["#f7cf9e", "diagonal"],
  ["#7fd1b9", "dots"], ["#c99be0", "horizontal"], ["#e3a9b7", "counter"], ["#9aa4ae", "cross"]];
const kUnknownLook = ["#c3cad1", "counter"];
const effects = data.effects.map((e) => ({ ...e, look: kEffectLooks[e.key] || kUnknownLook }));
const parts = data.parts.map((p, i) => ({ ...p, look: kPartLooks[i] || kUnknownLook }));

// ---- the concurrency whose details are shown

function feasibleRows(p) { return p.rows.filter((row) => row.median_ps !== undefined); }
const chosen = { index: data.points.findIndex((p) => feasibleRows(p).length > 0), listeners: [] };
function point() { return data.points[chosen.index]; }
function choose(index) {
  if (index === chosen.index) return;
  chosen.index = index;
  for (const listener of chosen.listeners) listener();
  document.getElementById("live").textContent = `Details at ${tokensText(point().concurrency)}`;
}
