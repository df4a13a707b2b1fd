"use strict";
/* The viewer of one torch_ir graph. No library, no network.

   1 data      the embedded JSON as items: vertices and boxes in one tree
   2 nets      which values are visible between which items, given the open boxes
   3 layout    each open box by itself, innermost first: layers, order, x, lanes
   4 drawing   canvas, only what is on the screen
   5 panels    details, statistics, search
   6 input     pointer, keys, the address's fragment

   Names are data of strangers: they reach the page through textContent and fillText alone. */
(() => {
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("ir-data").textContent);
const text = (index) => data.strings[index];
const canvas = byId("graph"), ctx = canvas.getContext("2d");
const map = byId("map"), mapCtx = map.getContext("2d");
const root = document.documentElement;

/* ---------------------------------------------------------------- 1 data */

const FONT = 'system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';
const MONO = 'ui-monospace, "DejaVu Sans Mono", monospace';
const F_LABEL = `600 12px ${FONT}`, F_SUB = `11px ${FONT}`, F_SHAPE = `10px ${MONO}`, F_HEAD = `600 12px ${FONT}`;
const NODE_H = 34, BOX_H = 48, HEAD = 30, PAD = 16, GAP_X = 22, GAP_Y = 44, PORT_GAP = 26;
const LANE_SPAN = 9, LANE_STEP = 10;

const HUES = {
  light: {
    matmul: "#3d6be5", convolution: "#2f86d6", attention: "#9250d8", normalization: "#1f9d63", activation: "#e07b1c",
    pooling: "#13a0ac", reduction: "#d7457a", indexing: "#b98a08", shape: "#8592a6", creation: "#7f8f3a",
    control: "#d64545", elementwise: "#3f93a8", other: "#6b7280", input: "#3b82f6", output: "#22a35a",
    mutation: "#d39a12", constant: "#94a3b8", weight: "#94a3b8", module: "#6c5ce7",
    page: "#f4f6fa", card: "#ffffff", border: "#cdd5e1", text: "#182233", muted: "#66738a", edge: "#a3afc1",
    accent: "#3d5be0", hit: "#f0b429", label: "#55627a", fills: ["#ffffff", "#f7f8fc"], closed: "#f1efff",
  },
  dark: {
    matmul: "#7b9cff", convolution: "#62b0f5", attention: "#c08bff", normalization: "#4fd093", activation: "#ffab57",
    pooling: "#4ccfdb", reduction: "#ff7eab", indexing: "#e6bd3f", shape: "#8f9db3", creation: "#b5c565",
    control: "#ff7b7b", elementwise: "#6cc3d8", other: "#9aa3b2", input: "#6ea8ff", output: "#4fd093",
    mutation: "#e9bd4c", constant: "#8f9db3", weight: "#8f9db3", module: "#a598ff",
    page: "#0e131b", card: "#1c2431", border: "#374357", text: "#e4eaf4", muted: "#93a1b8", edge: "#53617a",
    accent: "#8ea2ff", hit: "#ffcf4d", label: "#93a1b8", fills: ["#151c27", "#121822"], closed: "#232442",
  },
};
let hue = HUES.light;

/* An item is a vertex or a box. Common: id, isBox, parent, title, sub, category, X Y w h (page
   coordinates), first and last (the vertices inside, by id: a box is an interval of the program). */
const vertices = data.vertices.map((v, id) => ({
  id, isBox: false, raw: v, parent: null, title: text(v.label), sub: v.out.length === 1 ? text(v.out[0]) : "",
  category: v.kind === "op" ? data.categories[v.category] : v.kind, first: id, last: id,
  X: 0, Y: 0, w: 0, h: NODE_H, rep: null, ins: [], outs: [],
}));
const boxes = data.boxes.map((b, id) => ({
  id, isBox: true, raw: b, parent: null, title: text(b.title), sub: "", category: "module", children: [], open: false,
  first: Infinity, last: -1, ops: 0, elements: 0, X: 0, Y: 0, w: 0, h: BOX_H, depth: 0,
}));
const top = { isBox: true, open: true, children: [], title: data.model, parent: null, depth: 0, first: 0, last: vertices.length - 1, X: 0, Y: 0, w: 0, h: 0 };
for (const box of boxes) {
  box.parent = box.raw.parent < 0 ? top : boxes[box.raw.parent];
  box.depth = box.parent.depth + 1;
}
for (const vertex of vertices) vertex.parent = vertex.raw.box < 0 ? top : boxes[vertex.raw.box];
{
  const seen = new Map();
  for (const vertex of vertices) {
    for (let item = vertex, box = vertex.parent; ; item = box, box = box.parent) {
      if (item.listed !== true) { item.listed = true; box.children.push(item); }
      if (box === top) break;
      box.first = Math.min(box.first, vertex.id);
      box.last = vertex.id;
      if (vertex.raw.kind === "op") box.ops++;
      for (const [, key, , elements] of vertex.raw.weights || []) {
        let known = seen.get(box);
        if (!known) seen.set(box, known = new Set());
        if (!known.has(key)) { known.add(key); box.elements += elements; }
      }
    }
  }
  for (const box of boxes) {
    const kind = text(box.raw.type).split(".").pop();
    box.type = kind || { module: "", call: "control flow", subgraph: "subgraph" }[box.raw.kind];
    box.single = box.first === box.last && box.children.length === 1;
    box.sub = [box.type, box.single ? vertices[box.first].title : plural(box.ops, "op"), box.elements ? count(box.elements) + " params" : ""].filter(Boolean).join(" · ");
  }
}
for (const [index, edge] of data.edges.entries()) {
  vertices[edge[0]].outs.push(index);
  vertices[edge[1]].ins.push(index);
}
const maxDepth = boxes.reduce((most, box) => Math.max(most, box.depth), 0);

function plural(number, word) { return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`; }
function scaled(number, base, units, gap) {
  let unit = 0;
  while (number >= base - 0.5 && unit < units.length - 1) { number /= base; unit++; }
  if (unit === 0) return number + gap + units[0];
  return number.toFixed(number < 9.995 ? 2 : number < 99.95 ? 1 : 0) + gap + units[unit];
}
function count(number) { return scaled(number, 1000, ["", "K", "M", "B", "T", "Q"], ""); }
function bytes(number) { return scaled(number, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], " "); }

const widths = new Map();
function measure(font, string) {
  const key = font + string;
  let width = widths.get(key);
  if (width === undefined) { ctx.font = font; widths.set(key, width = ctx.measureText(string).width); }
  return width;
}
function clip(string, most) { return string.length > most ? string.slice(0, most - 1) + "…" : string; }

/* ---------------------------------------------------------------- 2 nets */

/* A net is what one visible item sends to the same set of visible items: usually one value. Inside
   each open box that it touches it has a piece: from a child, or from the box's upper border, to
   children and perhaps to its lower border. */
let nets = [], drawnItems = 0;

function showing(item) {
  let shown = item;
  for (let box = item.parent; box; box = box.parent) if (!box.open) shown = box;
  return shown;
}

function buildNets() {
  nets = [];
  drawnItems = 0;
  (function visit(box) {
    box.pieces = new Map();
    for (const child of box.children) {
      drawnItems++;
      if (child.isBox && child.open) { drawnItems--; visit(child); continue; }
      for (let id = child.first; id <= child.last; id++) vertices[id].rep = child;
      child.nets = [];
    }
  })(top);
  const bySource = new Map();
  for (const [source, target, output, shape, , calls] of data.edges) {
    const from = vertices[source].rep, to = vertices[target].rep;
    if (from === to) continue;
    let values = bySource.get(from);
    if (!values) bySource.set(from, values = new Map());
    const key = `${source}.${output}.${calls}`;
    let value = values.get(key);
    if (!value) values.set(key, value = { shape: text(shape), targets: new Set(), calls });
    value.targets.add(to);
  }
  for (const [from, values] of bySource) {
    const merged = new Map();
    for (const value of values.values()) {
      const targets = [...value.targets];
      const signature = value.calls + targets.map((t) => (t.isBox ? "b" : "v") + t.id).sort().join();
      const net = merged.get(signature);
      if (net) { net.shapes.push(value.shape); continue; }
      merged.set(signature, { from, targets, shapes: [value.shape], calls: value.calls });
    }
    for (const net of merged.values()) addNet(net);
  }
}

function addNet(net) {
  const distinct = new Set(net.shapes);
  net.label = net.shapes.length === 1 ? net.shapes[0]
    : distinct.size === 1 ? `${net.shapes.length} × ${net.shapes[0]}` : `${net.shapes.length} tensors`;
  net.label = net.calls ? "calls" : clip(net.label, 44);
  nets.push(net);
  net.from.nets.push(net);
  const above = new Map(); // open box around the source -> its child on the way to it
  for (let item = net.from; item.parent; item = item.parent) above.set(item.parent, item);
  for (const target of net.targets) {
    target.nets.push(net);
    let item = target;
    while (!above.has(item.parent)) {
      piece(item.parent, net, null).dst.add(item);
      item = item.parent;
    }
    const meet = item.parent;
    for (let box = net.from.parent; box !== meet; box = box.parent) piece(box, net, above.get(box)).leaves = true;
    piece(meet, net, above.get(meet)).dst.add(item);
  }
}
function piece(box, net, src) {
  let known = box.pieces.get(net);
  if (!known) box.pieces.set(net, known = { net, src, dst: new Set(), leaves: false });
  return known;
}

/* -------------------------------------------------------------- 3 layout */

/* Sizes and inner positions of an open box, innermost first. Afterwards every child has x, y
   relative to the box, and box.paths holds the lines inside it. */
function layoutBox(box) {
  const cells = [], pieces = [...box.pieces.values()];
  const newCell = (item, w, h) => {
    const cell = { item, w, h, layer: 0, left: w / 2, right: w / 2, ins: [], outs: [], up: [], down: [], x: 0, at: 0, dummy: false, port: 0, sends: [], takes: [] };
    cells.push(cell);
    return cell;
  };
  for (const child of box.children) {
    if (child.isBox && child.open) layoutBox(child);
    else sizeItem(child);
    child.cell = newCell(child, child.w, child.h);
  }
  let inPorts = false;
  for (const p of pieces) {
    p.from = p.src ? p.src.cell : newCell(null, 8, 0);
    if (!p.src) { p.from.port = 1; inPorts = true; }
    p.to = [...p.dst].map((item) => item.cell);
    for (const cell of p.to) { p.from.outs.push(cell); cell.ins.push(p.from); }
    p.exit = p.leaves ? newCell(null, 8, 0) : null;
    if (p.exit) p.exit.port = 2;
    p.labelWidth = measure(F_SHAPE, p.net.label) + 10;
  }
  const layers = assignLayers(box, cells, inPorts);
  for (const p of pieces) if (p.exit) p.to.push(p.exit);
  const lanes = addDummies(pieces, layers, cells);
  orderLayers(layers);
  // One line's shape stands where it starts; of several lines from one symbol, where they end.
  for (const p of pieces) p.from.sends.push(p);
  for (const p of pieces) {
    p.labelled = p.from.sends.length > 1 && p.near.length ? p.near[0] : p.from;
    const offset = portOffset(p.labelled, p.net, p.labelled !== p.from);
    p.labelled.right = Math.max(p.labelled.right, offset + p.labelWidth);
  }
  placeX(layers);
  route(box, pieces, layers, lanes);
}

function sizeItem(item) {
  if (item.isBox) {
    item.w = Math.max(110, measure(F_LABEL, clip(item.title, 40)) + 50, measure(F_SUB, clip(item.sub, 52)) + 28);
    item.h = BOX_H;
  } else {
    item.w = Math.max(64, measure(F_LABEL, clip(item.title, 40)) + 28);
    item.h = item.raw.kind === "op" ? NODE_H : 28;
  }
}

/* Longest path; the children stand in program order, which is a topological order. What only
   prepares an operand (a constant, an arange) then moves down to the one who needs it. */
function assignLayers(box, cells, inPorts) {
  const kids = box.children.map((child) => child.cell);
  const base = inPorts ? 1 : 0;
  for (const cell of kids) {
    cell.layer = base;
    for (const source of cell.ins) if (!source.port) cell.layer = Math.max(cell.layer, source.layer + 1);
    cell.loose = cell.ins.every((source) => !source.port && source.loose && source.outs.length === 1);
  }
  for (let i = kids.length - 1; i >= 0; i--) {
    const cell = kids[i];
    if (!cell.loose || cell.outs.length === 0) continue;
    let lowest = Infinity;
    for (const target of cell.outs) lowest = Math.min(lowest, target.layer - 1);
    cell.layer = Math.max(cell.layer, lowest);
  }
  let last = base;
  for (const cell of kids) last = Math.max(last, cell.layer);
  for (const cell of cells) {
    if (cell.port === 1) cell.layer = 0;
    if (cell.port === 2) cell.layer = last + 1;
  }
  const layers = Array.from({ length: last + 2 }, () => []);
  for (const cell of cells) layers[cell.layer].push(cell);
  while (layers.length > 1 && layers[layers.length - 1].length === 0) layers.pop();
  return layers;
}

/* A line through several layers gets a place in each of them, shared by all readers of the value.
   Longer ones would crowd the picture: they run in a lane at the right border instead. */
function addDummies(pieces, layers, cells) {
  const lanes = [];
  for (const p of pieces) {
    const start = p.from.layer;
    p.trunk = [p.from];
    p.near = [];
    p.far = [];
    let reach = start;
    for (const cell of p.to) {
      if (cell.layer - start > LANE_SPAN) p.far.push(cell);
      else { p.near.push(cell); reach = Math.max(reach, cell.layer - 1); }
    }
    for (let layer = start + 1; layer <= reach; layer++) {
      const dummy = { item: null, w: 0, h: 0, layer, left: 3, right: 3, ins: [], outs: [], up: [], down: [], x: 0, at: 0, dummy: true, port: 0 };
      cells.push(dummy);
      layers[layer].push(dummy);
      link(p.trunk[p.trunk.length - 1], dummy, p.net);
      p.trunk.push(dummy);
    }
    for (const cell of p.near) link(p.trunk[cell.layer - 1 - start], cell, p.net);
    if (p.far.length) {
      const end = p.far.reduce((most, cell) => Math.max(most, cell.layer), 0);
      lanes.push({ p, start, end, slot: 0 });
    }
  }
  lanes.sort((a, b) => a.start - b.start || a.end - b.end);
  const free = [];
  for (const lane of lanes) {
    let slot = free.findIndex((end) => end <= lane.start);
    if (slot < 0) slot = free.push(0) - 1;
    free[slot] = lane.end;
    lane.slot = slot;
    lane.p.lane = lane;
  }
  return { list: lanes, width: free.length ? free.length * LANE_STEP + 10 : 0 };
}

function link(upper, lower, net) {
  upper.down.push({ cell: lower, net });
  lower.up.push({ cell: upper, net });
}

function orderLayers(layers) {
  const positions = (layer) => layer.forEach((cell, index) => { cell.at = index; });
  layers.forEach(positions);
  const sweep = (layer, side) => {
    if (layer.length < 2) return;
    for (const cell of layer) {
      const links = cell[side];
      if (links.length === 0) { cell.key = cell.at; continue; }
      let sum = 0;
      for (const l of links) sum += (l.cell.at + 0.5) / l.cell.of;
      cell.key = sum / links.length * layer.length;
    }
    layer.sort((a, b) => a.key - b.key || a.at - b.at);
    positions(layer);
  };
  for (const layer of layers) for (const cell of layer) cell.of = layer.length;
  for (let round = 0; round < 3; round++) {
    for (let i = 1; i < layers.length; i++) sweep(layers[i], "up");
    for (let i = layers.length - 2; i >= 0; i--) sweep(layers[i], "down");
  }
}

/* How far from a cell's centre a net meets it; only open boxes have fixed places. */
function portOffset(cell, net, entering) {
  if (!cell.item || !cell.item.isBox || !cell.item.open) return 0;
  const ports = entering ? cell.item.inX : cell.item.outX;
  return ports.get(net) - cell.item.w / 2;
}

/* Each cell wants to stand under or over its neighbours. Per layer that is least squares under
   "keep the order and the distance", solved exactly by pooling neighbours that collide. */
function placeX(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const cell of layer) {
      x += cell.left;
      cell.x = x;
      x += cell.right + GAP_X;
    }
    for (const cell of layer) {
      cell.x -= x / 2;
      for (const l of cell.up) l.k = l.cell.dummy && cell.dummy ? 6 : l.cell.dummy || cell.dummy ? 1 : 4;
      for (const l of cell.down) l.k = l.cell.dummy && cell.dummy ? 6 : l.cell.dummy || cell.dummy ? 1 : 4;
    }
  }
  const pull = (layer, up, down, ports) => {
    const n = layer.length, blocks = [];
    let shift = 0;
    for (let i = 0; i < n; i++) {
      const cell = layer[i];
      if (i) shift += layer[i - 1].right + cell.left + (cell.dummy && layer[i - 1].dummy ? 8 : GAP_X);
      let sum = 0, weight = 0;
      // Open boxes stand centre under centre: following their ports, a long stack would drift away.
      const spine = ports && cell.spine;
      if (ports && cell.item && cell.item.isBox && cell.item.open) { sum = 1e5 * cell.x; weight = 1e5; }
      else if (spine) { weight = cell.dummy ? 20 : 3000; sum = weight * (spine.cell.x + portOffset(spine.cell, spine.net, false)); }
      else {
        if (up) for (const l of cell.up) { sum += l.k * (l.cell.x + (ports ? portOffset(l.cell, l.net, false) : 0)); weight += l.k; }
        if (down) for (const l of cell.down) { sum += l.k * (l.cell.x + (ports ? portOffset(l.cell, l.net, true) : 0)); weight += l.k; }
      }
      if (!ports && !cell.dummy && weight) weight += cell.item && cell.item.open ? 4 : 0.4; // a wish for the middle, against drift
      const wish = weight ? sum / weight : cell.x;
      let block = { w: weight || 0.05, m: wish - shift, from: i };
      while (blocks.length && blocks[blocks.length - 1].m > block.m) {
        const other = blocks.pop(), w = other.w + block.w;
        block = { w, m: (other.m * other.w + block.m * block.w) / w, from: other.from };
      }
      blocks.push(block);
      cell.shift = shift;
    }
    for (let b = 0; b < blocks.length; b++) {
      const end = b + 1 < blocks.length ? blocks[b + 1].from : n;
      for (let i = blocks[b].from; i < end; i++) layer[i].x = blocks[b].m + layer[i].shift;
    }
  };
  for (let round = 0; round < 4; round++) {
    for (let i = 1; i < layers.length; i++) pull(layers[i], true, false, false);
    for (let i = layers.length - 2; i >= 0; i--) pull(layers[i], false, true, false);
  }
  for (let i = 0; i < layers.length; i++) pull(layers[i], true, true, false);
  // Last, from above: what is the only (real) successor of its only (real) predecessor stands
  // exactly under it, and so does each step of a long line.
  const plain = (cell) => (cell.item && !(cell.item.isBox && cell.item.open)) || cell.port === 2;
  for (const layer of layers) for (const cell of layer) {
    if (cell.dummy) { if (cell.up[0].cell.dummy) cell.spine = cell.up[0]; continue; }
    if (!plain(cell)) continue;
    const parents = cell.up.filter((l) => !l.cell.dummy);
    if (parents.length === 1 && parents[0].cell.down.filter((l) => !l.cell.dummy).length === 1) cell.spine = parents[0];
  }
  // A chain is as wide as its widest member, so that no neighbour bends it.
  const chains = new Map();
  for (const layer of layers) for (const cell of layer) {
    if (cell.dummy || cell.port || !cell.item || (cell.item.isBox && cell.item.open)) continue;
    const above = cell.spine && cell.spine.cell;
    const chain = (above && chains.get(above)) || { left: 0, right: 0 };
    chain.left = Math.max(chain.left, cell.left);
    chain.right = Math.max(chain.right, cell.right);
    chains.set(cell, chain);
  }
  for (const [cell, chain] of chains) { cell.left = chain.left; cell.right = chain.right; }
  for (let i = 0; i < layers.length; i++) pull(layers[i], true, true, true);
}

function route(box, pieces, layers, lanes) {
  let left = Infinity, right = -Infinity;
  for (const layer of layers) for (const cell of layer) {
    left = Math.min(left, cell.x - cell.left);
    right = Math.max(right, cell.x + cell.right);
  }
  if (left > right) left = right = 0;
  const title = box === top ? 0 : measure(F_HEAD, clip(box.title, 60)) + measure(F_SUB, clip(box.sub, 60)) + 70;
  const inner = Math.max(right - left + lanes.width, title - 2 * PAD);
  const shiftX = PAD - left + (inner - (right - left + lanes.width)) / 2;
  const laneX = right + shiftX + 6;

  // Heights: a gap grows with the lanes that turn in it.
  const turns = new Array(layers.length + 1).fill(0);
  for (const lane of lanes.list) {
    lane.out = turns[lane.start + 1]++;
    lane.into = new Map();
    for (const cell of lane.p.far) if (!lane.into.has(cell.layer)) lane.into.set(cell.layer, turns[cell.layer]++);
  }
  const upper = [], lower = [];
  let y = box === top ? PAD : HEAD + (layers[0].some((cell) => cell.port) ? 0 : 10);
  for (let i = 0; i < layers.length; i++) {
    const height = layers[i].reduce((most, cell) => Math.max(most, cell.h), 0);
    if (i) {
      const port = layers[i - 1][0]?.port || layers[i][0]?.port;
      y += (port ? PORT_GAP : GAP_Y) + Math.min(turns[i], 40) * 5;
    }
    upper.push(y);
    y += height;
    lower.push(y);
  }
  box.w = inner + 2 * PAD;
  box.h = y + (layers[layers.length - 1].some((cell) => cell.port) ? 0 : PAD);
  for (const layer of layers) for (const cell of layer) {
    cell.x += shiftX;
    cell.top = (upper[cell.layer] + lower[cell.layer] - cell.h) / 2;
    if (cell.item) { cell.item.x = cell.x - cell.w / 2; cell.item.y = cell.top; }
  }

  // Where lines leave and enter.
  for (const p of pieces) {
    for (const cell of p.near) cell.takes.push({ p, x: p.trunk[cell.layer - 1 - p.from.layer].x });
    for (const cell of p.far) cell.takes.push({ p, x: laneX + p.lane.slot * LANE_STEP });
    p.entry = new Map();
    p.order = p.to.length ? p.to.reduce((sum, cell) => sum + cell.x, 0) / p.to.length : 0;
  }
  for (const layer of layers) for (const cell of layer) {
    if (cell.dummy) continue;
    const fixed = cell.item && cell.item.isBox && cell.item.open;
    cell.takes.sort((a, b) => a.x - b.x);
    const taken = cell.takes.length, inStep = Math.min(14, (cell.w - 14) / Math.max(1, taken));
    // A line from straight above stays straight, if the others find room beside it.
    const straight = cell.takes.findIndex((take) => Math.abs(take.x - cell.x) < 1);
    const middle = straight >= 0 && Math.max(straight, taken - 1 - straight) * inStep <= cell.w / 2 - 10 ? straight : (taken - 1) / 2;
    cell.takes.forEach((take, i) => {
      take.p.entry.set(cell, fixed ? cell.x + portOffset(cell, take.p.net, true) : cell.x + (i - middle) * inStep);
    });
    cell.sends.sort((a, b) => a.order - b.order);
    const outStep = Math.min(18, (cell.w - 14) / Math.max(1, cell.sends.length));
    cell.sends.forEach((p, i) => {
      p.exitX = fixed ? cell.x + portOffset(cell, p.net, false) : cell.x + (i - (cell.sends.length - 1) / 2) * outStep;
    });
  }
  box.inX = new Map();
  box.outX = new Map();
  box.paths = [];
  for (const p of pieces) {
    if (p.from.port) box.inX.set(p.net, p.from.x);
    if (p.exit) box.outX.set(p.net, p.exit.x);
    box.paths.push(tracePiece(p, upper, lower, laneX, box.h));
  }
}

/* The lines of one piece. `ops` is a flat program: 0 move, 1 line, 2 curve with upright ends. */
function tracePiece(p, upper, lower, laneX, height) {
  const ops = [], arrows = [], start = p.from.layer;
  const startY = p.from.port ? 0 : p.from.top + p.from.h;
  const endY = (cell) => (cell.port ? height : cell.top);
  const pointed = (cell) => cell.item && !(cell.item.isBox && cell.item.open);
  let x0 = Infinity, x1 = -Infinity, y1 = startY;
  const put = (op, x, y) => { ops.push(op, x, y); x0 = Math.min(x0, x); x1 = Math.max(x1, x); y1 = Math.max(y1, y); };
  const leave = (layer) => {
    const cell = p.trunk[layer - start];
    if (cell === p.from) { put(0, p.exitX, startY); put(1, p.exitX, lower[layer]); }
    else put(0, cell.x, lower[layer]);
  };
  for (let layer = start + 1; layer - start < p.trunk.length; layer++) {
    const cell = p.trunk[layer - start];
    leave(layer - 1);
    put(2, cell.x, upper[layer]);
    put(1, cell.x, lower[layer]);
  }
  for (const cell of p.near) {
    leave(cell.layer - 1);
    put(2, p.entry.get(cell), upper[cell.layer]);
    put(1, p.entry.get(cell), endY(cell));
    if (pointed(cell)) arrows.push(p.entry.get(cell), endY(cell));
  }
  if (p.far.length) {
    const x = laneX + p.lane.slot * LANE_STEP, out = lower[start] + 9 + Math.min(p.lane.out, 40) * 5;
    let deepest = out;
    for (const cell of p.far) {
      const turn = upper[cell.layer] - 9 - Math.min(p.lane.into.get(cell.layer), 40) * 5, entry = p.entry.get(cell);
      deepest = Math.max(deepest, turn);
      put(0, x, turn - 7); put(3, x, turn); put(4, x - 7, turn);
      put(1, entry + 7, turn); put(3, entry, turn); put(4, entry, turn + 7);
      put(1, entry, endY(cell));
      if (pointed(cell)) arrows.push(entry, endY(cell));
    }
    put(0, p.exitX, startY); put(1, p.exitX, out - 7); put(3, p.exitX, out); put(4, p.exitX + 7, out);
    put(1, x - 7, out); put(3, x, out); put(4, x, out + 7); put(1, x, deepest - 7);
  }
  const atEnd = p.labelled !== p.from;
  const labelX = (atEnd ? p.entry.get(p.labelled) : p.exitX) + 5;
  const labelY = atEnd ? p.labelled.top - 8 : lower[start] + 11;
  return { net: p.net, ops, arrows, x0, x1: Math.max(x1, labelX + p.labelWidth), y0: Math.min(startY, lower[start]), y1, labelX, labelY, repeated: p.src !== p.net.from };
}

function place(box, X, Y) {
  box.X = X;
  box.Y = Y;
  for (const child of box.children) {
    child.X = X + child.x;
    child.Y = Y + child.y;
    if (child.isBox && child.open) place(child, child.X, child.Y);
  }
}

const timing = { nets: 0, layout: 0, draw: 0 };
function relayout() {
  const t0 = performance.now();
  buildNets();
  const t1 = performance.now();
  layoutBox(top);
  place(top, 0, 0);
  const t2 = performance.now();
  timing.nets = t1 - t0;
  timing.layout = t2 - t1;
  drawMap();
  draw();
}

/* ------------------------------------------------------------- 4 drawing */

const view = { x: 0, y: 0, k: 1, w: 0, h: 0, dpr: 1 };
let selected = null, hovered = null, hits = new Set(), frame = 0, screen = null;

function draw() { if (!frame) frame = requestAnimationFrame(() => { frame = 0; render(); }); }

function render() {
  const t0 = performance.now();
  const { w, h, dpr, k } = view;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.fillStyle = hue.page;
  ctx.fillRect(0, 0, w, h);
  ctx.setTransform(dpr * k, 0, 0, dpr * k, dpr * view.x, dpr * view.y);
  screen = { x0: -view.x / k, y0: -view.y / k, x1: (w - view.x) / k, y1: (h - view.y) / k };
  const lit = new Set();
  for (const item of [selected, hovered]) {
    if (!item) continue;
    if (item.isBox && item.open) for (const p of item.pieces?.values() || []) { if (!p.src || p.leaves) lit.add(p.net); }
    else for (const net of showing(item).nets || []) lit.add(net);
  }
  const later = [];
  drawInside(top, screen, lit, later);
  for (const paint of later) paint();
  for (const item of hits) outline(showing(item), hue.hit, 2.5);
  if (selected) outline(showing(selected), hue.accent, 2.5);
  timing.draw = performance.now() - t0;
  byId("status").textContent = `${plural(drawnItems, "symbol")} of ${plural(vertices.length, "node")} · laid out in ${(timing.nets + timing.layout).toFixed(0)} ms · drawn in ${timing.draw.toFixed(0)} ms · ${Math.round(k * 100)} %`;
  frameMap(screen);
}

function outside(item, s) { return item.X > s.x1 || item.X + item.w < s.x0 || item.Y > s.y1 || item.Y + item.h < s.y0; }

function drawInside(box, s, lit, later) {
  const k = view.k, X = box.X, Y = box.Y;
  // The lines of a box, in one stroke; lit ones again on top of everything.
  const width = Math.max(1.2, 0.7 / k);
  const dashed = [], seen = [];
  ctx.beginPath();
  for (const path of box.paths) {
    if (path.x0 + X > s.x1 || path.x1 + X < s.x0 || path.y0 + Y > s.y1 || path.y1 + Y < s.y0) continue;
    if (lit.has(path.net)) { later.push(() => strokePath(path, X, Y, hue.accent, Math.max(2, 1.2 / k), true)); continue; }
    if (path.net.calls) { dashed.push(path); continue; }
    trace(path, X, Y);
    seen.push(path);
  }
  ctx.strokeStyle = hue.edge;
  ctx.lineWidth = width;
  ctx.stroke();
  for (const path of dashed) { ctx.setLineDash([5, 4]); strokePath(path, X, Y, hue.edge, width, true); ctx.setLineDash([]); }
  if (k > 0.3) {
    ctx.beginPath();
    for (const path of seen) arrowHeads(path, X, Y);
    ctx.fillStyle = hue.edge;
    ctx.fill();
  }
  if (k > 0.5) {
    ctx.font = F_SHAPE;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.fillStyle = hue.label;
    ctx.strokeStyle = box === top ? hue.page : hue.fills[box.depth % 2];
    ctx.lineWidth = 4;
    ctx.lineJoin = "round";
    // Where a line crosses the border of a box its shape is repeated only if its start is off the screen.
    for (const path of seen) if (!path.repeated || outside(path.net.from, s)) label(path, X, Y);
  }
  for (const child of box.children) {
    if (outside(child, s)) continue;
    if (child.isBox && child.open) { openBox(child, k); drawInside(child, s, lit, later); boxTitle(child, k); }
    else symbol(child, k);
  }
}

function trace(path, X, Y) {
  const ops = path.ops;
  let px = 0, py = 0, cx = 0, cy = 0;
  for (let i = 0; i < ops.length; i += 3) {
    const x = ops[i + 1] + X, y = ops[i + 2] + Y;
    switch (ops[i]) {
      case 0: ctx.moveTo(x, y); break;
      case 1: ctx.lineTo(x, y); break;
      case 2: { const bend = Math.max(8, (y - py) * 0.5); if (Math.abs(x - px) < 0.5) ctx.lineTo(x, y); else ctx.bezierCurveTo(px, py + bend, x, y - bend, x, y); break; }
      case 3: cx = x; cy = y; continue;
      default: ctx.quadraticCurveTo(cx, cy, x, y);
    }
    px = x;
    py = y;
  }
}
function arrowHeads(path, X, Y) {
  for (let i = 0; i < path.arrows.length; i += 2) {
    const x = path.arrows[i] + X, y = path.arrows[i + 1] + Y;
    ctx.moveTo(x, y);
    ctx.lineTo(x - 3.6, y - 7);
    ctx.lineTo(x + 3.6, y - 7);
    ctx.closePath();
  }
}
function label(path, X, Y) {
  ctx.strokeText(path.net.label, path.labelX + X, path.labelY + Y);
  ctx.fillText(path.net.label, path.labelX + X, path.labelY + Y);
}
function strokePath(path, X, Y, color, width, heads) {
  ctx.beginPath();
  trace(path, X, Y);
  ctx.strokeStyle = color;
  ctx.lineWidth = width;
  ctx.stroke();
  if (!heads) return;
  ctx.beginPath();
  arrowHeads(path, X, Y);
  ctx.fillStyle = color;
  ctx.fill();
  if (view.k > 0.4 && (!path.repeated || outside(path.net.from, screen))) {
    ctx.font = F_SHAPE;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.strokeStyle = hue.page;
    ctx.lineWidth = 4;
    label(path, X, Y);
  }
}

function rounded(item, r, grow = 0) {
  ctx.beginPath();
  ctx.roundRect(item.X - grow, item.Y - grow, item.w + 2 * grow, item.h + 2 * grow, r);
}
function outline(item, color, width) {
  rounded(item, 9, 2);
  ctx.strokeStyle = color;
  ctx.lineWidth = Math.max(width, 1.6 / view.k);
  ctx.stroke();
}

function openBox(box, k) {
  rounded(box, 10);
  ctx.fillStyle = hue.fills[box.depth % 2];
  ctx.fill();
  ctx.strokeStyle = box === hovered ? hue.accent : hue.border;
  ctx.lineWidth = Math.max(1, 0.6 / k);
  ctx.stroke();
}
function boxTitle(box, k) {
  if (k < 0.22) { if (box.h * k > 14 && box.w * k > 40) farTitle(box, k); return; }
  const title = clip(box.title, 60), wide = measure(F_HEAD, title) + measure(F_SUB, clip(box.sub, 60)) + 40;
  ctx.fillStyle = hue.fills[box.depth % 2];
  ctx.globalAlpha = 0.88;
  ctx.fillRect(box.X + 6, box.Y + 5, Math.min(wide, box.w - 12), HEAD - 10);
  ctx.globalAlpha = 1;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  glyph(box.X + 16, box.Y + HEAD / 2, false);
  ctx.font = F_HEAD;
  ctx.fillStyle = hue.text;
  ctx.fillText(title, box.X + 28, box.Y + HEAD / 2);
  ctx.font = F_SUB;
  ctx.fillStyle = hue.muted;
  ctx.fillText(clip(box.sub, 60), box.X + 36 + measure(F_HEAD, title), box.Y + HEAD / 2);
}
/* From far away the names of modules stay readable: they are drawn in screen size. */
function farTitle(box, k) {
  const size = 11 / k;
  ctx.font = `600 ${size}px ${FONT}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  ctx.fillStyle = hue.muted;
  if (measure(F_HEAD, box.title) < box.w * k - 6) ctx.fillText(box.title, box.X + 4 / k, box.Y + 3 / k);
}
function glyph(x, y, plus) {
  ctx.strokeStyle = hue.module;
  ctx.lineWidth = 1.6;
  ctx.beginPath();
  ctx.moveTo(x - 4, y);
  ctx.lineTo(x + 4, y);
  if (plus) { ctx.moveTo(x, y - 4); ctx.lineTo(x, y + 4); }
  ctx.stroke();
}

function symbol(item, k) {
  const color = hue[item.category];
  if (k < 0.2) {
    ctx.fillStyle = color;
    ctx.globalAlpha = 0.75;
    ctx.fillRect(item.X, item.Y, item.w, item.h);
    ctx.globalAlpha = 1;
    return;
  }
  const round = item.isBox ? 10 : item.raw.kind === "op" ? 7 : 14;
  rounded(item, round);
  ctx.fillStyle = item.isBox ? hue.closed : hue.card;
  ctx.fill();
  ctx.strokeStyle = item === hovered ? hue.accent : item.isBox || item.raw.kind !== "op" ? color : hue.border;
  ctx.lineWidth = item === hovered ? 1.8 : 1.1;
  ctx.stroke();
  const middle = item.Y + item.h / 2;
  ctx.textBaseline = "middle";
  if (item.isBox) {
    if (k > 0.3) glyph(item.X + item.w - 15, item.Y + 15, true);
    ctx.textAlign = "left";
    ctx.font = F_LABEL;
    ctx.fillStyle = hue.text;
    ctx.fillText(clip(item.title, 40), item.X + 13, item.Y + 17);
    ctx.font = F_SUB;
    ctx.fillStyle = hue.muted;
    ctx.fillText(clip(item.sub, 52), item.X + 13, item.Y + 34);
    return;
  }
  if (item.raw.kind === "op") {
    ctx.save();
    rounded(item, round);
    ctx.clip();
    ctx.fillStyle = color;
    ctx.fillRect(item.X, item.Y, 5, item.h);
    ctx.restore();
  }
  ctx.textAlign = "center";
  ctx.font = F_LABEL;
  ctx.fillStyle = item.raw.kind === "op" ? hue.text : color;
  ctx.fillText(clip(item.title, 40), item.X + item.w / 2 + (item.raw.kind === "op" ? 2 : 0), middle + 0.5);
}

/* The small map: all symbols once per layout, the frame of the view once per picture. */
let mapImage = null, mapX = 1, mapY = 1;
function drawMap() {
  // A deep stack is thousands of times as high as wide: each direction has its own scale then.
  const scale = Math.min(168 / (top.w || 1), 230 / (top.h || 1));
  const w = Math.max(64, top.w * scale), h = Math.max(48, top.h * scale);
  mapX = w / (top.w || 1);
  mapY = h / (top.h || 1);
  mapImage = document.createElement("canvas");
  mapImage.width = map.width = Math.ceil(w * view.dpr);
  mapImage.height = map.height = Math.ceil(h * view.dpr);
  map.style.width = w + "px";
  map.style.height = h + "px";
  const c = mapImage.getContext("2d");
  c.scale(mapX * view.dpr, mapY * view.dpr);
  (function visit(box) {
    for (const child of box.children) {
      if (child.isBox && child.open) {
        c.fillStyle = hue.border;
        c.globalAlpha = 0.25;
        c.fillRect(child.X, child.Y, child.w, child.h);
        c.globalAlpha = 1;
        visit(child);
      } else {
        c.fillStyle = hue[child.category];
        c.fillRect(child.X, child.Y, Math.max(1.2 / mapX, child.w), Math.max(0.8 / mapY, child.h));
      }
    }
  })(top);
}
function frameMap(s) {
  if (!mapImage) return;
  const all = s.x0 <= 0 && s.y0 <= 0 && s.x1 >= top.w && s.y1 >= top.h;
  map.hidden = all;
  if (all) return;
  const fx = mapX * view.dpr, fy = mapY * view.dpr;
  mapCtx.clearRect(0, 0, map.width, map.height);
  mapCtx.drawImage(mapImage, 0, 0);
  mapCtx.strokeStyle = hue.accent;
  mapCtx.lineWidth = 1.5 * view.dpr;
  const x0 = Math.max(0, s.x0 * fx), y0 = Math.max(0, s.y0 * fy);
  const x1 = Math.min(map.width, s.x1 * fx), y1 = Math.min(map.height, s.y1 * fy);
  mapCtx.strokeRect(x0 + 1, y0 + 1, Math.max(3, x1 - x0 - 2), Math.max(3, y1 - y0 - 2));
}

function resize() {
  const area = canvas.getBoundingClientRect(), dpr = window.devicePixelRatio || 1;
  if (area.width === view.w && area.height === view.h && dpr === view.dpr) return;
  view.w = area.width;
  view.h = area.height;
  view.dpr = dpr;
  canvas.width = Math.round(view.w * view.dpr);
  canvas.height = Math.round(view.h * view.dpr);
  if (top.paths) render(); // at once: the canvas was cleared
}

/* Everything if that stays readable, else the full width from the top. */
function fit(whole) {
  const edge = 24;
  const across = (view.w - 2 * edge) / (top.w || 1), down = (view.h - 2 * edge) / (top.h || 1);
  let k = Math.min(across, down, 1.25);
  if (!whole && k < 0.45) k = Math.max(Math.min(across, 1), 0.3);
  view.k = Math.max(k, 0.0005);
  view.x = (view.w - top.w * view.k) / 2;
  view.y = top.h * view.k > view.h ? edge : (view.h - top.h * view.k) / 2;
  draw();
}
function zoom(factor, x, y) {
  const k = Math.min(4, Math.max(0.0005, view.k * factor)), real = k / view.k;
  view.x = x - (x - view.x) * real;
  view.y = y - (y - view.y) * real;
  view.k = k;
  draw();
}
function centre(item) {
  const shown = showing(item);
  if (view.k < 0.6) view.k = 0.9;
  view.x = view.w / 2 - (shown.X + shown.w / 2) * view.k;
  view.y = shown.h * view.k > view.h - 80 ? 40 - shown.Y * view.k : view.h / 2 - (shown.Y + shown.h / 2) * view.k;
  draw();
}

/* Open or close, and keep the clicked item where it is on the screen. */
function toggle(box, open = !box.open) {
  if (!box.isBox || box === top) return;
  const before = { x: box.X * view.k + view.x, y: box.Y * view.k + view.y, middle: box.X + box.w / 2 };
  const middle = before.middle * view.k + view.x;
  box.open = open;
  relayout();
  const shown = showing(box);
  view.x = middle - (shown.X + shown.w / 2) * view.k;
  view.y = before.y - shown.Y * view.k;
  draw();
  say(`${box.title} ${open ? "opened" : "closed"}`);
  if (selected === box) showDetails();
}
function openTo(depth) {
  for (const box of boxes) box.open = box.depth <= depth && (!box.single || depth === maxDepth);
  level = depth;
  relayout();
  fit(false);
}
let level = 0;
function reveal(item) {
  let changed = false;
  for (let box = item.parent; box; box = box.parent) if (!box.open) { box.open = true; changed = true; }
  if (changed) relayout();
}

/* The first picture: open whole levels while it stays small. */
function firstDepth() {
  let best = 0;
  for (let depth = 1; depth <= maxDepth; depth++) {
    let number = 0;
    for (const vertex of vertices) {
      let d = vertex.parent.depth;
      if (d <= depth) number++;
    }
    for (const box of boxes) if (box.depth === depth + 1) number++;
    if (number > 60) break;
    best = depth;
  }
  return best;
}

/* -------------------------------------------------------------- 5 panels */

function make(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (key === "class") element.className = value;
    else if (key === "click") element.addEventListener("click", value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}
function say(message) { byId("live").textContent = message; }
function goTo(item, focus) {
  reveal(item);
  select(item);
  centre(item);
  if (focus) canvas.focus();
}
function select(item) {
  selected = item;
  tab(item ? "details" : "stats");
  showDetails();
  if (item) say(item.isBox ? `${item.title}, ${item.sub}` : `${item.title}, ${text(item.raw.name)}, ${item.sub}`);
  draw();
}
function tab(name) {
  for (const id of ["details", "stats"]) {
    byId(id).hidden = id !== name;
    byId("tab-" + id).setAttribute("aria-selected", String(id === name));
  }
}
function crumbs(item) {
  const chain = [];
  for (let box = item.parent; box && box !== top; box = box.parent) chain.unshift(box);
  if (!chain.length) return null;
  const line = make("p", { class: "crumbs" });
  chain.forEach((box, i) => {
    if (i) line.append("›");
    line.append(make("button", { class: "link", textContent: box.title || "·", click: () => goTo(box) }));
  });
  return line;
}
function section(title, ...content) { return [make("h3", { textContent: title }), ...content]; }
function pairs(rows) {
  const list = make("dl");
  for (const [key, value] of rows) list.append(make("dt", { textContent: key }), make("dd", { class: "mono", textContent: value }));
  return list;
}
function itemList(entries) {
  const list = make("ul", { class: "list" });
  const add = (from, to) => {
    for (const [item, prefix, detail] of entries.slice(from, to)) {
      list.append(make("li", null,
        prefix ? make("span", { class: "sub", textContent: prefix + " " }) : null,
        make("button", { class: "link", textContent: item.isBox ? item.title : text(item.raw.name), click: () => goTo(item) }),
        detail ? make("span", { class: "mono", textContent: " " + detail }) : null));
    }
    if (entries.length > to) {
      const more = make("button", { class: "link", textContent: `${entries.length - to} more`, click: () => { more.remove(); add(to, to + 500); } });
      list.append(more);
    }
  };
  add(0, 40);
  return list;
}

function showDetails() {
  const panel = byId("details");
  panel.replaceChildren();
  const item = selected;
  if (!item) {
    panel.append(make("p", { class: "sub", textContent: "Nothing is selected. Click a symbol, or search with /." }));
    return;
  }
  panel.append(make("h2", { textContent: item.title || "·" }));
  if (item.isBox) boxDetails(panel, item);
  else vertexDetails(panel, item);
}

function vertexDetails(panel, item) {
  const raw = item.raw;
  panel.append(make("p", { class: "sub mono", textContent: raw.kind === "op" ? text(raw.op) : raw.kind }));
  const where = crumbs(item);
  if (where) panel.append(where);
  panel.append(...section("Node", pairs([
    ["name", text(raw.name)],
    ...(raw.kind === "op" ? [["category", item.category], ["module", raw.path === undefined ? "(root)" : text(raw.path)]] : []),
  ])));
  if (raw.out.length) panel.append(...section(raw.out.length === 1 ? "Output" : "Outputs", pairs(raw.out.map((shape, i) => [raw.out.length === 1 ? "value" : String(i), text(shape)]))));
  if (raw.args && raw.args.length) panel.append(...section("Arguments", pairs(raw.args.map(([key, value]) => [text(key), text(value)]))));
  if (raw.weights) panel.append(...section("Weights", pairs(raw.weights.flatMap(([argument, key, shape, , size]) => [[text(argument), `${text(key)}\u2003${text(shape)}\u2003${bytes(size)}`]]))));
  if (item.ins.length) panel.append(...section("Reads", itemList(item.ins.map((i) => [vertices[data.edges[i][0]], text(data.edges[i][4]), text(data.edges[i][3])]))));
  if (item.outs.length) panel.append(...section("Read by", itemList(item.outs.map((i) => [vertices[data.edges[i][1]], "", text(data.edges[i][4])]))));
  if (raw.source !== undefined) panel.append(...section("Source", make("pre", { textContent: text(raw.source) })));
}

function boxDetails(panel, box) {
  const full = text(box.raw.type);
  panel.append(make("p", { class: "sub mono", textContent: full || box.raw.kind }));
  const where = crumbs(box);
  if (where) panel.append(where);
  panel.append(make("div", { class: "actions" },
    make("button", { textContent: box.open ? "Close" : "Open", click: () => toggle(box) }),
    make("button", { textContent: "Open all inside", click: () => { openInside(box); } })));
  const seen = new Map(), ops = new Map(), enter = new Map(), leave = new Map();
  for (let id = box.first; id <= box.last; id++) {
    const vertex = vertices[id];
    if (vertex.raw.kind === "op") ops.set(text(vertex.raw.op), (ops.get(text(vertex.raw.op)) || 0) + 1);
    for (const weight of vertex.raw.weights || []) seen.set(weight[1], weight);
    for (const i of vertex.ins) { const e = data.edges[i]; if (e[0] < box.first || e[0] > box.last) enter.set(`${e[0]}.${e[2]}`, [vertices[e[0]], "", text(e[3])]); }
    for (const i of vertex.outs) { const e = data.edges[i]; if (e[1] < box.first || e[1] > box.last) leave.set(`${e[0]}.${e[2]}`, [vertex, "", text(e[3])]); }
  }
  let size = 0;
  for (const weight of seen.values()) size += weight[4];
  panel.append(...section("Module", pairs([
    ["path", text(box.raw.path)], ["ops", box.ops.toLocaleString("en")],
    ["weights", seen.size ? `${plural(seen.size, "tensor")}, ${count(box.elements)}, ${bytes(size)}` : "none"],
  ])));
  if (enter.size) panel.append(...section("Comes in", itemList([...enter.values()])));
  if (leave.size) panel.append(...section("Goes out", itemList([...leave.values()])));
  panel.append(...section("Ops", bars([...ops].sort((a, b) => b[1] - a[1]).map(([op, number]) => ({ name: op, value: number, shown: String(number), click: () => query(op) })))));
}
function openInside(box) {
  for (const other of boxes) for (let up = other; up; up = up.parent) if (up === box) { other.open = true; break; }
  relayout();
  centre(box);
  showDetails();
}

function bars(rows, most = 14) {
  const list = make("div"), largest = rows.reduce((top, row) => Math.max(top, row.value), 1);
  const add = (from, to) => {
    for (const row of rows.slice(from, to)) {
      const fill = make("i");
      fill.style.width = `${(row.value / largest) * 100}%`;
      list.append(make("button", { class: "row", title: row.title || "", click: row.click }, fill,
        make("span", { class: "name", textContent: row.name }), make("span", { class: "num", textContent: row.shown })));
    }
    if (rows.length > to) {
      const more = make("button", { class: "link", textContent: `${rows.length - to} more`, click: () => { more.remove(); add(to, rows.length); } });
      list.append(more);
    }
  };
  add(0, most);
  return list;
}

function showStatistics() {
  const s = data.statistics, panel = byId("stats");
  const card = (value, name) => make("div", null, make("b", { textContent: value }), make("span", { textContent: name }));
  panel.append(make("h2", { textContent: data.model }), make("div", { class: "cards" },
    card(s.nodes.toLocaleString("en"), "nodes"), card(String(s.ops.length), "different ops"),
    card(count(s.weights[2]), "parameters and buffers"), card(bytes(s.weights[3]), "weight bytes"),
    card(`${s.inputs} → ${s.outputs}`, "inputs → outputs"), card(bytes(s.constants[3]), plural(s.constants[1], "constant"))));
  if (s.weights[1]) panel.append(...section("Parameters by module", ...moduleRows(s)));
  panel.append(...section("Ops", bars(s.ops.map(([op, number]) => ({ name: op, value: number, shown: number.toLocaleString("en"), click: () => query(op) })))));
  if (s.dtypes.length) panel.append(...section("Weights by dtype", bars(s.dtypes.map(([name, tensors, elements, size]) => ({ name, value: size, shown: bytes(size), title: `${plural(tensors, "tensor")}, ${elements.toLocaleString("en")} elements`, click: () => query(name) })))));
}
/* A dozen rows that together are the whole: the largest part is divided while there is room. */
function moduleRows(s) {
  const kids = new Map();
  for (const row of s.modules) {
    if (row[0] === "") continue;
    const cut = row[0].lastIndexOf("."), parent = cut < 0 ? "" : row[0].slice(0, cut);
    if (!kids.has(parent)) kids.set(parent, []);
    kids.get(parent).push(row);
  }
  const parts = (row) => {
    const below = kids.get(row[0]) || [];
    const own = [1, 2, 3].map((i) => row[i] - below.reduce((sum, part) => sum + part[i], 0));
    return below.length && own[0] ? [...below, [`${row[0]} (itself)`.trim(), ...own]] : below;
  };
  let rows = [s.modules[0]];
  for (;;) {
    const largest = rows.reduce((most, row) => (row[2] > most[2] ? row : most)), below = parts(largest);
    if (!below.length || rows.length - 1 + below.length > 12) break;
    rows = rows.flatMap((row) => (row === largest ? below : [row]));
  }
  return [bars(rows.map(([path, tensors, elements, size]) => ({
    name: path || "(root)", value: elements, shown: `${count(elements)} · ${bytes(size)}`, title: plural(tensors, "tensor"),
    click: () => { const box = boxes.find((b) => text(b.raw.path) === path); if (box) goTo(box); else query(path); },
  })))];
}

/* Search: every word must occur somewhere in what is known of an item. */
let index = null, found = [], at = -1;
function haystack() {
  if (index) return index;
  index = [];
  for (const box of boxes) index.push([box, `${box.title} ${text(box.raw.path)} ${text(box.raw.type)}`.toLowerCase()]);
  for (const vertex of vertices) {
    const raw = vertex.raw;
    const words = [text(raw.label), text(raw.name), raw.kind, ...raw.out.map(text)];
    if (raw.kind === "op") words.push(text(raw.op), vertex.category);
    if (raw.path !== undefined) words.push(text(raw.path));
    if (raw.source !== undefined) words.push(text(raw.source));
    for (const weight of raw.weights || []) words.push(text(weight[1]), text(weight[2]));
    index.push([vertex, words.join(" ").toLowerCase()]);
  }
  return index;
}
function search(value) {
  const words = value.toLowerCase().split(/\s+/).filter(Boolean);
  found = words.length ? haystack().filter(([, hay]) => words.every((word) => hay.includes(word))).map(([item]) => item) : [];
  const rank = (item) => { const t = item.title.toLowerCase(); return t === words[0] ? 0 : t.startsWith(words[0]) ? 1 : t.includes(words[0]) ? 2 : 3; };
  if (words.length) found.sort((a, b) => rank(a) - rank(b));
  hits = new Set(found);
  at = found.length ? 0 : -1;
  const list = byId("hits");
  list.replaceChildren(...found.slice(0, 100).map((item, i) => {
    const dot = make("i", { class: "dot" });
    dot.style.background = hue[item.category];
    const detail = item.isBox ? `${text(item.raw.path)} · ${item.sub}` : [text(item.raw.name), item.raw.path === undefined ? "" : text(item.raw.path), item.sub].filter(Boolean).join(" · ");
    const row = make("li", { id: "hit" + i, role: "option", click: () => { at = i; choose(); byId("search").focus(); } }, dot, make("b", { textContent: clip(item.title, 60) }), make("span", { textContent: detail }));
    row.setAttribute("role", "option");
    return row;
  }));
  byId("found").textContent = words.length ? plural(found.length, "match").replace("matchs", "matches") + (found.length > 100 ? ", the first 100 are listed" : "") : "";
  byId("results").hidden = !words.length;
  byId("search").setAttribute("aria-expanded", String(Boolean(words.length)));
  mark();
  draw();
}
function mark() {
  for (const [i, row] of [...byId("hits").children].entries()) {
    row.setAttribute("aria-selected", String(i === at));
    if (i === at) { row.scrollIntoView({ block: "nearest" }); byId("search").setAttribute("aria-activedescendant", row.id); }
  }
}
function choose() {
  if (at < 0) return;
  mark();
  goTo(found[at], false);
}
function query(value) {
  byId("search").value = value;
  search(value);
  byId("search").focus();
}
function closeSearch() {
  byId("results").hidden = true;
  byId("search").setAttribute("aria-expanded", "false");
}

/* --------------------------------------------------------------- 6 input */

function hit(x, y) {
  const px = (x - view.x) / view.k, py = (y - view.y) / view.k;
  let best = null;
  (function visit(box) {
    for (const child of box.children) {
      if (px < child.X || py < child.Y || px > child.X + child.w || py > child.Y + child.h) continue;
      best = child;
      if (child.isBox && child.open) visit(child);
    }
  })(top);
  return { item: best, px, py };
}
function onSign({ item, px, py }) {
  if (!item || !item.isBox) return false;
  return item.open ? px < item.X + 28 && py < item.Y + HEAD : px > item.X + item.w - 28 && py < item.Y + 28;
}

const pointers = new Map();
let moved = false;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  if (pointers.size === 1) moved = false;
  closeSearch();
});
canvas.addEventListener("pointermove", (event) => {
  const last = pointers.get(event.pointerId), x = event.offsetX, y = event.offsetY;
  if (!last) { hover(x, y); return; }
  if (pointers.size === 1) {
    if (!moved && Math.hypot(x - last.x, y - last.y) < 4) return;
    moved = true;
    canvas.classList.add("dragging");
    byId("tip").hidden = true;
    view.x += x - last.x;
    view.y += y - last.y;
    draw();
  } else if (pointers.size === 2) {
    moved = true;
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const before = Math.hypot(last.x - other.x, last.y - other.y), after = Math.hypot(x - other.x, y - other.y);
    if (before > 0) zoom(after / before, (x + other.x) / 2, (y + other.y) / 2);
  }
  pointers.set(event.pointerId, { x, y });
});
canvas.addEventListener("pointerup", (event) => {
  pointers.delete(event.pointerId);
  canvas.classList.remove("dragging");
  if (moved || event.button !== 0) return;
  const spot = hit(event.offsetX, event.offsetY);
  if (onSign(spot)) { selected = spot.item; toggle(spot.item); select(spot.item); }
  else select(spot.item);
});
canvas.addEventListener("pointercancel", (event) => { pointers.delete(event.pointerId); canvas.classList.remove("dragging"); });
canvas.addEventListener("pointerleave", () => { hovered = null; byId("tip").hidden = true; draw(); });
canvas.addEventListener("dblclick", (event) => {
  const spot = hit(event.offsetX, event.offsetY);
  if (spot.item && spot.item.isBox && !onSign(spot)) { toggle(spot.item); select(spot.item); }
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? view.h : 1;
  if (event.shiftKey) { view.x -= (event.deltaX || event.deltaY) * unit; draw(); return; }
  zoom(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0016)), event.offsetX, event.offsetY);
}, { passive: false });

