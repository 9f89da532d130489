"use strict";
// What all parts of the page use. All text from the data goes into the page as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);

// ---- numbers

const kPsPerUs = 1e6;

function fixed(value, digits) {
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// Microseconds, or milliseconds where all times are long.
function unitOf(times) { return Math.min(...times) >= 1e9 ? { name: "ms", ps: 1e9 } : { name: "µs", ps: kPsPerUs }; }
// In `timeUnit`, which the page's own script states.
function inUnit(ps) { return ps / timeUnit.ps; }
function timeText(ps) {
  const value = inUnit(ps);
  return `${fixed(value, Math.abs(value) < 100 ? 2 : 1)}\u00a0${timeUnit.name}`;
}
function percentText(share) { return `${fixed(share * 100, share > 0 && share < 0.0995 ? 1 : 0)}\u00a0%`; }
function tokensText(count) { return count === 1 ? "1 token" : `${count.toLocaleString("en-US")} tokens`; }
function plural(count, noun) { return `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`; }
function bytesText(bytes) {
  const [unit, size] = bytes >= 1e9 ? ["GB", 1e9] : bytes >= 1e6 ? ["MB", 1e6] : bytes >= 1e3 ? ["KB", 1e3] : ["B", 1];
  return `${fixed(bytes / size, unit === "B" ? 0 : 1)}\u00a0${unit}`;
}
// "a, b and c"
function listText(items) {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}`;
}

// ---- elements

// element("p", {class: "note", text: "..."}, child, ...)
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// The text, with places to break long names at.
function breakable(text) {
  return text.split(/(?<=_)/).flatMap((piece, i) => (i === 0 ? [piece] : [element("wbr"), piece]));
}

function segments(legend, name, options, chosen, onChange) {
  const box = element("fieldset", { class: "segments" }, element("legend", { class: "unseen", text: legend }));
  for (const [value, text] of options) {
    const input = element("input", { type: "radio", name, value });
    input.checked = value === chosen;
    input.addEventListener("change", () => onChange(value));
    box.append(element("label", {}, input, element("span", { text })));
  }
  return box;
}

const kFonts = (() => {
  const style = getComputedStyle(document.documentElement);
  return { name: `11.5px ${style.getPropertyValue("--mono")}`, plain: `12px ${style.getPropertyValue("--sans")}` };
})();
const measuring = document.createElement("canvas").getContext("2d");
// Width of a text in a chart: `kind` "" or "name" (monospaced), as the style sheet has them.
function textWidth(text, kind = "") {
  measuring.font = kind === "name" ? kFonts.name : kFonts.plain;
  return measuring.measureText(text).width;
}
// The text, or as much of it as fits, or nothing.
function fitted(text, width, kind = "") {
  if (textWidth(text, kind) <= width) return text;
  for (let length = text.length - 1; length >= 3; --length) {
    const shorter = `${text.slice(0, length)}…`;
    if (textWidth(shorter, kind) <= width) return shorter;
  }
  return "";
}

// ---- strategies: a colour and a shape each

const kStrategyColours = 8;
const kShapes = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolStar, d3.symbolWye, d3.symbolCross];
function strategyColour(s) { return `var(--s${s % kStrategyColours})`; }
function strategyShape(s, size = 58) { return d3.symbol().type(kShapes[s % kShapes.length]).size(size)(); }
const kDashes = ["", "7 2", "2 2", "9 3 2 3"];
function strategyDash(s) { return kDashes[Math.floor(s / kShapes.length) % kDashes.length]; }

function strategyName(s) { return data.strategies[s]; }

// ---- patterns of blocks, so that neighbours differ without colour

const kPatternPaths = {
  diagonal: "M-2 2L2 -2M0 8L8 0M6 10L10 6", counter: "M-2 6L2 10M0 0L8 8M6 -2L10 2", horizontal: "M0 2H8M0 6H8",
  cross: "M0 4H8M4 0V8", dots: "M2 2h1.6M6 6h1.6",
};
// Patterns of one chart: ids must be unique in the page.
function addPatterns(svg, id) {
  const defs = svg.append("defs");
  for (const [name, path] of Object.entries(kPatternPaths)) {
    const pattern = defs.append("pattern").attr("id", `${id}-${name}`).attr("width", 8).attr("height", 8)
      .attr("patternUnits", "userSpaceOnUse");
    pattern.append("path").attr("d", path).style("stroke", "var(--hatch)").attr("stroke-width", name === "dots" ? 1.6 : 1).attr("fill", "none");
  }
}
// A block in a look: its colour, and its pattern over it.
function block(parent, id, look, x, y, width, height) {
  const g = parent.append("g");
  const place = (rect) => rect.attr("x", x).attr("y", y).attr("width", Math.max(0, width)).attr("height", height);
  place(g.append("rect")).style("fill", look[0]).attr("class", width > 3 ? "seam" : null);
  if (look[1] !== "solid") place(g.append("rect")).attr("fill", `url(#${id}-${look[1]})`);
  return g;
}

// A legend that wraps; returns the height that it took. Items: {text, kind, draw(g), width}.
function drawLegend(svg, items, x, y, width) {
  const kRow = 19, kGap = 16;
  let left = x, row = 0;
  for (const item of items) {
    const taken = item.width + 6 + textWidth(item.text, item.kind);
    if (left > x && left + taken > x + width) {
      left = x;
      row += 1;
    }
    const g = svg.append("g").attr("transform", `translate(${left},${y + row * kRow + 9})`);
    item.draw(g);
    g.append("text").attr("class", item.kind === "name" ? "name" : "dim").attr("x", item.width + 6).attr("dy", ".34em").text(fitted(item.text, width - item.width - 6, item.kind));
    left += taken + kGap;
  }
  return (row + 1) * kRow;
}

// Ticks of a logarithmic axis: 1, 2 and 5 of each decade, or powers of ten alone where these are many.
function logTicks(low, high) {
  const all = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e) {
    for (const m of [1, 2, 5]) all.push([m * 10 ** e, m]);
  }
  const inside = all.filter(([v]) => v >= low * 0.999 && v <= high * 1.001);
  return (inside.length > 10 ? inside.filter(([, m]) => m === 1) : inside).map(([v]) => v);
}

