/* The embedded JSON as items: vertices and boxes in one tree. */

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("ir-data").textContent);
const text = (index) => data.strings[index];
const canvas = byId("graph"), ctx = canvas.getContext("2d");
const map = byId("map"), mapCtx = map.getContext("2d");
const root = document.documentElement;

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

/* An item is a vertex or a box. Both have: id, isBox, parent, title, sub, category, X Y w h (page
   coordinates), first and last (ids of the vertices inside: a box is an interval of the program). */
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
/* What the symbols are: "78 nodes, 2 inputs, 1 output". The nodes are those that the statistics count. */
const kinds = [["op", "node"], ["input", "input"], ["constant", "constant"], ["weight", "weight"], ["output", "output"], ["mutation", "mutation"]]
  .map(([kind, word]) => [vertices.filter((v) => v.raw.kind === kind).length, word])
  .filter(([number, word]) => number || word === "node").map(([number, word]) => plural(number, word)).join(", ");
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
