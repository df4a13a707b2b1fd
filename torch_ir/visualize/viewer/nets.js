/* The values that are visible between items, given the open boxes. */

/* A net is all values that one visible item sends to the same set of visible items; usually it is one
   value. Inside each open box that it crosses, a net has a piece: from a child, or from the upper
   border of the box, to children and possibly to the lower border. */
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
  const above = new Map(); // open box around the source -> its child that contains the source
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
