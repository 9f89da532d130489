// The kernels of the first sample on one axis of time, a lane a strategy; zoomed by wheel, fingers, buttons or keys.

const kMostZoom = 4000;

function kernelsOf(row) {
  if (!row.kernels) return [];
  return row.kernels.rows.map((values) => Object.fromEntries(row.kernels.columns.map((name, i) => [name, values[i]])));
}

// Kernels that run side by side go to sub-lanes: the first that is free.
function subLanes(kernels) {
  const ends = [];
  for (const kernel of kernels) {
    let lane = ends.findIndex((end) => end <= kernel.start_ps);
    if (lane < 0) lane = ends.length;
    ends[lane] = kernel.end_ps;
    kernel.lane = lane;
  }
  return Math.max(1, ends.length);
}

// What is in view, with runs of kernels too thin to see as one block.
function visibleBlocks(kernels, x, left, right) {
  const blocks = [];
  for (const kernel of kernels) {
    const from = x(kernel.start_ps), to = x(kernel.end_ps);
    if (to < left || from > right) continue;
    const last = blocks[blocks.length - 1];
    if (to - from < 1.2 && last && last.thin && last.lane === kernel.lane && from - last.to < 1) {
      last.to = Math.max(last.to, to);
      last.kernels.push(kernel);
      continue;
    }
    blocks.push({ from, to, thin: to - from < 1.2, lane: kernel.lane, kernels: [kernel] });
  }
  return blocks;
}

// TB/s from its first item's start to its last one's end.
function kernelRate(kernel) { return kernel.end_ps > kernel.start_ps ? kernel.memory_read_bytes / (kernel.end_ps - kernel.start_ps) : 0; }
function kernelLines(kernel) {
  return [["stage", kernel.stage], ["launched", timeText(kernel.launch_ps)], ["starts", timeText(kernel.start_ps)], ["runs for", timeText(kernel.end_ps - kernel.start_ps)],
    ["work items", `${kernel.items.toLocaleString("en-US")} in ${kernel.slots.toLocaleString("en-US")} slots`], ["from memory", `${bytesText(kernel.memory_read_bytes)}, ${fixed(kernelRate(kernel), 2)}\u00a0TB/s`],
    ["mostly", `${effects[kernel.limited_by].name} ${percentText(kernel.limited_share)}`]];
}

// The memory's mean rate as an area whose full height is the channel's peak.
function drawRate(g, rate, x, width, top, height) {
  const y = (value) => top + height * (1 - Math.min(1, value / rate.peak_tb_per_s));
  let path = "", open = false;
  rate.tb_per_s.forEach((value, i) => {
    const from = Math.max(-1, x(i * rate.step_ps)), to = Math.min(width + 1, x((i + 1) * rate.step_ps));
    if (to <= from) return;
    path += open ? `V${y(value).toFixed(1)}H${to.toFixed(1)}` : `M${from.toFixed(1)} ${top + height}V${y(value).toFixed(1)}H${to.toFixed(1)}`;
    open = true;
  });
  if (open) g.append("path").attr("class", "rate").attr("d", `${path}V${top + height}Z`).attr("aria-hidden", "true");
  g.append("path").attr("class", "grid").attr("d", `M0 ${top}H${width}M0 ${top + height}H${width}`).attr("aria-hidden", "true");
}