function hover(x, y) {
  const { item } = hit(x, y), tip = byId("tip");
  canvas.classList.toggle("over", Boolean(item));
  if (item !== hovered) { hovered = item; draw(); }
  if (!item || (item.isBox && item.open)) { tip.hidden = true; return; }
  tip.replaceChildren(make("b", { textContent: item.title }), make("span", { textContent: item.isBox ? `${text(item.raw.path)} · ${item.sub}` : [item.raw.kind === "op" ? text(item.raw.op) : item.raw.kind, text(item.raw.name), item.raw.out.map(text).join(", ")].filter(Boolean).join(" · ") }));
  tip.hidden = false;
  tip.style.left = `${Math.min(x + 14, view.w - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(y + 16, view.h - tip.offsetHeight - 8)}px`;
}

function mapMove(event) {
  if (event.type === "pointerdown") map.setPointerCapture(event.pointerId);
  else if (!map.hasPointerCapture(event.pointerId)) return;
  view.x = view.w / 2 - event.offsetX / mapX * view.k;
  view.y = view.h / 2 - event.offsetY / mapY * view.k;
  draw();
}
map.addEventListener("pointerdown", mapMove);
map.addEventListener("pointermove", mapMove);

/* With a selection, arrows walk along the data; without, they move the picture. */
function walk(direction) {
  if (!selected) return false;
  const item = showing(selected);
  if (item.isBox && item.open) {
    if (direction !== "down") return false;
    goTo(item.children[0], false);
    return true;
  }
  let next = null;
  if (direction === "down" || direction === "up") {
    const options = [];
    for (const net of item.nets) {
      if (direction === "down" && net.from === item) options.push(...net.targets);
      if (direction === "up" && net.from !== item) options.push(net.from);
    }
    const gap = (o) => Math.abs(o.X + o.w / 2 - item.X - item.w / 2) + Math.abs(o.Y - item.Y);
    next = options.sort((a, b) => gap(a) - gap(b))[0];
  } else {
    const sign = direction === "right" ? 1 : -1;
    const level = item.parent.children.filter((o) => (o.X - item.X) * sign > 0 && Math.abs(o.Y + o.h / 2 - item.Y - item.h / 2) < 40);
    next = level.sort((a, b) => Math.abs(a.X - item.X) - Math.abs(b.X - item.X))[0];
  }
  if (next) goTo(next, false);
  return true;
}

