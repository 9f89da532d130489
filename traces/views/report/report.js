// Puts the page together.

function startChooser() {
  const select = document.getElementById("concurrency");
  data.points.forEach((p, i) => select.append(element("option", { value: i, text: tokensText(p.concurrency) })));
  select.value = String(chosen.index);
  select.addEventListener("change", () => choose(Number(select.value)));
  chosen.listeners.push(() => { select.value = String(chosen.index); });
}

startChooser();
fillVerdict();
addTimeChart(document.getElementById("time"));
addAttribution(document.getElementById("where"));
addLadder(document.getElementById("where"));
addTimeline(document.getElementById("kernels"));
addRowsChart(document.getElementById("routing"));
addAccuracy(document.getElementById("accuracy"));
addInputs(document.getElementById("inputs"));
document.getElementById("foot").append(element("p", {
  text: `moesim ${data.version}. Device file hash ${data.device_hash}, seed ${data.seed}: the same inputs give the same report, byte for byte. This file needs no network and loads nothing.`,
}), element("p", { text: "Charts are drawn by D3, whose licence stands in this file." }));
