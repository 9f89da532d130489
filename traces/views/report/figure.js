// A figure: title, a sentence that says what it shows, a chart, its numbers as a table, and both as files.

// Columns: {name, digits} of numbers (digits undefined: as they are), {name, text: true} of words.
function cellText(column, value) {
  if (value === null || value === undefined) return "–";
  if (column.text || typeof value === "string") return String(value);
  return column.digits === undefined ? String(value) : fixed(value, column.digits);
}

function buildTable(table, caption, options = {}) {
  const head = element("tr");
  for (const column of table.columns) head.append(element("th", { scope: "col", class: column.text ? "" : "n", text: column.name }));
  const body = element("tbody");
  for (const row of table.rows) {
    const line = element("tr");
    row.forEach((value, c) => {
      const column = table.columns[c];
      line.append(element("td", { class: column.text ? (column.wide ? "t" : "w") : "n", text: cellText(column, value) }));
    });
    body.append(line);
  }
  const node = element("table", {}, element("caption", { class: options.showCaption ? "" : "unseen", text: caption }), element("thead", {}, head), body);
  return element("div", { class: options.tall ? "scroll tall" : "scroll", tabindex: "0", role: "region", "aria-label": caption }, node);
}

function csvText(table) {
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [table.columns.map((c) => c.name), ...table.rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
function fileName(id, extension) {
  const safe = `${data.model}-${data.device}`.replace(/[^A-Za-z0-9._-]+/g, "_").slice(0, 80);
  return `moesim-${safe}-${id}.${extension}`;
}

const kKeptStyles = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-family",
  "font-size", "font-weight", "text-anchor", "shape-rendering", "paint-order"];

function wrapped(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (textWidth(longer) <= width || !lines[lines.length - 1]) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

// The chart as a file of its own: styles written into it, title, reading and origin around it.
function svgText(svg, title, reading) {
  const kSpace = "http://www.w3.org/2000/svg", kMargin = 16, kLine = 17;
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((node, i) => {
    const style = getComputedStyle(node);
    copies[i].setAttribute("style", kKeptStyles.map((key) => `${key}:${style.getPropertyValue(key)}`).join(";"));
    for (const name of ["tabindex", "class", "role", "aria-label", "aria-labelledby", "aria-describedby", "aria-hidden", "id"]) {
      if (name !== "id" || !["pattern", "clipPath"].includes(node.tagName)) copies[i].removeAttribute(name);
    }
  });
  const { width, height } = svg.viewBox.baseVal;
  const page = getComputedStyle(document.body);
  const origin = `moesim ${data.version} · ${data.model} on ${data.device} (${data.device_hash}) · ${data.what} · ${data.routing} routing · seed ${data.seed}`;
  const lines = [...wrapped(reading, width)], feet = wrapped(origin, width);
  const top = kMargin + 24 + lines.length * kLine + 8, bottom = feet.length * kLine + kMargin;
  const outer = document.createElementNS(kSpace, "svg");
  const whole = [width + 2 * kMargin, top + height + bottom];
  outer.setAttribute("xmlns", kSpace);
  outer.setAttribute("viewBox", `0 0 ${whole.join(" ")}`);
  outer.setAttribute("width", whole[0]);
  outer.setAttribute("height", whole[1]);
  const add = (name, attributes, text) => {
    const node = document.createElementNS(kSpace, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text) node.textContent = text;
    outer.append(node);
  };
  const font = page.fontFamily, ink = page.color, dim = getComputedStyle(document.querySelector(".reading")).color;
  add("title", {}, title);
  add("rect", { width: whole[0], height: whole[1], fill: getComputedStyle(document.querySelector(".card")).backgroundColor });
  add("text", { x: kMargin, y: kMargin + 13, fill: ink, "font-family": font, "font-size": 15, "font-weight": 600 }, title);
  lines.forEach((line, i) => add("text", { x: kMargin, y: kMargin + 34 + i * kLine, fill: dim, "font-family": font, "font-size": 12 }, line));
  copy.setAttribute("x", kMargin);
  copy.setAttribute("y", top);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  outer.append(copy);
  feet.forEach((line, i) => add("text", { x: kMargin, y: top + height + 16 + i * kLine, fill: dim, "font-family": font, "font-size": 11 }, line));
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(outer)}\n`;
}

// spec: {id, title, reading(), hint (how to use it: on the page alone), draw(svg, width) -> height, table(), controls(redraw) -> nodes, follows: whether it is of the chosen concurrency}
function addFigure(section, spec) {
  const title = () => (typeof spec.title === "function" ? spec.title() : spec.title);
  const heading = element("h3", { id: `${spec.id}-title` });
  const reading = element("p", { class: "reading", id: `${spec.id}-reading` });
  const tools = element("div", { class: "tools" });
  const canvas = element("div", { class: "canvas" });
  const details = element("details", {}, element("summary", { text: "The numbers as a table" }));
  const figure = element("figure", { class: "card", id: spec.id, "aria-labelledby": `${spec.id}-title` },
    element("div", { class: "card-head" }, element("div", {}, heading, reading), tools), canvas, details);
  section.append(figure);

  let width = 0;
  function redraw() {
    heading.textContent = title();
    reading.textContent = spec.hint ? `${spec.reading()} ${spec.hint}` : spec.reading();
    keepingFocus(canvas, () => {
      canvas.replaceChildren();
      const svg = d3.select(canvas).append("svg").attr("role", "group").attr("aria-labelledby", `${spec.id}-title`).attr("aria-describedby", `${spec.id}-reading`);
      const height = spec.draw(svg, width);
      svg.attr("viewBox", `0 0 ${width} ${height}`);
    });
    if (details.open) fill();
  }
  function fill() {
    while (details.children.length > 1) details.lastChild.remove();
    details.append(buildTable(spec.table(), `${title()}: numbers`, { tall: true }));
  }
  details.addEventListener("toggle", () => { if (details.open) fill(); });

  if (spec.controls) tools.append(...spec.controls(redraw));
  const saveSvg = element("button", { type: "button", text: "SVG" });
  saveSvg.addEventListener("click", () => save(fileName(spec.id, "svg"), "image/svg+xml", svgText(canvas.firstChild, title(), spec.reading())));
  const saveCsv = element("button", { type: "button", text: "CSV" });
  saveCsv.addEventListener("click", () => save(fileName(spec.id, "csv"), "text/csv;charset=utf-8", csvText(spec.table())));
  for (const [button, what] of [[saveSvg, "SVG"], [saveCsv, "CSV"]]) {
    button.setAttribute("aria-label", `Save as ${what}: ${title()}`);
    button.title = `Save as ${what}`;
  }
  tools.append(saveSvg, saveCsv);

  new ResizeObserver(() => {
    const now = Math.floor(canvas.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    redraw();
  }).observe(canvas);
  if (spec.follows) chosen.listeners.push(() => { if (width > 0) redraw(); });
}