const KEYS = [
  ["/", "search"], ["Enter", "in the search: show the match; else open or close the module"], ["↑ ↓", "to what it reads, to what reads it (nothing selected: move)"],
  ["← →", "to its neighbours (nothing selected: move)"], ["Shift + arrows", "move the picture"], ["+ −", "zoom"], ["0", "show everything"],
  ["] [", "open or close one level of modules"], ["s", "statistics"], ["d", "light or dark"], ["Backspace", "to the module around it"], ["Esc", "nothing selected"],
];
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target === byId("search")) { searchKey(event); return; }
  if (byId("help").open) return;
  if (event.key === "Enter" && target !== canvas && target !== document.body) return;
  const step = 80, pan = { ArrowUp: [0, step], ArrowDown: [0, -step], ArrowLeft: [step, 0], ArrowRight: [-step, 0] }[event.key];
  if (pan) {
    if (target.closest && target.closest("aside")) return;
    if (event.shiftKey || !walk(event.key.slice(5).toLowerCase())) { view.x += pan[0]; view.y += pan[1]; draw(); }
  } else if (event.key === "/") byId("search").select();
  else if (event.key === "+" || event.key === "=") zoom(1.25, view.w / 2, view.h / 2);
  else if (event.key === "-") zoom(0.8, view.w / 2, view.h / 2);
  else if (event.key === "0") fit(true);
  else if (event.key === "]") openTo(Math.min(maxDepth, level + 1));
  else if (event.key === "[") openTo(Math.max(0, level - 1));
  else if (event.key === "d") byId("theme").click();
  else if (event.key === "s") tab("stats");
  else if (event.key === "?") byId("keys").click();
  else if (event.key === "Escape") { hits = new Set(); select(null); }
  else if (event.key === "Enter") { const item = selected && showing(selected); if (item && item.isBox) { toggle(item); select(item); } }
  else if (event.key === "Backspace") { const box = selected && showing(selected).parent; if (box && box !== top) goTo(box, false); }
  else return;
  event.preventDefault();
});
function searchKey(event) {
  const listed = Math.min(found.length, 100);
  if (event.key === "Escape") {
    if (byId("results").hidden) { byId("search").value = ""; search(""); canvas.focus(); } else closeSearch();
  } else if (event.key === "Enter") {
    if (byId("results").hidden && found.length) at = (at + (event.shiftKey ? listed - 1 : 1)) % listed;
    choose();
    closeSearch();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!listed) return;
    byId("results").hidden = false;
    at = (at + (event.key === "ArrowDown" ? 1 : listed - 1)) % listed;
    mark();
  } else return;
  event.preventDefault();
}
byId("search").addEventListener("input", (event) => search(event.target.value));
byId("search").addEventListener("focus", () => { if (found.length) byId("results").hidden = false; });
document.addEventListener("pointerdown", (event) => { if (!byId("searchbox").contains(event.target)) closeSearch(); });