// ---- tooltips and keys

const tip = document.getElementById("tip");

function showTip(title, lines, x, y) {
  tip.replaceChildren(element("strong", { text: title }));
  const list = element("dl");
  for (const [name, value] of lines) list.append(element("dt", { text: name }), element("dd", { text: value }));
  tip.append(list);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - box.width - 8));
  const above = y - box.height - 12;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : Math.min(y + 16, window.innerHeight - box.height - 8)}px`;
}
function hideTip() { tip.hidden = true; }
let tipFollows = null;  // shows the focused mark's tip where the mark now is

// Makes a mark tell: `about()` gives {title, lines}. `pick`: what Enter or a click does.
function tells(node, about, pick) {
  const { title, lines } = about();
  node.setAttribute("role", pick ? "button" : "img");
  node.setAttribute("aria-label", `${title}: ${lines.map(([name, value]) => `${name} ${value}`).join(", ")}`);
  node.addEventListener("pointermove", (event) => showTip(title, lines, event.clientX, event.clientY));
  node.addEventListener("pointerleave", hideTip);
  const showHere = () => {
    const box = node.getBoundingClientRect();
    showTip(title, lines, box.left + box.width / 2, box.top);
  };
  node.addEventListener("focus", () => {
    if (!node.matches(":focus-visible")) return;
    showHere();
    tipFollows = showHere;
  });
  node.addEventListener("blur", () => {
    hideTip();
    tipFollows = null;
  });
  if (!pick) return;
  node.classList.add("pick");
  node.addEventListener("click", pick);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick();
  });
}

// One stop of the Tab key for a group of marks; the arrow keys go through it.
function roving(group, label, nodes) {
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", `${label}. Arrow keys go through it.`);
  nodes.forEach((node, i) => {
    node.setAttribute("tabindex", i === 0 ? "0" : "-1");
    node.addEventListener("focus", () => {
      for (const other of nodes) other.setAttribute("tabindex", other === node ? "0" : "-1");
    });
    node.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: i + 1, ArrowDown: i + 1, ArrowLeft: i - 1, ArrowUp: i - 1, Home: 0, End: nodes.length - 1 };
      if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      nodes[Math.max(0, Math.min(nodes.length - 1, steps[event.key]))].focus();
    });
  });
}
// Draws anew without losing the focus: the mark of the same label has it again.
function keepingFocus(node, draw) {
  const held = node.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  hideTip();
  tipFollows = null;
  draw();
  if (held === null) return;
  const again = [...node.querySelectorAll("[tabindex]")].find((mark) => mark.getAttribute("aria-label") === held);
  if (again) again.focus({ preventScroll: true });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    hideTip();
    tipFollows = null;
  }
});
// What has the focus scrolls into view, and its tip with it.
window.addEventListener("scroll", () => (tipFollows ? tipFollows() : hideTip()), { passive: true });

// ---- the page's colours follow the system (color-scheme) until one of the two is chosen

document.getElementById("theme").addEventListener("change", (event) => {
  if (event.target.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = event.target.value;
});
