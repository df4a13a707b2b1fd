"use strict";
// Everything that comes from the model is put into the page as text (textContent), never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const ROW = 22, LEFT = 170;
const SVG = "http://www.w3.org/2000/svg";

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined && text !== null) element.textContent = text;
  return element;
}

function show(tab) {
  for (const name of ["graph", "source", "breaks"]) {
    by(name).hidden = name !== tab;
    by(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
  }
}

function short(op) {
  return op.replace(/^(aten|torch_max_backend)\./, "").replace(/\.default$/, "");
}

function cost(node) {
  if (node.ms !== null) return `${node.ms.toFixed(3)} ms`;
  return node.flops ? `${(node.flops / 1e6).toPrecision(3)} MFLOP` : "";
}

function note(node) {
  if (node.where !== "MAX") return node.reason || "";
  if (node.became) return `part of ${node.became}`;
  if (node.lowered) return `as ${short(node.lowered)}`;
  return node.from ? `from ${short(node.from)}` : "";
}

let rows = [], edges = [], current = null;

function draw(index) {
  current = data.graphs[index];
  const box = by("drawing");
  box.replaceChildren();
  by("details").hidden = true;
  rows = []; edges = [];
  if (!current) { by("status").textContent = "drawn: no graph"; return; }
  const place = new Map(current.nodes.map((node, i) => [node.name, i]));
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", LEFT);
  svg.setAttribute("height", ROW * current.nodes.length + ROW);
  const slowest = Math.max(1e-9, ...current.nodes.map((node) => node.ms || 0));
  current.nodes.forEach((node, i) => {
    for (const input of node.inputs) {
      if (!place.has(input)) continue;
      const from = place.get(input), y1 = from * ROW + ROW / 2, y2 = i * ROW + ROW / 2;
      const depth = Math.min(LEFT - 8, 10 + 22 * Math.log2(1 + i - from));
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", `M${LEFT} ${y1} C${LEFT - depth} ${y1} ${LEFT - depth} ${y2} ${LEFT} ${y2}`);
      svg.append(path);
      edges.push({ from, to: i, path });
    }
  });
  box.append(svg);
  current.nodes.forEach((node, i) => {
    const row = make("div", `row ${node.where}`);
    row.append(make("span", "op", short(node.op)), make("span", "shape", node.outputs.join(", ").replaceAll(" cpu", "")),
               make("span", "cost", cost(node)));
    if (data.timed) {
      const bar = make("span", "bar");
      bar.style.backgroundSize = `${100 * (node.ms || 0) / slowest}% 100%`;
      row.append(bar);
    }
    row.append(make("span", "note", note(node)));
    row.addEventListener("click", () => choose(i));
    box.append(row);
    rows.push(row);
  });
  by("status").textContent = `${current.nodes.length} calls drawn`;
}

function choose(index) {
  rows.forEach((row) => row.classList.remove("chosen", "lit"));
  for (const edge of edges) {
    const near = edge.from === index || edge.to === index;
    edge.path.classList.toggle("lit", near);
    if (near) { rows[edge.from].classList.add("lit"); rows[edge.to].classList.add("lit"); }
  }
  rows[index].classList.add("chosen");
  const node = current.nodes[index], box = by("details");
  const facts = {
    "op": node.op, "name": node.name, "runs": node.where === "nowhere" ? "nowhere" : `on ${node.where}`,
    "why": node.reason, "decomposed from": node.from,
    "became": node.became || node.lowered, "by the pass": node.pass, "reads": node.inputs.join(", "),
    "results": node.outputs.join(", "), "FLOP": node.flops || null, "bytes": node.bytes || null,
    "time": node.ms === null ? null : `${node.ms.toFixed(4)} ms`, "line": node.source,
  };
  box.replaceChildren();
  for (const [name, value] of Object.entries(facts)) {
    if (value === null || value === undefined || value === "") continue;
    const line = make("div");
    line.append(make("b", "", name), document.createTextNode(String(value)));
    box.append(line);
  }
  box.hidden = false;
}

function find(text) {
  const wanted = text.toLowerCase();
  rows.forEach((row, i) => {
    const node = current.nodes[i];
    const all = `${node.op} ${node.name} ${node.source || ""}`.toLowerCase();
    row.classList.toggle("dim", wanted !== "" && !all.includes(wanted));
  });
}

function openNode(graph, name) {
  show("graph");
  if (by("which").value !== String(graph)) { by("which").value = String(graph); draw(graph); }
  const index = current.nodes.findIndex((node) => node.name === name);
  choose(index);
  rows[index].scrollIntoView({ block: "center" });
}

function source() {
  const box = by("source");
  for (const file of data.files) {
    box.append(make("h2", "", file.name));
    for (const row of file.rows) {
      const line = make("div", row.nodes.length ? "code some" : "code");
      line.append(make("span", "number", row.line || "⋮"), make("pre", "", row.text));
      const became = make("span", "became");
      const seen = new Map();
      for (const [graph, name] of row.nodes) {
        const node = data.graphs[graph].nodes.find((one) => one.name === name);
        const key = `${node.where} ${node.op}`;
        if (!seen.has(key)) seen.set(key, { graph, node, count: 0, ms: 0 });
        seen.get(key).count += 1;
        seen.get(key).ms += node.ms || 0;
      }
      for (const { graph, node, count, ms } of seen.values()) {
        const times = count > 1 ? ` ×${count}` : "", took = ms ? ` ${ms.toFixed(2)} ms` : "";
        const chip = make("span", `chip ${node.where}`, short(node.op) + times + took);
        if (node.reason) chip.title = node.reason;
        chip.addEventListener("click", () => openNode(graph, node.name));
        became.append(chip);
      }
      line.append(became);
      box.append(line);
    }
  }
  if (!data.files.length) box.append(make("p", "", "no node has a line of source"));
}

function breaks() {
  for (const found of data.breaks) {
    const article = make("article");
    article.append(make("h2", "", found.kind), make("p", "", found.reason));
    for (const hint of found.hints) article.append(make("p", "", hint));
    article.append(make("pre", "", found.source || "an unknown line"));
    by("breaks").append(article);
  }
  if (!data.breaks.length) by("breaks").append(make("p", "", "Dynamo traced everything into one graph"));
}

document.title = `explain ${data.name}`;
by("name").textContent = data.name;
for (const [name, value] of Object.entries(data.summary)) {
  const pair = make("div");
  pair.append(make("dt", "", name), make("dd", "", value));
  by("summary").append(pair);
}
const counts = { graph: data.graphs.length, source: data.files.length, breaks: data.breaks.length };
for (const [tab, title] of [["graph", "Graph"], ["source", "Source"], ["breaks", "Graph breaks"]]) {
  const button = make("button", "", `${title} (${counts[tab]})`);
  button.id = `tab-${tab}`;
  button.addEventListener("click", () => show(tab));
  by("tabs").append(button);
}
data.graphs.forEach((graph, i) => {
  const option = make("option", "", `${i + 1}: ${graph.kind}, ${graph.nodes.length} calls`);
  option.value = String(i);
  by("which").append(option);
});
by("which").addEventListener("change", (event) => draw(Number(event.target.value)));
by("find").addEventListener("input", (event) => find(event.target.value));
source();
breaks();
show("graph");
draw(0);