function setTheme(name) {
  root.dataset.theme = name;
  hue = HUES[name];
  drawMap();
  draw();
}
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));

for (const [id, action] of Object.entries({
  less: () => openTo(Math.max(0, level - 1)), more: () => openTo(Math.min(maxDepth, level + 1)),
  all: () => openTo(maxDepth), none: () => openTo(0), fit: () => fit(true),
  theme: () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"),
  keys: () => byId("help").showModal(),
  "tab-details": () => tab("details"), "tab-stats": () => tab("stats"),
})) byId(id).addEventListener("click", action);
{
  const list = make("dl");
  for (const [keys, what] of KEYS) list.append(make("dt", null, make("kbd", { textContent: keys })), make("dd", { textContent: what }));
  byId("help").append(make("h2", { textContent: "Keys" }), list, make("button", { textContent: "Close", click: () => byId("help").close() }));
}

/* #open=all or #open=2, #select=<node name or module path>, #search=<words>, #theme=dark, #fit=all */
function fromFragment() {
  const wish = new URLSearchParams(location.hash.slice(1));
  if (HUES[wish.get("theme")]) setTheme(wish.get("theme"));
  if (wish.has("open")) openTo(wish.get("open") === "all" ? maxDepth : Math.min(maxDepth, Math.max(0, parseInt(wish.get("open"), 10) || 0)));
  if (wish.get("fit") === "all") fit(true);
  if (wish.has("select")) {
    const name = wish.get("select");
    const item = boxes.find((b) => text(b.raw.path) === name) || vertices.find((v) => text(v.raw.name) === name);
    if (item) goTo(item, false);
    else say(`nothing is named ${name}`);
  }
  if (wish.has("search")) query(wish.get("search"));
}
window.addEventListener("hashchange", fromFragment);
new ResizeObserver(resize).observe(byId("stage"));

byId("model").textContent = data.model;
root.dataset.theme = prefersDark.matches ? "dark" : "light";
hue = HUES[root.dataset.theme];
resize();
showStatistics();
showDetails();
openTo(firstDepth());
fromFragment();
render();
})();