function addTimeline(section) {
  const id = "chart-kernels";
  const view = { transform: d3.zoomIdentity, behaviour: null, svg: null };
  const kept = (p) => feasibleRows(p).some((row) => row.kernels);
  const first = data.points.find(kept);
  if (!first) {
    section.append(element("p", { class: "note", text: "The kernels of a step are kept at its first concurrency, where no strategy is feasible." }));
    return;
  }
  const source = () => (kept(point()) ? point() : first);
  const lanesOf = () => feasibleRows(source()).filter((row) => row.kernels).sort((a, b) => a.median_ps - b.median_ps);
  const endOf = (row) => Math.max(...row.kernels.rows.map((values) => values[4]));

  function draw(svg, width) {
    addPatterns(svg, id);
    const rows = lanesOf(), lanes = rows.map((row) => ({ row, kernels: kernelsOf(row) }));
    const limits = new Set(lanes.flatMap((lane) => lane.kernels.map((k) => k.limited_by)));
    const legend = effects.filter((_, i) => limits.has(i)).map((kind) => ({ text: kind.name, width: 22, draw: (g) => block(g, id, kind.look, 0, -6, 22, 12) }));
    legend.push({ text: "launched, not yet running", width: 22, draw: (g) => g.append("path").attr("class", "axis").attr("d", "M0 0H22M0 -4V4") });
    const heard = rows.find((row) => row.memory_rate);
    if (heard) legend.push({ text: `memory's rate, of ${fixed(heard.memory_rate.peak_tb_per_s, 2)} TB/s`, width: 22, draw: (g) => g.append("path").attr("class", "rate").attr("d", "M0 6V2L8 -5L14 0L22 -3V6Z") });
    let y = drawLegend(svg, legend, 0, 0, width) + 10;
    const kBar = 22, kRate = 24, end = Math.max(...rows.map(endOf));
    for (const lane of lanes) {
      lane.count = subLanes(lane.kernels);
      lane.y = y;
      lane.rateTop = y + 18 + lane.count * (kBar + 3);
      y = lane.rateTop + (lane.row.memory_rate ? kRate : 0) + 11;
    }
    const bottom = y;
    const base = d3.scaleLinear().domain([0, end]).range([0, width - 2]);
    const axis = svg.append("g").attr("aria-hidden", "true");
    const clip = svg.append("clipPath").attr("id", `${id}-clip`);
    clip.append("rect").attr("width", width).attr("height", bottom + 30);
    const groups = lanes.map((lane) => {
      const label = `${rowName(lane.row)}`;
      const shown = lane.row.kernels.rows.length, all = lane.row.kernels.count;
      const value = `${timeText(endOf(lane.row))} · ${shown < all ? `first ${shown.toLocaleString("en-US")} of ` : ""}${plural(all, "kernel")}`;
      svg.append("path").attr("d", strategyShape(lane.row.strategy)).attr("transform", `translate(6,${lane.y + 7})`).style("fill", strategyColour(lane.row.strategy));
      svg.append("text").attr("class", "name").attr("x", 18).attr("y", lane.y + 11).text(fitted(label, width - textWidth(value) - 36, "name"));
      svg.append("text").attr("class", "dim").attr("x", width).attr("y", lane.y + 11).attr("text-anchor", "end").text(value);
      return svg.append("g").attr("clip-path", `url(#${id}-clip)`);
    });

    function render() {
      const x = view.transform.rescaleX(base);
      axis.selectAll("*").remove();
      for (const tick of x.ticks(Math.max(3, Math.floor(width / 110)))) {
        axis.append("path").attr("class", "grid").attr("d", `M${x(tick)} ${lanes[0].y}V${bottom}`);
        const text = `${+(tick / timeUnit.ps).toPrecision(6)} ${timeUnit.name}`;
        const at = x(tick), anchor = at < 20 ? "start" : at > width - 30 ? "end" : "middle";
        axis.append("text").attr("class", "dim").attr("x", at).attr("y", bottom + 16).attr("text-anchor", anchor).text(text);
      }
      keepingFocus(svg.node(), () => lanes.forEach((lane, l) => {
        const g = groups[l];
        g.selectAll("*").remove();
        if (lane.row.memory_rate) drawRate(g, lane.row.memory_rate, x, width, lane.rateTop, kRate);
        const nodes = visibleBlocks(lane.kernels, x, 0, width).map((piece) => {
          const kernel = piece.kernels[0], top = lane.y + 18 + piece.lane * (kBar + 3);
          if (!piece.thin && kernel.launch_ps < kernel.start_ps) {
            g.append("path").attr("class", "axis").attr("d", `M${x(kernel.launch_ps)} ${top + 5}V${top + kBar - 5}M${x(kernel.launch_ps)} ${top + kBar / 2}H${piece.from}`);
          }
          const mark = block(g, id, effects[kernel.limited_by].look, piece.from, top, Math.max(0.8, piece.to - piece.from), kBar).attr("class", "mark");
          const from = Math.max(0, piece.from), room = Math.min(width, piece.to) - from;
          const text = piece.kernels.length > 1 ? fitted(plural(piece.kernels.length, "kernel"), room - 10) : fitted(kernel.stage || kernel.name, room - 10);
          if (text) {
            mark.append("rect").attr("x", from + 3).attr("y", top + 3).attr("width", textWidth(text) + 4).attr("height", kBar - 6).attr("rx", 3).style("fill", effects[kernel.limited_by].look[0]);
            mark.append("text").attr("class", "on-mark").attr("x", from + 5).attr("y", top + 15).text(text);
          }
          tells(mark.node(), () => (piece.kernels.length > 1
            ? { title: `${plural(piece.kernels.length, "kernel")}, from ${kernel.name}`, lines: [["from", timeText(kernel.start_ps)], ["to", timeText(piece.kernels[piece.kernels.length - 1].end_ps)]] }
            : { title: kernel.name, lines: kernelLines(kernel) }));
          return mark.node();
        });
        roving(g.node(), `Kernels of ${strategyName(lane.row.strategy)}`, nodes);
      }));
    }

    const ground = svg.insert("rect", ":first-child").attr("class", "hit").attr("width", width).attr("height", bottom);
    ground.attr("aria-hidden", "true");
    view.behaviour = d3.zoom().scaleExtent([1, kMostZoom]).translateExtent([[0, 0], [width, bottom]]).extent([[0, 0], [width, bottom]])
      .filter(() => wanted(d3.event))
      .on("zoom", () => {
        view.transform = d3.event.transform;
        render();
      });
    view.svg = svg;
    svg.call(view.behaviour).style("touch-action", "pan-y");
    svg.on("keydown.zoom", () => {
      const keys = { "+": 2, "=": 2, "-": 0.5, 0: 0 };
      if (!(d3.event.key in keys) || d3.event.ctrlKey || d3.event.metaKey) return;
      d3.event.preventDefault();
      zoomBy(keys[d3.event.key]);
    });
    const before = view.transform;
    view.transform = d3.zoomIdentity;
    svg.call(view.behaviour.transform, before);
    return bottom + 24;
  }

  // The wheel alone and one finger scroll the page; a finger drags what is zoomed.
  function wanted(event) {
    if (event.type === "wheel") return event.ctrlKey || event.metaKey || event.shiftKey;
    if (event.touches && event.touches.length < 2) return view.transform.k > 1;
    return !event.button;
  }

  // 0: all of it. Around the focused kernel, or the middle.
  function zoomBy(factor) {
    hideTip();
    if (factor === 0) return view.svg.call(view.behaviour.transform, d3.zoomIdentity);
    const focused = view.svg.node().contains(document.activeElement) && document.activeElement.getBoundingClientRect();
    const frame = view.svg.node().getBoundingClientRect();
    const at = focused ? Math.max(0, Math.min(frame.width, focused.left + focused.width / 2 - frame.left)) : frame.width / 2;
    return view.svg.call(view.behaviour.scaleBy, factor, [at, 0]);
  }
  function panBy(share) { view.svg.call(view.behaviour.translateBy, -share * view.svg.node().getBoundingClientRect().width / view.transform.k, 0); }

  const button = (text, label, act) => {
    const node = element("button", { type: "button", text, "aria-label": label, title: label });
    node.addEventListener("click", act);
    return node;
  };
  addFigure(section, {
    id, draw, follows: true,
    hint: "Zoom with the buttons, with + and −, by pinching, or with Ctrl and the wheel; drag to move.",
    title: () => `Simulated kernels of the first routing, at ${tokensText(source().concurrency)}`,
    reading: () => {
      const rows = lanesOf();
      const counts = rows.map((row) => `${strategyName(row.strategy)} ${row.kernels.count.toLocaleString("en-US")}`);
      return `Kernels by strategy: ${listText(counts)}. A block's colour and pattern say what it mostly waits for${rows.some((row) => row.memory_rate) ? ", the area below it how fast memory delivers" : ""}.`;
    },
    controls: () => [button("−", "Zoom out", () => zoomBy(0.5)), button("+", "Zoom in", () => zoomBy(2)), button("←", "Earlier", () => panBy(-0.5)),
      button("→", "Later", () => panBy(0.5)), button("All", "Show all of it", () => zoomBy(0))],
    table: () => ({
      columns: [{ name: "tokens" }, { name: "strategy", text: true }, { name: "kernel", text: true }, { name: "stage", text: true }, { name: "launch_us", digits: 3 }, { name: "start_us", digits: 3 },
        { name: "end_us", digits: 3 }, { name: "items" }, { name: "slots" }, { name: "memory_read_bytes" }, { name: "cache_read_bytes" }, { name: "memory_tb_per_s", digits: 3 }, { name: "limited_by", text: true }],
      rows: lanesOf().flatMap((row) => kernelsOf(row).map((k) => [source().concurrency, strategyName(row.strategy), k.name, k.stage, k.launch_ps / kPsPerUs, k.start_ps / kPsPerUs, k.end_ps / kPsPerUs,
        k.items, k.slots, k.memory_read_bytes, k.cache_read_bytes, kernelRate(k), effects[k.limited_by].key])),
    }),
  });
}
