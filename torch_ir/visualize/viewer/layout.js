/* The layout of each open box: layers, order, positions, lanes. */

/* Lays out an open box after the open boxes inside it. Every child then has x and y relative to the
   box, and box.paths has the lines inside it. */
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
  // The shape is written at the start of a line; at its end if the symbol has several lines.
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

/* Layers by the longest path; the children are in program order, which is a topological order. A
   child that only prepares an operand (a constant, an arange) then moves down to its reader. */
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
   A line through many layers runs in a lane at the right border instead. */
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

/* The distance between a cell's centre and the net's port; only open boxes have ports. */
function portOffset(cell, net, entering) {
  if (!cell.item || !cell.item.isBox || !cell.item.open) return 0;
  const ports = entering ? cell.item.inX : cell.item.outX;
  return ports.get(net) - cell.item.w / 2;
}

/* Aligns each cell with its neighbours above and below: least squares for each layer, with a fixed
   order and a minimum distance, solved exactly by merging neighbours that collide. */
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
      // Open boxes are aligned by their centres: aligned by ports, a long stack would drift sideways.
      const spine = ports && cell.spine;
      if (ports && cell.item && cell.item.isBox && cell.item.open) { sum = 1e5 * cell.x; weight = 1e5; }
      else if (spine) { weight = cell.dummy ? 20 : 3000; sum = weight * (spine.cell.x + portOffset(spine.cell, spine.net, false)); }
      else {
        if (up) for (const l of cell.up) { sum += l.k * (l.cell.x + (ports ? portOffset(l.cell, l.net, false) : 0)); weight += l.k; }
        if (down) for (const l of cell.down) { sum += l.k * (l.cell.x + (ports ? portOffset(l.cell, l.net, true) : 0)); weight += l.k; }
      }
      if (!ports && !cell.dummy && weight) weight += cell.item && cell.item.open ? 4 : 0.4; // a pull to the middle, against drift
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
  // Last, from above: the only (real) successor of its only (real) predecessor is placed exactly
  // below it, and so is each step of a long line.
  const plain = (cell) => (cell.item && !(cell.item.isBox && cell.item.open)) || cell.port === 2;
  for (const layer of layers) for (const cell of layer) {
    if (cell.dummy) { if (cell.up[0].cell.dummy) cell.spine = cell.up[0]; continue; }
    if (!plain(cell)) continue;
    const parents = cell.up.filter((l) => !l.cell.dummy);
    if (parents.length === 1 && parents[0].cell.down.filter((l) => !l.cell.dummy).length === 1) cell.spine = parents[0];
  }
  // A chain is as wide as its widest cell, so that no neighbour bends it.
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

  // Heights: a gap grows with the number of lanes that turn in it.
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

  // The points at which lines leave and enter cells.
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
    // A line from directly above stays straight if there is room for the others.
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
